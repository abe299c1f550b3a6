--- The changes that the agent made to files, or asks to make, and the user's verdict on them.
--- The daemon keeps the state of the review; what it refuses is shown with its reason.
local language = require("oh.language")
local patch = require("oh.patch")
local proposal = require("oh.proposal")
local tell = require("oh.tell")

local M = {}

--- A file that was changed, or that an approval asks to change.
---@class oh.Change
---@field uri string
---@field state "asked"|"pending"|"conflict"|"kept"|"undone"
---@field added integer
---@field removed integer
---@field patch? string
---@field approval? table The approval that the change needs before it is written.

--- Both sides of a file, as lines.
---@class oh.Sides
---@field before string[]
---@field after string[]
---@field hunks oh.Hunk[] Empty when the change can only be decided as a whole.
---@field fits boolean False when only parts of the file can be shown.

---@class oh.Hunk
---@field oldStart integer Counted from 0.
---@field oldLines integer
---@field newStart integer
---@field newLines integer
---@field index? integer Its number in an edit that awaits approval.
---@field verdict? oh.Verdict The user's choice for it there.

--- List all changes: first those that await approval, then those to review, then those decided.
---@param conversation oh.Conversation
---@param on_list fun(changes: oh.Change[])
function M.list(conversation, on_list)
  local params = { conversationId = conversation.id }
  conversation.daemon:request("changes/list", params, function(result)
    local changes = M.asked(conversation)
    local settled = {} ---@type oh.Change[]
    for _, file in ipairs(result.files) do
      table.insert(M.is_unreviewed(file) and changes or settled, file)
    end
    on_list(vim.list_extend(changes, settled))
  end)
end

---@param conversation oh.Conversation
---@return oh.Change[]
function M.asked(conversation)
  local changes = {} ---@type oh.Change[]
  for _, approval in ipairs(conversation.approvals) do
    if approval.subject.kind == "fileChange" then
      for _, change in ipairs(approval.subject.changes) do
        local more = { state = "asked", approval = approval }
        table.insert(changes, vim.tbl_extend("force", change, more))
      end
    end
  end
  return changes
end

---@param conversation oh.Conversation
---@param change oh.Change
---@param on_sides fun(sides: oh.Sides)
function M.sides(conversation, change, on_sides)
  if change.approval then
    local before, after, fits = patch.sides(change.patch or "", language.lines_of(change.uri))
    on_sides(
      fits and proposal.sides(change.approval, change.uri, before, after)
        or { before = before, after = after, hunks = {}, fits = false }
    )
    return
  end
  local params = { conversationId = conversation.id, uri = change.uri }
  conversation.daemon:request("changes/diff", params, function(result)
    on_sides({
      before = M.lines(result.oldText),
      after = M.lines(result.newText),
      hunks = result.hunks,
      fits = true,
    })
  end)
end

--- Whether the change is still undecided; in a conflict the user has changed the same lines since.
---@param change oh.Change
---@return boolean
function M.is_unreviewed(change)
  return change.state == "pending" or change.state == "conflict"
end

--- Whether the user can still decide it.
---@param change oh.Change
---@return boolean
function M.is_open(change)
  return change.state == "asked" or M.is_unreviewed(change)
end

---@param text? string
---@return string[]
function M.lines(text)
  return text and vim.split((text:gsub("\n$", "")), "\n", { plain = true }) or {}
end

--- Settle whole files or single hunks; files with conflicts stay, and the reason is shown.
---@param conversation oh.Conversation
---@param verdict oh.Verdict|"apply"|"discard"
---@param chosen { uris?: string[], hunks?: table[] }
---@param on_done fun()
function M.settle(conversation, verdict, chosen, on_done)
  local params = vim.tbl_extend("error", { conversationId = conversation.id }, chosen)
  conversation.daemon:request("changes/" .. verdict, params, function(result)
    for _, conflict in ipairs(result.conflicts) do
      local name = vim.fn.fnamemodify(vim.uri_to_fname(conflict.uri), ":.")
      tell.warning(("%s stays as it is: %s"):format(name, conflict.reason))
    end
    on_done()
  end)
