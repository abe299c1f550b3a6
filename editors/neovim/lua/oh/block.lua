--- A piece of the chat while it is being built: lines with their highlights and fold.
--- Pure: no buffer, no window.
local tables = require("oh.tables")

local M = {}

---@class oh.Mark
---@field row integer Counted from 0 within the block.
---@field group string
---@field first? integer Byte column; without it the mark covers the whole line.
---@field last? integer
---@field is_hidden? boolean What it covers is concealed; a whole line leaves no gap.
---@field is_wide? boolean It colours the whole width of the window.

---@class oh.Block
---@field lines string[]
---@field marks oh.Mark[]
---@field prose oh.Rows[] What is Markdown, in rows of the block.
---@field has_tables? boolean Its lines depend on the width of the window.
---@field n_lead? integer Lines before its own text, such as who speaks.
---@field fold? integer Row of the line that stays visible; all below it folds into it.

local Block = {}
Block.__index = Block

---@return oh.Block
function M.new()
  return setmetatable({ lines = {}, marks = {}, prose = {} }, Block)
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
  self:fence(fence .. language)
  for _, line in ipairs(lines) do
    self:wide(line, language == "diff" and M.diff_group(line) or "OhCode")
  end
  self:fence(fence)
end

--- Add a line that only programs need, and those who copy it.
---@private
---@param text string
function Block:fence(text)
  self:line(text)
  table.insert(self.marks, { row = #self.lines - 1, is_hidden = true })
end

--- Add a line that is coloured over the whole width.
---@param text string
---@param group string
function Block:wide(text, group)
  self:line(text)
  table.insert(self.marks, { row = #self.lines - 1, group = group, is_wide = true })
end

--- Add the heading of who speaks.
---@param name string
---@param group string
---@param wide_group? string
function Block:speaker(name, group, wide_group)
  self:line("## " .. name)
  local row = #self.lines - 1
  table.insert(self.marks, { row = row, first = 0, last = #"## ", is_hidden = true })
  table.insert(self.marks, { row = row, group = group, first = 0, last = #self.lines[row + 1] })
  if wide_group then
    table.insert(self.marks, { row = row, group = wide_group, is_wide = true })
  end
  self:line("")
end

--- Add what the agent wrote: Markdown, with tables that fit the window.
---@param lines string[]
---@param width integer
function Block:markdown(lines, width)
  local first, at, fence = #self.lines, 1, nil
  while at <= #lines do
    local line = lines[at]
    local mark = line:match("^ ? ? ?(```+)") or line:match("^ ? ? ?(~~~+)")
    local rows, last = nil, at
    if not fence then
      rows, last = tables.at(lines, at)
    end
    if rows then
      self.has_tables = true
      vim.iter(tables.fit(rows, width)):each(function(row)
        self:line(row)
      end)
    elseif fence and not (vim.trim(line) == mark and vim.startswith(mark, fence)) then
      self:wide(line, "OhCode")
    elseif mark then
      self:fence(line)
      fence = not fence and mark or nil
    else
      self:line(line)
    end
    at = last + 1
  end
  table.insert(self.prose, { first, #self.lines })
end

--- Set the highlights of a block that is in a buffer.
---@param buf integer
---@param namespace integer
---@param row integer Its first one.
function Block:paint(buf, namespace, row)
  for _, mark in ipairs(self.marks) do
    local at, how = row + mark.row, { strict = false } ---@type integer, vim.api.keyset.set_extmark
    if mark.is_wide then
      how.line_hl_group = mark.group
    elseif mark.is_hidden then
      how.end_col = mark.last
      how[mark.last and "conceal" or "conceal_lines"] = ""
    else
      how.hl_group = mark.group
      how.end_row, how.end_col = mark.last and at or at + 1, mark.last or 0
    end
    vim.api.nvim_buf_set_extmark(buf, namespace, at, mark.first or 0, how)
  end
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
    if mark.row == row and mark.first and mark.last and not mark.is_hidden then
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
  for _, mark in ipairs(n_later and {} or self.marks) do
    local is_unseen = mark.is_hidden and not mark.last and mark.row >= head
    n_lines = is_unseen and n_lines - 1 or n_lines
  end
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

--- The text in place of an item, part or subject of a later release.
---@param kind string
---@return string
function M.unknown(kind)
  return ("(%s: this version cannot show it)"):format(kind)
end

--- A readable file name: relative to the working folder if the file is in there.
---@param uri string
---@return string
function M.path(uri)
  local is_file, path = pcall(vim.uri_to_fname, uri)
  return is_file and vim.fn.fnamemodify(path, ":.") or uri
end

return M
