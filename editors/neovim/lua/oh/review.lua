--- The review in the diff tab: the user decides on the agent's changes to files, done or requested.
--- A decision goes to the daemon, which edits; the tab then shows the new state.
local changes = require("oh.changes")
local difftab = require("oh.difftab")
local proposal = require("oh.proposal")
local tell = require("oh.tell")

local M = {}

---@class oh.Review
---@field conversation oh.Conversation
---@field tab oh.DiffTab
---@field changes oh.Change[]
---@field shown? oh.Change
---@field sides? oh.Sides
---@field private group integer
---@field private is_scheduled boolean
---@field private n_asked integer How often the daemon was asked for the changes.
local Review = {}
Review.__index = Review

--- The reviews by conversation.
---@type table<string, oh.Review>
local reviews = {}

--- Events after which the changes must be listed again.
local RELEVANT = {
  ["approval.requested"] = true,
  ["approval.resolved"] = true,
  ["changes.updated"] = true,
  ["changes.reviewed"] = true,
}

--- Show the tab for a conversation, or say that there is nothing to see.
---@param conversation oh.Conversation
function M.open(conversation)
  changes.list(conversation, function(found)
    if #found == 0 then
      tell.message("the agent has edited no file; `:Oh checkpoints` tells what its commands did")
      return
    end
    local review = reviews[conversation.id]
    if review and not review.tab:is_open() then
      review.tab:close()
      review = nil
    end
    review = review or M.create(conversation)
    vim.api.nvim_set_current_win(difftab.window(review.tab.after))
    review:take(found)
  end)
end

---@param conversation oh.Conversation
---@return oh.Review
function M.create(conversation)
  local self = setmetatable({ conversation = conversation, changes = {}, n_asked = 0 }, Review)
  local name = conversation.id:sub(1, 12)
  self.group = vim.api.nvim_create_augroup("oh.review" .. name, { clear = true })
  self.tab = difftab.create(name, conversation.daemon.root, function()
    vim.api.nvim_del_augroup_by_id(self.group)
    reviews[conversation.id] = nil
  end)
  reviews[conversation.id] = self
  self:follow()
  return self
end

--- Follow the conversation, and the cursor in the list.
---@private
function Review:follow()
  vim.api.nvim_create_autocmd("User", {
    group = self.group,
    pattern = "OhEvent",
    desc = "oh: the review shows what is true now",
    callback = function(args)
      if args.data.conversation == self.conversation.id and RELEVANT[args.data.event.type] then
        self:refresh()
      end
    end,
  })
  vim.api.nvim_create_autocmd("CursorMoved", {
    group = self.group,
    buffer = self.tab.list,
    desc = "oh: show the file under the cursor",
    callback = function()
      local change = self.changes[vim.fn.line(".")]
      if change and change ~= self.shown then
        self:show(change)
      end
    end,
  })
end

--- Ask the daemon for the changes again, once for events that come together.
---@private
function Review:refresh()
  if self.is_scheduled then
    return
  end
  self.is_scheduled = true
  vim.schedule(function()
    self.is_scheduled = false
    self.n_asked = self.n_asked + 1
    local mine = self.n_asked
    changes.list(self.conversation, function(found)
      -- The answer to an older request may come later.
      if mine == self.n_asked and self.tab:is_open() then
        self:take(found)
      end
    end)
  end)
end

---@private
---@param found oh.Change[]
function Review:take(found)
  self.changes = found
  local next_one = self:still_shown() or found[1]
  if next_one then
    self:show(next_one)
  else
    self.shown, self.sides = nil, nil
    self.tab:draw_list({}, M.name)
    self.tab:draw_sides("", { before = {}, after = {}, hunks = {}, fits = true })
    difftab.label(self.tab.list, M.summary({}), "")
  end
end

--- The file that was shown, unless it is decided and another one is not.
---@private
---@return oh.Change?
function Review:still_shown()
  local shown = self.shown
  local same = vim.iter(self.changes):find(function(change)
    return shown and M.key(change) == M.key(shown)
  end)
  if same and (changes.is_open(same) or not changes.is_open(self.changes[1])) then
    return same
  end
end

---@param change oh.Change
---@return string
function M.key(change)
  return change.uri .. " " .. (change.approval and change.approval.id or "")
end

---@param change oh.Change
---@return string
function M.name(change)
  return vim.fn.fnamemodify(vim.uri_to_fname(change.uri), ":.")
end

---@private
---@param change oh.Change
function Review:show(change)
  local is_other = not self.shown or M.key(self.shown) ~= M.key(change)
  self.shown = change
  changes.sides(self.conversation, change, function(sides)
    if self.shown ~= change or not self.tab:is_open() then
      return
    end
    self.sides = sides
    -- All windows change at once, so that no key acts on a half-drawn state.
    self.tab:draw_list(self.changes, M.name)
    self.tab:draw_sides(vim.uri_to_fname(change.uri), sides)
    self:label()
    for row, candidate in ipairs(self.changes) do
      if candidate == change then
        self.tab:select(row)
      end
    end
    if is_other and change.approval then
      require("oh.approval").on_shown(change.approval)
    end
    if is_other then
      self.tab:to_first_change(sides)
    end
  end)
