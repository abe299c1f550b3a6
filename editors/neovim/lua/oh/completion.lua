--- Completion in the input: commands after a `/` at its start, and after an `@` files, folders,
--- symbols, conversations, changes, pages and skills, which the daemon finds. A choice is
--- remembered until the message is sent.
local mention = require("oh.mention")

local M = {}

local LIMIT = 20

--- The word that is being completed, from its sign on.
---@class oh.Word
---@field sign "/"|"@"
---@field text string Without the sign.
---@field start integer Byte column behind the sign, from 1.
---@field line string Up to the cursor; when it has changed, an answer comes too late.

---@return oh.Word?
function M.word()
  local line = vim.api.nvim_get_current_line():sub(1, vim.fn.col(".") - 1)
  local command = vim.fn.line(".") == 1 and line:match("^/(%S*)$")
  if command then
    return { sign = "/", text = command, start = 2, line = line }
  end
  local at, text = line:match("^.*()@(%S*)$")
  local is_inside = at and at > 1 and line:sub(at - 1, at - 1):find("%w")
  if at and not is_inside then
    return { sign = "@", text = text, start = at + 1, line = line }
  end
end

--- Offer completions for what is typed in an input.
---@param buf integer
function M.follow(buf)
  vim.bo[buf].completeopt = "menuone,noselect"
  local group = vim.api.nvim_create_augroup("oh.completion" .. buf, { clear = true })
  vim.api.nvim_create_autocmd({ "TextChangedI", "TextChangedP" }, {
    group = group,
    buffer = buf,
    desc = "oh: offer what can be mentioned, and commands",
    callback = M.suggest,
  })
  vim.api.nvim_create_autocmd("CompleteDone", {
    group = group,
    buffer = buf,
    desc = "oh: remember what a mention stands for",
    callback = function()
      local item = vim.v.completed_item
      if type(item.user_data) == "table" and item.user_data.part then
        mention.remember(vim.b[buf].oh_root, item.word, item.user_data.part)
      end
    end,
  })
end

function M.suggest()
  local word = M.word()
  local daemon = word and require("oh.daemon").known()
  if not (word and daemon) or vim.fn.complete_info({ "selected" }).selected >= 0 then
    return
  end
  if word.sign == "/" then
    daemon:with_commands(function(commands)
      M.show(word, M.command_items(word.text, commands))
    end)
  else
    local kinds = { "file", "folder", "symbol", "conversation", "changes", "page", "skill" }
    local params = { query = word.text, kinds = kinds, limit = LIMIT }
    daemon:request("context/search", params, function(result)
      local items = vim.tbl_map(M.search_item, result.items)
      -- Sending the message while the menu is open is a choice too, of which Neovim does not tell.
      for _, item in ipairs(items) do
        mention.remember(daemon.root, item.word, item.user_data.part)
      end
      M.show(word, items)
    end)
  end
end

---@param word oh.Word
---@param items table[]
function M.show(word, items)
  local now = M.word()
  if now and now.line == word.line and vim.fn.mode():find("^i") then
    vim.fn.complete(word.start, items)
  end
end

---@param prefix string
---@param commands table[]
---@return table[]
function M.command_items(prefix, commands)
  local fitting = vim.tbl_filter(function(command)
    return vim.startswith(command.name, prefix)
  end, commands)
  return vim.tbl_map(function(command)
    local hint = command.argumentHint and (" {%s}"):format(command.argumentHint) or ""
    return { word = command.name, abbr = command.name .. hint, menu = command.description }
  end, fitting)
end

---@param found { kind: string, label: string, detail?: string, part: table }
---@return table
function M.search_item(found)
  return {
    -- A mention ends at the first space. A file is mentioned by its path, which tells more.
    word = ((found.kind == "file" and found.part.name or found.label):gsub("%s+", "_")),
    abbr = found.label,
    kind = found.kind:sub(1, 1),
    menu = found.detail,
    -- The daemon has chosen the matches; Neovim would drop those with another beginning.
    equal = 1,
    user_data = { part = found.part },
  }
end

return M
