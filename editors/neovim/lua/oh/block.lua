--- A piece of the chat while it is being built: lines with their highlights and fold.
--- Pure: no buffer, no window.
local M = {}

---@class oh.Mark
---@field row integer Counted from 0 within the block.
---@field group string
---@field first? integer Byte column; without it the mark covers the whole line.
---@field last? integer

---@class oh.Block
---@field lines string[]
---@field marks oh.Mark[]
---@field fold? integer Row of the line that stays visible; all below it folds into it.

local Block = {}
Block.__index = Block

---@return oh.Block
function M.new()
  return setmetatable({ lines = {}, marks = {} }, Block)
end

---@param text string One line.
---@param group? string
function Block:line(text, group)
  table.insert(self.lines, text)
  if group then
    table.insert(self.marks, { row = #self.lines - 1, group = group })
  end
end

---@param text string
---@param group? string
function Block:text(text, group)
  for _, line in ipairs(vim.split(text, "\n", { plain = true })) do
    self:line(line, group)
  end
end

--- Add code between fences that are longer than any fence in it.
---@param language string
---@param lines string[]
function Block:code(language, lines)
  local fence = "```"
  for _, line in ipairs(lines) do
    local ticks = line:match("^%s*(```+)")
    if ticks and #ticks >= #fence then
      fence = ("`"):rep(#ticks + 1)
    end
  end
  self:line(fence .. language)
  for _, line in ipairs(lines) do
    local group = language == "diff" and M.diff_group(line) or nil
    self:line(line, group)
  end
  self:line(fence)
end

--- A line with its highlights, as 'foldtext' takes it, cut to a width. The part that is cut is the
--- one without a highlight: a tool call's title.
---@param row integer
---@param width integer
---@return [string, string][]
function Block:head(row, width)
  local line, chunks, at = self.lines[row + 1], {}, 0
  local room = width - vim.api.nvim_strwidth(line)
  local function add(to, group)
    local text = line:sub(at + 1, to)
    if not group and room < 0 then
      local size = vim.api.nvim_strwidth(text)
      text, room = M.cut(text, math.max(size + room, 1)), 0
    end
    table.insert(chunks, { text, group or "" })
    at = to
  end
  for _, mark in ipairs(self.marks) do
    if mark.row == row and mark.first and mark.last then
      if mark.first > at then
        add(mark.first)
      end
      add(mark.last, mark.group)
    end
  end
  add(#line)
  return chunks
end

--- As much of the beginning of a text as fits. `strdisplaywidth()` would also count the line breaks
--- of the current window.
---@param text string
---@param width number
---@return string
function M.cut(text, width)
  if vim.api.nvim_strwidth(text) <= width then
    return text
  end
  local n_chars = vim.fn.strchars(text)
  while n_chars > 0 and vim.api.nvim_strwidth(vim.fn.strcharpart(text, 0, n_chars)) > width - 1 do
    n_chars = n_chars - 1
  end
  return n_chars > 0 and vim.fn.strcharpart(text, 0, n_chars) .. "…" or ""
end

---@param line string
---@return string?
function M.diff_group(line)
  local groups = { ["+"] = "OhDiffAdd", ["-"] = "OhDiffDelete", ["@"] = "OhDim" }
  return groups[line:sub(1, 1)]
end

--- Add the unified diff of a change, without the names of its files.
---@param change table
function Block:diff(change)
  local lines = vim.split(change.patch or "", "\n", { plain = true, trimempty = true })
  if lines[1] and vim.startswith(lines[1], "--- ") then
    lines = vim.list_slice(lines, 3)
  end
  if #lines > 0 then
    self:code("diff", lines)
  end
end

--- The only line of a fold whose lines are added when the fold is open.
M.LATER = "…"

--- Fold the lines below the head if there are more than `limit`.
---@param head integer Line of the head, from 1.
---@param limit number
---@param n_later? integer The number of lines that `M.LATER` stands for.
function Block:fold_below(head, limit, n_later)
  local n_lines = n_later or #self.lines - head
  if n_lines > limit and n_lines > 0 then
    self.fold = head - 1
    local more = ("  (%d %s)"):format(n_lines, n_lines == 1 and "line" or "lines")
    local width = #self.lines[head]
    self.lines[head] = self.lines[head] .. more
    local mark = { row = head - 1, group = "OhDim", first = width, last = width + #more }
    table.insert(self.marks, mark)
  end
end

--- A text as one line, with line breaks, which could hide something, made visible.
---@param text string
---@return string
function M.escaped(text)
  return (text:gsub("\r", "\\r"):gsub("\n", "\\n"))
end

--- A readable file name: relative to the working folder if the file is in there.
---@param uri string
---@return string
function M.path(uri)
  local is_file, path = pcall(vim.uri_to_fname, uri)
  return is_file and vim.fn.fnamemodify(path, ":.") or uri
end

return M
