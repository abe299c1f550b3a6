--- The input buffer of a root: a draft of several lines that outlives its window, and its history.
local config = require("oh.config")
local daemons = require("oh.daemon")
local mention = require("oh.mention")
local tell = require("oh.tell")

local M = {}

---@class oh.Input
---@field buf integer
---@field history string[] Messages sent from here, oldest first.
---@field shown string[] The history while it is browsed, with the conversation's messages.
---@field place integer The entry of `shown` that is in the buffer; one past the end is the draft.
---@field draft string
---@field kept? string[] The lines of a buffer that was deleted.

---@type table<string, oh.Input>
local inputs = {}

--- The buffer for messages to the agent of this root.
---@param root string
---@return integer
function M.buffer(root)
  local input = inputs[root] or { history = {}, shown = {}, place = 1, draft = "" }
  inputs[root] = input
  if not (input.buf and vim.api.nvim_buf_is_loaded(input.buf)) then
    input.buf = vim.api.nvim_create_buf(false, true)
    vim.api.nvim_buf_set_name(input.buf, require("oh.names").free("oh://message"))
    vim.b[input.buf].oh_root = root
    vim.bo[input.buf].bufhidden = "hide"
    vim.api.nvim_buf_set_lines(input.buf, 0, -1, false, input.kept or {})
    M.keep(input, input.buf)
    vim.api.nvim_create_autocmd("ModeChanged", {
      buffer = input.buf,
      desc = "oh: another mode has other keys",
      command = "redrawstatus",
    })
    vim.bo[input.buf].filetype = "oh-input"
  end
  return input.buf
end

--- Keep the draft when its buffer is deleted, for instance by `:%bdelete`.
---@param input oh.Input
---@param buf integer
function M.keep(input, buf)
  vim.api.nvim_create_autocmd("BufUnload", {
    buffer = buf,
    desc = "oh: the draft outlives its buffer",
    callback = function()
      input.kept = vim.api.nvim_buf_get_lines(buf, 0, -1, false)
      require("oh.names").give_back(buf)
    end,
  })
end

--- A key as people call it.
---@param key string
---@return string
local function spoken(key)
  return (
    key:gsub("^<CR>$", "Enter"):gsub("^<[Cc]%-(.)>$", function(letter)
      return "Ctrl-" .. letter:upper()
    end)
  )
end

--- For 'winbar': what sends the message, and what else to know, in the mode that the user is in.
---@return string
function M.label()
  local keys = config.current().keys.input
  local is_here = tonumber(vim.g.actual_curwin) == vim.api.nvim_get_current_win()
  if is_here and vim.fn.mode():find("^[iR]") and keys.send_insert then
    local sends = spoken(keys.send_insert) .. " sends"
    return keys.send_insert == "<CR>" and sends or sends .. ", Enter: new line"
  end
  local said = { keys.send and spoken(keys.send) .. " sends" or nil }
  table.insert(said, keys.help and spoken(keys.help) .. " helps" or nil)
  return table.concat(said, ", ")
end

---@param buf integer
---@return string
local function text_of(buf)
  return table.concat(vim.api.nvim_buf_get_lines(buf, 0, -1, false), "\n")
end

---@param buf integer
---@param text string
local function set_text(buf, text)
  local lines = vim.split(text, "\n", { plain = true })
  vim.api.nvim_buf_set_lines(buf, 0, -1, false, lines)
  for _, win in ipairs(vim.fn.win_findbuf(buf)) do
    vim.api.nvim_win_set_cursor(win, { #lines, #lines[#lines] })
  end
end

--- Send the draft and empty the buffer.
function M.send()
  local root = daemons.root()
  local input = inputs[root]
  local text = input and vim.trim(text_of(input.buf)) or ""
  if text == "" then
    tell.message("the message is empty")
    return
  end
  if not require("oh").send(text) then
    return
  end
  table.insert(input.history, text)
  input.shown, input.place, input.draft = {}, 1, ""
  set_text(input.buf, "")
end

--- Put text at the end of the draft, and the cursor behind it unless the user is writing there.
---@param root string
---@param text string
function M.append(root, text)
  local buf = M.buffer(root)
  local before = text_of(buf)
  local is_here = vim.api.nvim_get_current_buf() == buf
  if before ~= "" and is_here and vim.fn.mode():find("^[iR]") then
    vim.api.nvim_buf_set_lines(buf, -1, -1, false, vim.split(text, "\n", { plain = true }))
    return
  end
  set_text(buf, before == "" and text .. " " or ("%s\n%s "):format(vim.trim(before), text))
end

--- On the first line recall an older message, elsewhere go to the line above.
function M.older()
  if vim.fn.pumvisible() == 1 then
    vim.api.nvim_feedkeys(vim.keycode("<C-p>"), "ni", false)
  elseif vim.fn.line(".") > 1 then
    vim.api.nvim_feedkeys(vim.keycode("<Up>"), "ni", false)
  else
    M.browse(-1)
  end
end

--- On the last line recall a newer message, elsewhere go to the line below.
function M.newer()
  if vim.fn.pumvisible() == 1 then
    vim.api.nvim_feedkeys(vim.keycode("<C-n>"), "ni", false)
  elseif vim.fn.line(".") < vim.fn.line("$") then
    vim.api.nvim_feedkeys(vim.keycode("<Down>"), "ni", false)
  else
    M.browse(1)
  end
end

---@param step integer
function M.browse(step)
  local root = daemons.root()
  local input = inputs[root]
  if not input then
    return
  end
  if input.place > #input.shown then
    input.draft = text_of(input.buf)
    input.shown = M.messages(input, daemons.known(root))
    input.place = #input.shown + 1
  end
  local place = input.place + step
  if place >= 1 and place <= #input.shown + 1 then
    input.place = place
    set_text(input.buf, input.shown[place] or input.draft)
  end
end

--- The user's messages: those of the current conversation, then those sent from this input.
---@param input oh.Input
---@param daemon? oh.Daemon
---@return string[]
function M.messages(input, daemon)
  local sent = {}
  for _, text in ipairs(input.history) do
    sent[text] = true
  end
  local current = daemon and daemon.target.conversation
  local messages = {}
  for _, entry in ipairs(current and current.entries or {}) do
    if entry.item.kind == "userMessage" then
      local text = require("oh.transcript").written(entry.item.content)
      if text ~= "" and not sent[text] then
        table.insert(messages, text)
      end
    end
  end
  return vim.list_extend(messages, input.history)
end

--- Mention a file, or lines of it, in the draft.
---@param buf integer
---@param root string
---@param first? integer
---@param last? integer
---@return boolean mentioned
function M.mention(buf, root, first, last)
  local text = mention.of_buffer(buf, root, first, last)
  if not text then
    tell.warning("only a file under " .. root .. " can be mentioned")
    return false
  end
  M.append(root, text)
  return true
end

return M
