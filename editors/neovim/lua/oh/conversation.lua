--- A conversation built from its event log: every event is folded in once, in the order of `seq`.
--- Everything shown comes from here, so a replay of the log gives the same picture.
local folds = require("oh.folds")
local tell = require("oh.tell")

local M = {}

--- An entry of the chat, shown as one block: an item of the protocol, or an event in that form.
---@class oh.Entry
---@field id string
---@field index integer Its place among the entries.
---@field item table
---@field approval? table The approval that it waits for.
---@field question? oh.protocol.InputRequest The question that it waits for.
---@field note? string The user's note when they decided it.
---@field left_out? string How many changes the user left out of an edit.
---@field work? oh.Work The part of a finished turn that it belongs to.
---@field is_open? boolean Its result, which is long, was asked for.
---@field streamed? table<string, string[]> Lines received so far, by channel.

---@class oh.Conversation
---@field id string
---@field daemon oh.Daemon
---@field target oh.Target Its own one.
---@field title string
---@field isolated? "overlay"|"worktree" What keeps its changes apart, if it is isolated.
---@field parent_id? string Of a sub-agent: the conversation that it works for.
---@field status string
---@field reason? string Why it is paused.
---@field model? string
---@field options table<string, string>
---@field pickers table[] The options with their choices.
---@field entries oh.Entry[]
---@field approvals table[] Those that wait, oldest first.
---@field questions oh.protocol.InputRequest[] Those that wait, oldest first.
---@field queue table[] Messages that wait.
---@field unreviewed? { files: integer, added: integer, removed: integer }
---@field plan? oh.Entry Of this turn.
---@field turn_first integer The index of the last turn's first entry.
---@field turn_files? table[] What the last turn changed.
---@field retry? table The model call that is being retried.
---@field stopped? oh.Entry Why the last turn ended early or is paused, until the agent works again.
---@field context { used: integer, size?: integer }
---@field cost_usd? number Absent while a call had no known price.
---@field private has_unknown_cost? boolean
---@field seq integer The number of the last event that is folded in.
---@field private heard integer The number of the last event that arrived after a gap, or 0.
---@field epoch? string
---@field on_change fun(index?: integer) Gets the entry that changed, or nil for anything else.
---@field private by_id table<string, oh.Entry>
---@field private is_preview? boolean Its entries are only the last ones.
---@field is_fetching boolean A part of the log is being fetched.
---@field is_followed boolean Another process runs it; here it can only be watched.
local Conversation = {}
Conversation.__index = Conversation

local PAGE = 500
local LAST_SEQ, N_PREVIEW = 2 ^ 31, 100
--- What these show depends on whether the daemon runs.
local UNDER_WAY = { pending = true, awaitingApproval = true, running = true }

---@param daemon oh.Daemon
---@param id string
---@return oh.Conversation
local function new(daemon, id)
  local conversation = setmetatable({ id = id, daemon = daemon }, Conversation)
  conversation.target = { daemon = daemon, conversation = conversation }
  conversation.is_fetching, conversation.is_followed = false, false
  conversation.on_change = function() end
  conversation:forget()
  daemon.conversations[id] = conversation
  return conversation
end

--- Start the conversation of a target with its first message.
---@param target oh.Target
---@param content table[]
---@param on_started fun(conversation: oh.Conversation)
---@param on_error? fun(err: oh.Error)
function M.start(target, content, on_started, on_error)
  local daemon = target.daemon
  local options = daemon.next_options
  local params = {
    content = content,
    options = next(options) and options or nil,
    clientRequestId = M.request_id(),
    isolated = daemon.next_isolated,
  }
  daemon:request("conversation/start", params, function(result)
    daemon.next_options, daemon.next_isolated = {}, nil
    local conversation = M.take_up(daemon, result)
    target.conversation, conversation.target = conversation, target
    on_started(conversation)
  end, on_error)
end

--- The conversation that the daemon has just started.
---@param daemon oh.Daemon
---@param result oh.protocol.StartResult
---@return oh.Conversation
function M.take_up(daemon, result)
  local conversation = daemon.conversations[result.conversation.id]
  conversation = conversation or new(daemon, result.conversation.id)
  conversation.pickers = result.options
  conversation.isolated = result.conversation.isolated
  return conversation
end

--- Open a conversation from its log, or continue it.
---@param daemon oh.Daemon
---@param id string
---@param on_opened fun(conversation: oh.Conversation)
---@param on_error? fun(err: oh.Error)
function M.open(daemon, id, on_opened, on_error)
  local params = { conversationId = id, replay = "none" }
  daemon:request("conversation/open", params, function(result)
    local conversation = daemon.conversations[id] or new(daemon, id)
    local epoch = result.conversation.epoch
    if conversation.epoch and conversation.epoch ~= epoch then
      conversation:forget()
    end
    conversation.epoch = epoch
    conversation.pickers = result.options
    conversation.isolated = result.conversation.isolated
    conversation.is_followed = not result.conversation.lock.mine
    if conversation.status == "stopped" then
      -- If nothing was in progress, the log has nothing more to tell.
      conversation:set_status(result.conversation.status, result.conversation.statusReason)
    end
    for _, sentence in ipairs(result.repaired or {}) do
      tell.warning(sentence)
    end
    conversation:fetch()
    on_opened(conversation)
  end, on_error)
