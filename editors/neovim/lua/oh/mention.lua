--- Mentions with `@` in a message: files, and lines of files with the text that the editor shows.
local M = {}

--- The parts chosen for words, by root: a symbol or a conversation is more than its name.
---@type table<string, table<string, table>>
local remembered = {}

---@param root string
---@param word string
---@param part table
function M.remember(root, word, part)
  remembered[root] = remembered[root] or {}
  remembered[root][word] = part
end

--- The parts of a message: its mentions, then its text as it was written. A message that begins
--- with the name of a command becomes that command.
---@param text string
---@param root string
---@param commands table[] Those that the daemon knows.
---@return table[]
function M.parts(text, root, commands)
  local parts, seen = {}, {}
  for mention in text:gmatch("@(%S+)") do
    local part = not seen[mention] and M.part(mention, root)
    seen[mention] = true
    if part then
      table.insert(parts, part)
    end
  end
  table.insert(parts, M.command(text, commands) or { type = "text", text = text })
  return parts
end

---@param text string
---@param commands table[]
---@return table?
function M.command(text, commands)
  local name, args = text:match("^/([%w_-]+)%s*(.*)$")
  for _, command in ipairs(commands) do
    if command.name == name then
      return { type = "command", name = name, args = args ~= "" and args or nil }
    end
  end
end

--- The part for `path` (a link), `path:3` or `path:3-7` (lines). Nil if there is no such file.
---@param mention string
---@param root string
---@return table?
function M.part(mention, root)
  local name, first, last = mention:match("^(.-):(%d+)%-?(%d*)$")
  name = (name or mention):gsub("[,.;:!?)]+$", "")
  local known = remembered[root] or {}
  if known[mention] or known[name] then
    return known[mention] or known[name]
  end
  local path = vim.fs.joinpath(root, name)
  local buf = vim.fn.bufnr(("^%s$"):format(vim.fn.fnameescape(path)))
  local is_loaded = buf > 0 and vim.api.nvim_buf_is_loaded(buf)
  if not is_loaded and vim.fn.filereadable(path) == 0 then
    return nil
  end
  if not first then
    return { type = "resourceLink", uri = vim.uri_from_fname(path), name = name }
  end
  local lines = is_loaded and vim.api.nvim_buf_get_lines(buf, 0, -1, false) or vim.fn.readfile(path)
  return M.selection(path, lines, tonumber(first), tonumber(last) or tonumber(first))
end

--- A part with lines of a file, counted from 1, both ends included.
---@param path string
---@param lines string[] All lines of the file.
---@param first integer
---@param last integer
---@return table
function M.selection(path, lines, first, last)
  last = math.min(last, #lines)
  local chosen = vim.list_slice(lines, first, last)
  return {
    type = "selection",
    uri = vim.uri_from_fname(path),
    range = {
      start = { line = first - 1, character = 0 },
      ["end"] = { line = last, character = 0 },
    },
    text = table.concat(chosen, "\n") .. "\n",
  }
end

--- The mention of lines of a buffer, or nil if it is not a file under the root.
---@param buf integer
---@param root string
---@param first? integer
---@param last? integer
---@return string?
function M.of_buffer(buf, root, first, last)
  local path = vim.fs.relpath(root, vim.api.nvim_buf_get_name(buf))
  if not path or vim.bo[buf].buftype ~= "" then
    return nil
  end
  return first and ("@%s:%d-%d"):format(path, first, last) or "@" .. path
end

--- Lines of a buffer as a part of a message, and their mention if there is one.
---@param buf integer
---@param root string
---@param first integer
---@param last integer
---@return table part
---@return string? mention
function M.of_lines(buf, root, first, last)
  local lines = vim.api.nvim_buf_get_lines(buf, 0, -1, false)
  local part = M.selection(vim.api.nvim_buf_get_name(buf), lines, first, last)
  return part, M.of_buffer(buf, root, first, last)
end

return M