end

--- Label the windows with what they show, and which keys decide.
---@private
function Review:label()
  local tab, is_asked = self.tab, self.shown.state == "asked"
  local cut = self.sides.fits and "" or "the file has changed; only the lines of the diff"
  local keys = require("oh.keys").verdicts(is_asked, not is_asked or self:has_choice())
  difftab.label(tab.list, M.summary(self.changes), keys)
  difftab.label(tab.before, is_asked and "now" or "before", "")
  difftab.label(tab.after, is_asked and self:promise() or "by the agent", cut)
end

--- The label of the right side while an edit awaits approval.
---@private
---@return string
function Review:promise()
  local left_out = proposal.told(self.shown.approval)
  return "if you allow it" .. (left_out and ", " .. left_out or "")
end

---@param all oh.Change[]
---@return string
function M.summary(all)
  local said = {}
  for _, state in ipairs({ "asked", "pending", "conflict" }) do
    local n_files = #vim.tbl_filter(function(change)
      return change.state == state
    end, all)
    if n_files > 0 then
      table.insert(said, ("%d %s"):format(n_files, difftab.STATES[state][3]))
    end
  end
  return #said > 0 and table.concat(said, " · ") or "everything is reviewed"
end

-- What the user does in the tab.

--- The review that the current buffer belongs to.
---@return oh.Review?
local function here()
  local buf = vim.api.nvim_get_current_buf()
  return vim.iter(vim.tbl_values(reviews)):find(function(review)
    return review.tab:owns(buf)
  end)
end

---@param verdict oh.Verdict
---@param is_whole boolean Decide the file, not only the hunk under the cursor.
function M.decide(verdict, is_whole)
  local review = here()
  local change = review and review.shown
  if not (review and change) then
    return
  end
  local is_asked = verdict == "keep" and change.approval
  if is_asked and not require("oh.approval").is_readable(change.approval) then
    return
  end
  is_whole = is_whole or vim.api.nvim_get_current_buf() == review.tab.list
  if change.approval and (is_whole or not review:has_choice()) then
    changes.answer(review.conversation, change.approval, verdict)
  elseif not changes.is_open(change) then
    tell.message(("%s is %s already"):format(M.name(change), change.state))
  elseif is_whole then
    review:settle(verdict, change)
  else
    review:decide_hunk(verdict, change)
  end
end

--- Whether single hunks of the shown file can be decided.
---@private
---@return boolean
function Review:has_choice()
  return self.sides ~= nil and #self.sides.hunks > 0
end

---@private
---@param verdict oh.Verdict
---@param change oh.Change
function Review:decide_hunk(verdict, change)
  local is_before = vim.api.nvim_get_current_buf() == self.tab.before
  local hunk = self.sides and M.hunk_at(self.sides.hunks, vim.fn.line("."), is_before)
  if not hunk then
    tell.message("no change under the cursor; `]c` goes to the next one")
    return
  end
  self:settle(verdict, change, hunk)
end

---@private
---@param verdict oh.Verdict
---@param change oh.Change
---@param hunk? oh.Hunk
function Review:settle(verdict, change, hunk)
  changes.decide(self.conversation, change, hunk, verdict, function()
    if change.approval then
      self:show(self.shown)
    else
      self:refresh()
    end
  end)
end

---@param hunks oh.Hunk[]
---@param line integer The line on that side, from 1.
---@param is_before boolean
---@return oh.Hunk?
function M.hunk_at(hunks, line, is_before)
  return vim.iter(hunks):find(function(hunk)
    local first = (is_before and hunk.oldStart or hunk.newStart) + 1
    local n_lines = is_before and hunk.oldLines or hunk.newLines
    if n_lines == 0 then
      -- If the hunk has no lines on this side, the cursor is on the line above or below the gap.
      return line == first or line == first - 1
    end
    return line >= first and line < first + n_lines
  end)
end

--- Whether the shown changes are not written yet.
---@return boolean
function M.is_asked()
  local review = here()
  return review ~= nil and review.shown ~= nil and review.shown.state == "asked"
end

--- Show the next or the previous file.
---@param step 1|-1
function M.go(step)
  local review = here()
  for index, change in ipairs(review and review.changes or {}) do
    if review and change == review.shown then
      review:show(review.changes[(index - 1 + step) % #review.changes + 1])
      return
    end
  end
end

--- Open the file itself at this place.
function M.edit()
  local review = here()
  if not (review and review.shown) then
    return
  end
  local is_after = vim.api.nvim_get_current_buf() == review.tab.after
  local line = is_after and vim.fn.line(".") or 1
  require("oh.files").open(vim.uri_to_fname(review.shown.uri), line)
end

--- Close the tab; undecided changes stay pending.
function M.close()
  local review = here()
  if review then
    review.tab:close()
  end
end

return M
