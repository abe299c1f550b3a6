--- Applies the unified diff of an approval, to show what a file would become. Pure.
local blocks = require("oh.block")

local M = {}

---@class oh.PatchHunk
---@field first integer The line of the old text at which the hunk begins, from 1.
---@field new_first integer The same in the new text.
---@field lines string[] Lines with their signs.

--- The changes that the user left out of an edit.
---@class oh.LeftOut
---@field n_out integer
---@field n_all integer
---@field lines string[] What was left out, as a diff without context.

---@param patch string
---@return oh.PatchHunk[] hunks
---@return string? rest A line that is not part of the diff: it says that the diff was truncated.
local function parse(patch)
  local hunks = {} ---@type oh.PatchHunk[]
  for _, line in ipairs(vim.split(patch, "\n", { plain = true, trimempty = true })) do
    local start, n_lines, new_start, n_new = line:match("^@@ %-(%d+),?(%d*) %+(%d+),?(%d*)")
    local hunk = hunks[#hunks]
    if start then
      -- A hunk without lines on one side has the number of the line before it.
      local first = n_lines == "0" and tonumber(start) + 1 or tonumber(start)
      local new_first = n_new == "0" and tonumber(new_start) + 1 or tonumber(new_start)
      table.insert(hunks, { first = first, new_first = new_first, lines = {} })
    elseif hunk and line:find("^[ +-]") then
      table.insert(hunk.lines, line)
    elseif hunk and not line:find("^\\") then
      return hunks, line
    end
  end
  return hunks
end

--- The file before and after. If the diff does not fit the text, because the user has typed since
--- or a character had to be escaped, only the lines of the diff itself.
---@param patch string
---@param text string[] The lines of the file now.
---@return string[] before
---@return string[] after
---@return boolean fits
function M.sides(patch, text)
  local hunks, rest = parse(patch)
  local after = not rest and M.applied(hunks, text)
  if after then
    return text, after, true
  end
  local before, shown = {}, {}
  for _, hunk in ipairs(hunks) do
    for _, line in ipairs(hunk.lines) do
      local sign = line:sub(1, 1)
      if sign ~= "+" then
        table.insert(before, line:sub(2))
      end
      if sign ~= "-" then
        table.insert(shown, line:sub(2))
      end
    end
  end
  table.insert(before, rest)
  table.insert(shown, rest)
  return before, shown, false
end

---@param hunks oh.PatchHunk[]
---@param text string[]
---@return string[]? after Nil when the text is not the one that the diff was made for.
function M.applied(hunks, text)
  local after, at = {}, 1
  for _, hunk in ipairs(hunks) do
    vim.list_extend(after, text, at, hunk.first - 1)
    at = hunk.first
    for _, line in ipairs(hunk.lines) do
      local sign, body = line:sub(1, 1), line:sub(2)
      if sign ~= "+" then
        if text[at] ~= body then
          return nil
        end
        at = at + 1
      end
      if sign ~= "-" then
        table.insert(after, body)
      end
    end
  end
  return vim.list_extend(after, text, at)
end

--- The changes that the user left out of an edit; nil if none.
---@param whole table The subject as it was asked for.
---@param kept? table What was allowed of it instead.
---@return oh.LeftOut?
function M.left_out(whole, kept)
  if not (kept and kept.hunks and whole.hunks) then
    return nil
  end
  local lines = {}
  for _, change in ipairs(whole.changes) do
    local part = {}
    for _, hunk in ipairs(whole.hunks) do
      local is_here = hunk.uri == nil or hunk.uri == change.uri
      if is_here and not vim.iter(kept.hunks):any(M.is_same(hunk)) then
        vim.list_extend(part, M.part(change.patch or "", hunk))
      end
    end
    if #part > 0 and #whole.changes > 1 then
      table.insert(lines, "@@ " .. blocks.path(change.uri))
    end
    vim.list_extend(lines, part)
  end
  local n_all = #whole.hunks
  return { n_out = n_all - #kept.hunks, n_all = n_all, lines = lines }
end

---@param hunk oh.Hunk
---@return fun(other: oh.Hunk): boolean
function M.is_same(hunk)
  return function(other)
    return vim.deep_equal(other, hunk)
  end
end

--- The lines of a diff that belong to one of its changes.
---@param patch string
---@param change oh.Hunk
---@return string[]
function M.part(patch, change)
  local part = {}
  for _, hunk in ipairs(parse(patch)) do
    local old, new = hunk.first - 1, hunk.new_first - 1
    for _, line in ipairs(hunk.lines) do
      local sign = line:sub(1, 1)
      local is_old = sign == "-" and M.is_within(old, change.oldStart, change.oldLines)
      local is_new = sign == "+" and M.is_within(new, change.newStart, change.newLines)
      if is_old or is_new then
        table.insert(part, line)
      end
      old, new = old + (sign == "+" and 0 or 1), new + (sign == "-" and 0 or 1)
    end
  end
  return part
end

---@param line integer
---@param start integer
---@param n_lines integer
---@return boolean
function M.is_within(line, start, n_lines)
  return line >= start and line < start + n_lines
end

return M