end

--- Decide one hunk, or without it the whole file. The choice for the last hunk of an edit that is
--- not written yet decides the edit itself.
---@param conversation oh.Conversation
---@param change oh.Change
---@param hunk? oh.Hunk
---@param verdict oh.Verdict
---@param on_done fun()
function M.decide(conversation, change, hunk, verdict, on_done)
  local approval = change.approval
  if not approval then
    local place = hunk and { hunks = { vim.tbl_extend("error", { uri = change.uri }, hunk) } }
    M.settle(conversation, verdict, place or { uris = { change.uri } }, on_done)
  elseif not (hunk and hunk.index) then
    M.answer(conversation, approval, verdict)
  else
    proposal.choose(approval, hunk.index, verdict)
    conversation:redraw(approval.itemId)
    require("oh.inline").refresh(conversation)
    on_done()
    local count = proposal.count(approval)
    if count.chosen == count.hunks then
      M.answer(conversation, approval, count.left_out == count.hunks and "undo" or "keep")
    end
  end
end

--- Answer for an edit that is not written yet: allow what is left of it, or reject it with a note.
---@param conversation oh.Conversation
---@param approval table
---@param verdict oh.Verdict
function M.answer(conversation, approval, verdict)
  local answers = require("oh.approval")
  if verdict == "keep" then
    answers.allow(conversation, approval)
  else
    answers.reject_with_note(conversation, approval)
  end
end

--- Apply or discard the changes of an isolated conversation.
---@param conversation oh.Conversation
---@param verdict "apply"|"discard"
---@param which string "" or "all", "file" for the one in this buffer, or a path.
function M.settle_isolated(conversation, verdict, which)
  if not conversation.isolated then
    tell.message("this conversation is not isolated; `:Oh diff` reviews its changes")
    return
  end
  local name = which == "file" and vim.api.nvim_buf_get_name(0) or vim.fn.fnamemodify(which, ":p")
  local is_all = which == "" or which == "all"
  local chosen = is_all and {} or { uris = { vim.uri_from_fname(name) } }
  M.settle(conversation, verdict, chosen, function()
    tell.message(verdict == "apply" and "applied" or "discarded")
  end)
end

--- Put every place that awaits review into the quickfix list.
---@param conversation oh.Conversation
function M.to_quickfix(conversation)
  M.list(conversation, function(changes)
    M.collect(conversation, vim.tbl_filter(M.is_unreviewed, changes), 1, {})
  end)
end

---@param conversation oh.Conversation
---@param pending oh.Change[]
---@param index integer The next file to ask about.
---@param places table[]
function M.collect(conversation, pending, index, places)
  local change = pending[index]
  if not change then
    M.show_places(conversation, places)
    return
  end
  M.sides(conversation, change, function(sides)
    for _, hunk in ipairs(sides.hunks) do
      table.insert(places, {
        filename = vim.uri_to_fname(change.uri),
        lnum = math.max(1, math.min(hunk.newStart + 1, #sides.after)),
        text = M.gist(hunk, sides),
      })
    end
    M.collect(conversation, pending, index + 1, places)
  end)
end

--- Describe a hunk in one line.
---@param hunk oh.Hunk
---@param sides oh.Sides
---@return string
function M.gist(hunk, sides)
  local is_gone = hunk.newLines == 0
  local line = is_gone and sides.before[hunk.oldStart + 1] or sides.after[hunk.newStart + 1]
  local size = ("+%d -%d"):format(hunk.newLines, hunk.oldLines)
  return ("%s  %s%s"):format(size, is_gone and "removed: " or "", vim.trim(line or ""))
end

---@param conversation oh.Conversation
---@param places table[]
function M.show_places(conversation, places)
  if #places == 0 then
    tell.message("no change of the agent waits for review")
    return
  end
  local title = "oh: changes, " .. conversation.title
  vim.fn.setqflist({}, " ", { title = title, items = places })
  vim.cmd("botright copen")
end

return M
