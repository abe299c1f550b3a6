--- What each event of the log changes in a conversation: an item, found by its id, or the state of
--- the whole conversation. Events that are not listed change nothing that is shown.
local blocks = require("oh.block")
local tell = require("oh.tell")
local works = require("oh.work")

---@type table<string, fun(self: oh.Conversation, event: table, record: table)>
local folds = {}

--- Columns for the words around a title in a message, and those that Neovim needs for itself.
local MESSAGE_REST = 40

folds["conversation.created"] = function(self, event)
  self.title, self.options = event.title, event.options
  self.model = event.agent.label
  self.parent_id = event.parentId
  self.on_change()
end

folds["conversation.updated"] = function(self, event)
  self.title = event.title or self.title
  self.on_change()
end

folds["agent.changed"] = function(self, event)
  self.model = event.agent.label
  self.on_change()
end

folds["options.changed"] = function(self, event)
  self.options = vim.tbl_extend("force", self.options, event.values)
  self.on_change()
end

folds["status.changed"] = function(self, event)
  self.status, self.reason = event.to, event.reason
  if event.to ~= "running" then
    self.retry = nil
  end
  if event.to == "paused" and self.stopped then
    self.stopped.item.pause = event.reason
    self.on_change(self.stopped.index)
  end
  self.on_change()
  tell.state_changed({ conversation = self.id, status = event.to, reason = event.reason })
end

folds["message.queued"] = function(self, event)
  table.insert(self.queue, event.message)
  self.on_change()
end

