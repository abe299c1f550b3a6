--- What a message names by `@`: files, and lines of files with the text that the editor shows.
local M = {}

--- The parts of a message: the files it mentions, then its text as it was written.
---@param text string
---@param root string
---@return table[]
function M.parts(text, root)
  local parts, seen = {}, {}
  for mention in text:gmatch("@(%S+)") do
    local part = not seen[mention] and M.part(mention, root)
    seen[mention] = true
    if part then
      table.insert(parts, part)
    end
  end
  table.insert(parts, { type = "text", text = text })
  return parts
end

--- `path` is a link to a file; `path:3` and `path:3-7` are lines of it. Nil when there is no file.
---@param mention string
---@param root string
---@return table?
function M.part(mention, root)
  local name, first, last = mention:match("^(.-):(%d+)%-?(%d*)$")
  name = (name or mention):gsub("[,.;:!?)]+$", "")
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

--- Lines of a file, counted from 1, both ends included.
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

--- How lines of a buffer are mentioned, or nil when it is no file under the root.
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

--- For 'omnifunc' of the input: files under the root after an `@`, those that are open first.
---@param find_start integer
---@param base string
---@return integer|string[]
function M.complete(find_start, base)
  if find_start == 1 then
    local before = vim.api.nvim_get_current_line():sub(1, vim.fn.col(".") - 1)
    local at = before:match("^.*()@%S*$")
    return at and at or -3
  end
  local root = require("oh.daemon").root()
  local found, seen = {}, {}
  local function add(name)
    if vim.startswith(name, base) and not seen[name] then
      seen[name] = true
      table.insert(found, name)
    end
  end
  for _, buf in ipairs(vim.api.nvim_list_bufs()) do
    local text = vim.bo[buf].buflisted and M.of_buffer(buf, root)
    if text then
      add(text:sub(2))
    end
  end
  for _, path in ipairs(vim.fn.globpath(root, base .. "*", false, true)) do
    add(vim.fs.relpath(root, path) .. (vim.fn.isdirectory(path) == 1 and "/" or ""))
  end
  return found
end

return M
