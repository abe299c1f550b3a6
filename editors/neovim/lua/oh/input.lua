--- The input buffer of a root: a draft of several lines that survives its window, and its history.
local daemons = require("oh.daemon")
local mention = require("oh.mention")
local tell = require("oh.tell")

local M = {}

---@class oh.Input
---@field buf integer
---@field history string[] Oldest first.
---@field place integer The entry of the history that is shown; one more is the draft.
---@field draft string

---@type table<string, oh.Input>
local inputs = {}

--- The buffer for messages to the agent of this root.
---@param root string
---@return integer
function M.buffer(root)
  local input = inputs[root] or { history = {}, place = 1, draft = "" }
  inputs[root] = input
  if not (input.buf and vim.api.nvim_buf_is_loaded(input.buf)) then
    input.buf = vim.api.nvim_create_buf(false, true)
    vim.api.nvim_buf_set_name(input.buf, "oh://message" .. root)
    vim.b[input.buf].oh_root = root
    vim.bo[input.buf].bufhidden = "hide"
    vim.bo[input.buf].filetype = "oh-input"
  end
  return input.buf
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
  input.place, input.draft = #input.history + 1, ""
  set_text(input.buf, "")
end

--- Put text at the end of the draft.
---@param root string
---@param text string
function M.append(root, text)
  local buf = M.buffer(root)
  local before = text_of(buf)
  set_text(buf, before == "" and text .. " " or ("%s\n%s "):format(vim.trim(before), text))
end

--- On the first line the older message of the history, elsewhere the line above.
function M.older()
  if vim.fn.line(".") > 1 then
    vim.cmd("normal! k")
  else
    M.browse(-1)
  end
end

--- On the last line the newer message of the history, elsewhere the line below.
function M.newer()
  if vim.fn.line(".") < vim.fn.line("$") then
    vim.cmd("normal! j")
  else
    M.browse(1)
  end
end

---@param step integer
function M.browse(step)
  local input = inputs[daemons.root()]
  local place = input and input.place + step or 0
  if place < 1 or place > #input.history + 1 then
    return
  end
  if input.place == #input.history + 1 then
    input.draft = text_of(input.buf)
  end
  input.place = place
  set_text(input.buf, input.history[place] or input.draft)
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