folds["message.edited"] = function(self, event)
  local others = vim.tbl_filter(function(message)
    return message.messageId ~= event.message.messageId
  end, self.queue)
  table.insert(others, math.min(event.position, #others) + 1, event.message)
  self.queue = others
  self.on_change()
end

folds["message.dequeued"] = function(self, event)
  self.queue = vim.tbl_filter(function(message)
    return message.messageId ~= event.messageId
  end, self.queue)
  self.on_change()
end

folds["item.started"] = function(self, event)
  self.retry = nil
  self:put(event.item)
end

folds["item.updated"] = function(self, event, record)
  local entry = self.by_id[record.itemId]
  if entry then
    for key, value in pairs(event) do
      if key ~= "type" then
        entry.item[key] = value
      end
    end
    self.on_change(entry.index)
  end
end

folds["item.completed"] = function(self, event)
  local entry = self:put(event.item)
  entry.streamed = nil
  local kind = event.item.kind
  local may_write = kind == "command" or (kind == "fileChange" and event.item.route == "disk")
  -- Events from a log happened long ago; `fetch` reloads once when it is done.
  if may_write and not self.is_fetching then
    require("oh.editor").reload_all(self.daemon)
  end
  if event.item.changes and event.item.status == "completed" then
    tell.event("FileChanged", { conversation = self.id, changes = event.item.changes })
  end
end

--- Where a pending request is shown: in its conversation, and for a sub-agent's request also in the
--- conversation that it works for; each with the entry that the request belongs to.
---@param self oh.Conversation
---@param waiting table
---@return fun(): oh.Conversation?, oh.Entry?
local function places(self, waiting)
  local parent = self.parent_id and self.daemon.conversations[self.parent_id]
  local of_agent = parent
    and vim.iter(parent.entries):rfind(function(entry)
      return entry.item.conversationId == self.id
    end)
  local found = { { self, self.by_id[waiting.itemId] }, parent and { parent, of_agent } }
  local index = 0
  return function()
    index = index + 1
    if found[index] then
      return found[index][1], found[index][2]
    end
  end
end

--- Each approval says how many can be allowed at once.
---@param conversation oh.Conversation
local function redraw_approvals(conversation)
  for _, entry in ipairs(#conversation.approvals > 0 and conversation.entries or {}) do
    if entry.approval then
      conversation.on_change(entry.index)
    end
  end
end

--- Attach a pending request to its item. A message is shown only if the chat does not show it.
---@param self oh.Conversation
---@param kind "approval"|"question"
---@param waiting table
---@param title string
---@param is_answered? boolean The user has answered it in advance.
local function wait(self, kind, waiting, title, is_answered)
  for conversation, entry in places(self, waiting) do
    table.insert(conversation[kind .. "s"], waiting)
    if entry then
      entry[kind] = waiting
      conversation.on_change(entry.index)
    end
    redraw_approvals(conversation)
  end
  local windows = require("oh.windows")
  local is_shown = windows.window_of("oh-chat")
    or kind == "approval"
      and waiting.subject.kind == "fileChange"
      and windows.window_of("oh-review")
  if not (self.is_fetching or is_shown or is_answered) then
    -- Neovim asks for a key press after a message that is wider than the screen.
    local gist = blocks.cut(title:match("^[^\n]*"), vim.o.columns - MESSAGE_REST)
    tell.message(("%s (`:Oh` shows it)"):format(gist))
  end
end

---@param self oh.Conversation
---@param kind "approval"|"question"
---@param id string
---@param resolution? table The outcome, if it is shown.
local function settle(self, kind, id, resolution)
  local _, waiting = vim.iter(self[kind .. "s"]):enumerate():find(function(_, each)
    return each.id == id
  end)
  if not waiting then
    return
  end
  for conversation, entry in places(self, waiting) do
    conversation[kind .. "s"] = vim.tbl_filter(function(each)
      return each.id ~= id
    end, conversation[kind .. "s"])
    if entry then
      entry[kind] = nil
      conversation.on_change(entry.index)
    end
    redraw_approvals(conversation)
  end
  local mine = resolution and self.by_id[waiting.itemId]
  if mine then
    mine.note = resolution.feedback
    local all, kept = waiting.subject.hunks, vim.tbl_get(resolution, "editedSubject", "hunks")
    mine.left_out = all and kept and ("%d of %d left out"):format(#all - #kept, #all)
  end
end

folds["approval.requested"] = function(self, event)
  local approval = event.approval
  local is_answered = require("oh.edit").answer(self, approval)
  wait(self, "approval", approval, "to allow: " .. approval.title, is_answered)
  tell.event("ApprovalRequested", { conversation = self.id, approval = approval })
  tell.state_changed({ conversation = self.id, approvals = #self.approvals })
end

folds["approval.resolved"] = function(self, event)
  settle(self, "approval", event.approvalId, event)
  tell.event("ApprovalResolved", { conversation = self.id, resolution = event })
  tell.state_changed({ conversation = self.id, approvals = #self.approvals })
end

folds["input.requested"] = function(self, event)
  wait(self, "question", event.input, "the agent asks: " .. event.input.prompt)
  tell.event("InputRequested", { conversation = self.id, input = event.input })
  tell.state_changed({ conversation = self.id, questions = #self.questions })
end

folds["input.resolved"] = function(self, event)
  settle(self, "question", event.inputId)
  tell.event("InputResolved", { conversation = self.id, resolution = event })
  tell.state_changed({ conversation = self.id, questions = #self.questions })
end

--- Show what ended or paused a turn early, and how to go on, until the agent works again.
---@param self oh.Conversation
---@param item table
local function stop(self, item)
  self.stopped = self:put(item)
end

---@param self oh.Conversation
local function go_on(self)
  local stopped = self.stopped
  if stopped then
    stopped.item.is_past, self.stopped = true, nil
    self.on_change(stopped.index)
  end
end

folds["turn.started"] = function(self, _, record)
  self.turn_files, self.plan, self.turn_first = nil, nil, #self.entries + 1
  go_on(self)
  tell.event("TurnStarted", { conversation = self.id, turn = record.turnId })
end

folds["turn.resumed"] = go_on

folds["changes.updated"] = function(self, event)
  self.turn_files = event.files
end

---@param turn oh.protocol.Turn
---@return boolean
local function is_well_ended(turn)
  local is_end = vim.list_contains({ "endTurn", "finished" }, turn.stopReason)
  return turn.status == "completed" and is_end
end

folds["turn.completed"] = function(self, event, record)
  local turn, is_well = event.turn, is_well_ended(event.turn)
  local n_files = #(self.turn_files or {})
  local parts = is_well and works.fold(self.entries, self.turn_first, turn, n_files) or {}
  for _, part in ipairs(parts) do
    self.on_change(part.first)
  end
  if self.turn_files and #self.turn_files > 0 then
    self:put({ id = "files-" .. record.seq, kind = "turnFiles", files = self.turn_files })
  end
  if not is_well then
    stop(self, { id = "turn-" .. record.seq, kind = "turnEnd", turn = turn })
  end
  tell.event("TurnFinished", { conversation = self.id, turn = turn })
end

folds["turn.paused"] = function(self, event, record)
  stop(self, { id = "pause-" .. record.seq, kind = "paused", reason = event.reason })
end

folds["retry.scheduled"] = function(self, event)
  self.retry = event
  for _, id in ipairs(event.dropItemIds or {}) do
    local entry = self.by_id[id]
    if entry then
      entry.item.status, entry.streamed = "cancelled", nil
      entry.item.text = ""
      self.on_change(entry.index)
    end
  end
  self.on_change()
end

folds["error.raised"] = function(self, event, record)
  self:put({ id = "error-" .. record.seq, kind = "error", error = event.error })
end

folds["notice"] = function(self, event, record)
  local notice = vim.tbl_extend("force", event, { id = "notice-" .. record.seq, kind = "notice" })
  self:put(notice)
end

folds["conversation.rolledBack"] = function(self, event)
  local first = self.by_id[event.toItemId]
  for index = #self.entries, first and first.index or #self.entries + 1, -1 do
    self.by_id[self.entries[index].id] = nil
    self.entries[index] = nil
    self.on_change(index)
  end
  self.plan = nil
  self.on_change()
end

folds["usage.updated"] = function(self, event)
  local cost = event.usage.cost
  self.has_unknown_cost = self.has_unknown_cost or not cost
  self.cost_usd = not self.has_unknown_cost and (self.cost_usd or 0) + cost.amount or nil
  -- Model calls outside the steps say nothing about the context of the next step.
  if not event.purpose then
    self.context = { used = event.contextUsed or 0, size = event.contextSize or self.context.size }
  end
  self.on_change()
end

return folds
