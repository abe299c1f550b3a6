--- The user's choice in an edit that awaits approval: each of its hunks stays in it or is left out.
--- It is kept as long as the approval is pending; nothing is written before that is allowed.
local M = {}

---@alias oh.Verdict "keep"|"undo"

--- Verdicts by approval, and then by the number of the hunk.
---@type table<table, table<integer, oh.Verdict>>
local chosen = setmetatable({}, { __mode = "k" })

---@param approval table
---@return oh.Hunk[] hunks Empty when the edit can only be decided as a whole.
---@return table<integer, oh.Verdict> verdicts
local function offered(approval)
  local hunks = approval.editable and approval.subject.hunks or {}
  return hunks, chosen[approval] or {}
end

---@param approval table
---@param index integer
---@param verdict oh.Verdict
function M.choose(approval, index, verdict)
  chosen[approval] = chosen[approval] or {}
  chosen[approval][index] = verdict
end

---@param approval table
---@return { hunks: integer, chosen: integer, left_out: integer }
function M.count(approval)
  local hunks, verdicts = offered(approval)
  local n_out = vim.iter(pairs(verdicts)):fold(0, function(n, _, verdict)
    return verdict == "undo" and n + 1 or n
  end)
  return { hunks = #hunks, chosen = vim.tbl_count(verdicts), left_out = n_out }
end

--- How many changes are left out, in words; nil if none.
---@param approval table
---@return string?
function M.told(approval)
  local count = M.count(approval)
  return count.left_out > 0 and ("%d of %d changes left out"):format(count.left_out, count.hunks)
    or nil
end

--- The subject without the hunks that are left out; nil if none is.
---@param approval table
---@return table?
function M.edited(approval)
  local hunks, verdicts = offered(approval)
  local left = {}
  for index, hunk in ipairs(hunks) do
    if verdicts[index] ~= "undo" then
      table.insert(left, hunk)
    end
  end
  return #left < #hunks and vim.tbl_extend("force", approval.subject, { hunks = left }) or nil
end

--- The file as it is, and as it would be without the hunks left out, with their places in both.
---@param approval table
---@param uri string
---@param before string[]
---@param whole string[] What the whole edit would make of it.
---@return oh.Sides
function M.sides(approval, uri, before, whole)
  local hunks, verdicts = offered(approval)
  local mine = vim.iter(ipairs(hunks)):filter(function(_, hunk)
    return hunk.uri == uri
  end)
  local after, placed, at = {}, {}, 1
  for index, hunk in mine do
    vim.list_extend(after, before, at, hunk.oldStart)
    at = hunk.oldStart + hunk.oldLines + 1
    local start = #after
    if verdicts[index] == "undo" then
      vim.list_extend(after, before, hunk.oldStart + 1, at - 1)
    else
      vim.list_extend(after, whole, hunk.newStart + 1, hunk.newStart + hunk.newLines)
    end
    local place = { newStart = start, newLines = #after - start, verdict = verdicts[index] }
    table.insert(placed, vim.tbl_extend("force", hunk, place, { index = index }))
  end
  if #placed == 0 then
    return { before = before, after = whole, hunks = {}, fits = true }
  end
  vim.list_extend(after, before, at)
  return { before = before, after = after, hunks = placed, fits = true }
end

return M
