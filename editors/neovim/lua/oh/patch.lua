--- Applies the unified diff of an approval, to show what a file would become. Pure.
local M = {}

---@class oh.PatchHunk
---@field first integer The line of the old text at which the hunk begins, from 1.
---@field lines string[] Lines with their signs.

---@param patch string
---@return oh.PatchHunk[] hunks
---@return string? rest A line that is not part of the diff: it says that the diff was truncated.
local function parse(patch)
  local hunks = {} ---@type oh.PatchHunk[]
  for _, line in ipairs(vim.split(patch, "\n", { plain = true, trimempty = true })) do
    local start, n_lines = line:match("^@@ %-(%d+),?(%d*)")
    local hunk = hunks[#hunks]
    if start then
      -- A hunk without lines on one side has the number of the line before it.
      local first = n_lines == "0" and tonumber(start) + 1 or tonumber(start)
      table.insert(hunks, { first = first, lines = {} })
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

return M