end

--- Show the end of a conversation that is not known yet while its log is being opened and read.
---@param daemon oh.Daemon
---@param id string
---@param on_preview fun(conversation: oh.Conversation)
function M.preview(daemon, id, on_preview)
  local params = { conversationId = id, beforeSeq = LAST_SEQ, limit = N_PREVIEW }
  daemon:request("conversation/events", params, function(page)
    if daemon.conversations[id] then
      return
    end
    local conversation = new(daemon, id)
    conversation.status, conversation.is_preview = "opening", true
    for _, record in ipairs(page.events) do
      if record.event.type == "item.started" or record.event.type == "item.completed" then
        conversation:put(record.event.item)
      end
    end
    on_preview(conversation)
  end, function() end)
end

--- Make a unique id, so that a request that is sent twice counts once.
---@return string
function M.request_id()
  return ("nvim-%d-%d"):format(vim.uv.os_getpid(), vim.uv.hrtime())
end

---@param daemon oh.Daemon
---@param params table
function M.on_event(daemon, params)
  local conversation = daemon.conversations[params.conversationId]
    or new(daemon, params.conversationId)
  conversation:take(params)
end

---@param daemon oh.Daemon
---@param params table
function M.on_delta(daemon, params)
  local conversation = daemon.conversations[params.conversationId]
  if conversation then
    conversation:stream(params)
  end
end

---@param daemon oh.Daemon
---@param params table
function M.on_gap(daemon, params)
  local conversation = daemon.conversations[params.conversationId]
  if conversation then
    conversation:catch_up(params.toSeq)
  end
end

--- Forget everything that the log can restore.
function Conversation:forget()
  self.title, self.status, self.reason = "", "idle", nil
  self.options, self.pickers = {}, self.pickers or {}
  self.entries, self.by_id = {}, {}
  self.approvals, self.questions, self.queue = {}, {}, {}
  self.retry, self.stopped, self.turn_files = nil, nil, nil
  self.plan, self.turn_first = nil, 1
  self.context, self.cost_usd, self.has_unknown_cost = { used = 0 }, nil, nil
  self.seq, self.heard, self.epoch = 0, 0, nil
  self.on_change()
end

--- Fetch the log up to this event, which is known to exist; a page being fetched may end before it.
---@private
---@param seq integer
function Conversation:catch_up(seq)
  self.heard = math.max(self.heard, seq)
  self:fetch()
end

--- Fetch the events after the known ones, page by page.
function Conversation:fetch()
  if self.is_fetching then
    return
  end
  self.is_fetching = true
  self:fetch_page(self.seq)
end

---@private
---@param after_seq integer
function Conversation:fetch_page(after_seq)
  local params = { conversationId = self.id, afterSeq = after_seq, limit = PAGE }
  self.daemon:request("conversation/events", params, function(page)
    self:end_preview()
    self.epoch = page.epoch ~= "" and page.epoch or self.epoch
    if page.truncated then
      -- The daemon reads the next page while this one is folded in.
      self:fetch_page(page.lastSeq)
    end
    for _, record in ipairs(page.events) do
      self:fold(record)
    end
    if not page.truncated then
      self.is_fetching = false
      require("oh.editor").reload_all(self.daemon)
      require("oh.inline").refresh(self)
      local is_behind = self.heard > self.seq
      self.heard = 0
      if is_behind then
        self:fetch()
      end
    end
  end, function(err)
    self.is_fetching = false
    self:end_preview()
    require("oh.daemon").show_error(err)
  end)
end

--- The log is here: what was shown until now gives way to it.
---@private
function Conversation:end_preview()
  if self.is_preview then
    local heard = self.heard
    self.is_preview = nil
    self:forget()
    self.heard = heard
  end
end

--- Take a live event. A known one is ignored; after a gap the missing ones are fetched.
---@param record table
function Conversation:take(record)
  self.epoch = self.epoch or record.epoch
  if record.seq == self.seq + 1 then
    self:fold(record)
  elseif record.seq > self.seq then
    self:catch_up(record.seq)
  end
end

---@private
---@param record table
function Conversation:fold(record)
  if record.seq ~= self.seq + 1 then
    return
  end
  self.seq = record.seq
  local fold = folds[record.event.type]
  if fold then
    fold(self, record.event, record)
  end
  tell.event("Event", { conversation = self.id, seq = record.seq, event = record.event })
end

--- Add an item, or replace the one with its id.
---@param item table
---@return oh.Entry
function Conversation:put(item)
  local entry = self.by_id[item.id]
  if item.kind == "plan" then
    -- A turn has one plan, which stays where it was made.
    entry = entry or self.plan
    self.by_id[item.id], self.plan = entry, entry
    if entry and #(item.entries or {}) == 0 then
      item.entries = entry.item.entries
    end
  end
  if not entry then
    entry = { id = item.id, index = #self.entries + 1, item = item }
    self.by_id[item.id] = entry
    table.insert(self.entries, entry)
    self.plan = item.kind == "plan" and entry or self.plan
  end
  entry.item = item
  self.on_change(entry.index)
  return entry
end

--- Append streamed text to an unfinished item; the completed item replaces it.
---@private
---@param delta { itemId: string, channel: string, offset: integer, text: string }
function Conversation:stream(delta)
  local entry = self.by_id[delta.itemId]
  if not entry then
    return
  end
  entry.streamed = entry.streamed or {}
  if delta.offset == 0 or not entry.streamed[delta.channel] then
    entry.streamed[delta.channel] = { "" }
  end
  local lines = entry.streamed[delta.channel]
  local pieces = vim.split(delta.text, "\n", { plain = true })
  lines[#lines] = lines[#lines] .. pieces[1]
  vim.list_extend(lines, pieces, 2)
  self.on_change(entry.index)
end

--- The daemon has ended. Pending requests are restored when the log is opened again.
function Conversation:on_daemon_gone()
  self.retry = nil
  self:set_status("stopped")
end

---@private
---@param status string
---@param reason? string
function Conversation:set_status(status, reason)
  self.status, self.reason = status, reason
  self.on_change()
  for _, entry in ipairs(self.entries) do
    if UNDER_WAY[entry.item.status] then
      self.on_change(entry.index)
    end
  end
end

--- Redraw an item, since its appearance depends on more than the log.
---@param item_id string
function Conversation:redraw(item_id)
  local entry = self.by_id[item_id]
  if entry then
    self.on_change(entry.index)
  end
end

-- What the user does.

---@param content table[]
---@param delivery "auto"|"queue"|"interrupt"
---@param on_taken fun()
---@param on_error fun(err: oh.Error)
function Conversation:send(content, delivery, on_taken, on_error)
  self.daemon:request("conversation/sendMessage", {
    conversationId = self.id,
    content = content,
    delivery = delivery,
    clientMessageId = M.request_id(),
  }, on_taken, on_error)
end

function Conversation:interrupt()
  self.daemon:request("conversation/interrupt", { conversationId = self.id }, function(result)
    if result.status == "interrupting" then
      tell.warning("the turn has not ended yet; it is still being interrupted")
    end
  end)
end

---@param when "step"|"now"
function Conversation:pause(when)
  self.daemon:request("conversation/pause", { conversationId = self.id, when = when })
end

---@param message? table[]
---@param on_error? fun(err: oh.Error)
function Conversation:resume(message, on_error)
  local params = { conversationId = self.id, message = message }
  self.daemon:request("conversation/resume", params, nil, on_error)
end

--- Replace older steps with a summary now.
---@param instructions? string
function Conversation:condense(instructions)
  self.daemon:request("conversation/condense", {
    conversationId = self.id,
    instructions = instructions,
  })
end

--- Send, move or remove a queued message.
---@param op "sendNow"|"move"|"remove"
---@param message_id string
---@param more { position?: integer }
---@param on_done? fun()
function Conversation:change_queue(op, message_id, more, on_done)
  local params = { conversationId = self.id, op = op, messageId = message_id }
  self.daemon:request("conversation/queue", vim.tbl_extend("error", params, more), on_done)
end

---@param option_id string
---@param value string
function Conversation:set_option(option_id, value)
  local params = { conversationId = self.id, optionId = option_id, value = value }
  self.daemon:request("conversation/setOption", params, function(result)
    self.pickers = result.options
  end)
end

--- Answer an approval exactly as it was shown: its digest is sent back with the answer.
--- A turn that is paused only because the daemon restarted goes on once all approvals are allowed.
---@param approval table
---@param option table One of its options.
---@param more? { feedback?: string, editedSubject?: table }
---@param on_taken? fun()
function Conversation:respond(approval, option, more, on_taken)
  local answer = { approvalId = approval.id, digest = approval.digest, optionId = option.id }
  answer = vim.tbl_extend("error", answer, more or {})
  local note = answer.feedback
  local on_error = note and require("oh.outgoing").give_back(self.target, { note }) or nil
  self.daemon:request("approval/respond", answer, function(result)
    if on_taken then
      on_taken()
    end
    local others = vim.tbl_filter(function(other)
      return other.id ~= approval.id
    end, self.approvals)
    if not result.resolved then
      tell.warning("that was decided already")
    elseif self.reason == "daemonRestarted" and option.effect == "allow" and #others == 0 then
      self:resume()
    end
  end, on_error)
end

---@param question oh.protocol.InputRequest
---@param action "accept"|"decline"
---@param content? string
function Conversation:answer(question, action, content)
  local answer = { inputId = question.id, action = action, content = content }
  self.daemon:request("input/respond", answer, function(result)
    if not result.resolved then
      tell.warning("that was answered already")
    end
  end, require("oh.outgoing").give_back(self.target, { content }))
end

return M
