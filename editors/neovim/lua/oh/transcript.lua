--- Turns entries of a conversation into lines, highlights and folds. Pure: no buffer, no window.
--- Texts are shown in full; one that is cut says so, and how to see all of it.
local asked = require("oh.asked")
local blocks = require("oh.block")
local words = require("oh.words")

local M = {}

local STATUS = {
  pending = { "·", "OhDim" },
  awaitingApproval = { "?", "OhApproval" },
  running = { "●", "OhRunning" },
  completed = { "✓", "OhDone" },
  failed = { "✗", "OhFailed" },
  rejected = { "⊘", "OhFailed" },
  cancelled = { "⊘", "OhDim" },
}
local UNDER_WAY = { running = true, pending = true, awaitingApproval = true }
local IN_TURN =
  { running = true, waiting = true, pausing = true, paused = true, interrupting = true }
local LIVE_LINES = 12
--- A longer result is rendered when the user opens its fold.
local MAX_LINES = 200
--- How many of the files that a turn changed are named.
local MAX_FILES = 5
local PLAN = { pending = "[ ]", inProgress = "[-]", completed = "[x]" }

local render = {} ---@type table<string, fun(to: oh.Block, entry: oh.Entry, view: oh.View)>

--- What the rendering of an entry depends on besides the entry.
---@class oh.View
---@field before? oh.Entry The entry above it.
---@field root string
---@field width integer Of the window.
---@field folded integer Bodies with more lines than this are folded.
---@field state "running"|"stopped"|"followed" Requests can be answered only while running.
---@field answers fun(approval: table): string[] Lines that tell how an approval is answered.
---@field reply string How a question is answered.

---@param entry oh.Entry
---@param view oh.View
---@return oh.Block
function M.render(entry, view)
  local to = blocks.new()
  entry = view.state == "stopped" and M.cut_off(entry) or entry
  local draw = M.is_last_word(entry.item) and render.lastWord
    or render[entry.item.kind]
    or entry.item.tool and render.tool
    or render.unknown
  local is_tool = M.is_tool(entry)
  local is_asked = entry.approval or entry.question
  local is_close = is_tool and not is_asked and view.before and M.is_tool(view.before)
  if view.before and not is_close then
    to:line("")
  end
  local is_users = entry.item.kind == "userMessage"
  if not is_users and (not view.before or view.before.item.kind == "userMessage") then
    to:speaker("Oh", "OhAgent")
  end
  to.n_lead = #to.lines
  if entry.approval then
    asked.approval(to, entry.approval, view)
  elseif entry.question then
    asked.question(to, entry.question, view)
  else
    draw(to, entry, view)
  end
  return to
end

--- An entry that was under way when the daemon ended; nil if it was not.
---@param entry oh.Entry
---@return oh.Entry?
function M.cut_off(entry)
  local is_asked = entry.approval or entry.question
  if UNDER_WAY[entry.item.status] and not is_asked then
    local ended = { status = "cancelled", reason = "outcomeUnknown" }
    local item = vim.tbl_extend("force", entry.item, ended)
    return vim.tbl_extend("force", entry, { item = item })
  end
end

--- Whether this tool call ends the turn; its text is for the user to read.
---@param item table
---@return boolean
function M.is_last_word(item)
  return item.tool == "finish" and item.status == "completed"
end

function render.lastWord(to, entry, view)
  to:markdown(vim.split(M.content_text(entry.item.content), "\n", { plain = true }), view.width)
end

--- Whether it is a tool call or a thought; these have one line each, without blank lines between.
---@param entry oh.Entry
---@return boolean
function M.is_tool(entry)
  local kind = entry.item.kind
  if M.is_last_word(entry.item) then
    return false
  end
  return entry.item.tool ~= nil and kind ~= "plan" or kind == "reasoning" or kind == "subagent"
end

--- Render what is below the last entry: queued messages, and a model call that is being retried.
---@param conversation oh.Conversation
---@param untaken string[] Messages that the daemon has not taken yet.
---@return oh.Block
function M.render_tail(conversation, untaken)
  local to = blocks.new()
  local function message(state, text)
    to:line("")
    to:speaker(("You (%s)"):format(state), "OhDim")
    to:text(text, "OhDim")
  end
  if M.is_working_unseen(conversation) then
    to:line("")
    to:line("● Working", "OhRunning")
  end
  for _, queued in ipairs(conversation.queue) do
    message(M.moment(conversation, queued), M.content_text(queued.content))
  end
  for _, draft in ipairs(untaken) do
    message("sending", draft)
  end
  local retry = conversation.retry
  if retry then
    local seconds = math.max(1, math.floor(retry.delayMs / 1000 + 0.5))
    local count = ("%d of %d"):format(retry.attempt, retry.maxAttempts)
    local what = ("Trying again in %d s (%s)."):format(seconds, count)
    if retry.model then
      what = ("Asking %s instead."):format(retry.model)
    end
    to:line("")
    to:line(("> %s %s"):format(retry.error.message, what), "OhNotice")
  end
  return to
end

--- When the agent reads a message that waits.
---@param conversation oh.Conversation
---@param message table
---@return string
function M.moment(conversation, message)
  if not IN_TURN[conversation.status] then
    return "waits; `:Oh queue` sends it"
  end
  return message.delivery == "queue" and "after this turn" or "before the next step"
end

--- Whether the agent is working and no entry shows it, as while waiting for the model. Not after
--- text of the agent: that is usually its last, and the end of the turn follows at once.
---@param conversation oh.Conversation
---@return boolean
function M.is_working_unseen(conversation)
  local last = conversation.entries[#conversation.entries]
  local item = last and last.item or {}
  local is_word = item.kind == "agentMessage" or M.is_last_word(item)
  local is_seen = conversation.retry or is_word or UNDER_WAY[item.status]
  return conversation.status == "running" and not is_seen
end

function render.userMessage(to, entry)
  to:speaker("You", "OhUser", "OhUserText")
  for _, line in ipairs(vim.split(M.content_text(entry.item.content), "\n", { plain = true })) do
    to:wide(line, "OhUserText")
  end
end

--- The text that the user typed, without the parts that were made from it.
---@param content table[]
---@return string
function M.written(content)
  return M.content_text(vim.tbl_filter(function(part)
    return part.type == "text" or part.type == "command" or part.type == "skill"
  end, content))
end

--- A message's parts as the user would write them: the text, preceded by `@` mentions of the parts
--- that it does not name.
---@param content table[]
---@return string
function M.content_text(content)
  local written, others = {}, {}
  for _, part in ipairs(content) do
    if part.type == "text" then
      table.insert(written, part.text)
    elseif part.type == "command" or part.type == "skill" then
      table.insert(written, vim.trim(("/%s %s"):format(part.name, part.args or "")))
    else
      table.insert(others, part.uri and M.mention_of(part) or blocks.unknown(part.type))
    end
  end
  local text = table.concat(written, "\n")
  local pieces = vim.tbl_filter(function(other)
    return not text:find(other, 1, true)
  end, others)
  return table.concat(vim.list_extend(pieces, written), "\n")
end

---@param part table
---@return string
function M.mention_of(part)
  local name = part.name or blocks.path(part.uri)
  if not part.range then
    return "@" .. name
  end
  local last = part.range["end"]
  local last_line = last.character == 0 and last.line or last.line + 1
  return ("@%s:%d-%d"):format(name, part.range.start.line + 1, math.max(last_line, 1))
end

function render.agentMessage(to, entry, view)
  local streamed = entry.streamed and entry.streamed.text
  local how = { plain = true, trimempty = true }
  to:markdown(streamed or vim.split(entry.item.text or "", "\n", how), view.width)
  if entry.item.reason == "outcomeUnknown" then
    to:line("(cut off: the daemon ended while it wrote this answer)", "OhDim")
  end
end

function render.reasoning(to, entry)
  local streamed = entry.streamed and (entry.streamed.reasoning or entry.streamed.text)
  local lines = streamed or vim.split(entry.item.text or "", "\n", { plain = true })
  local is_over = entry.item.status ~= "running" and not streamed
  M.head(to, entry.item.status, is_over and "Thought" or "Thinking")
  local head = #to.lines
  for index = is_over and 1 or math.max(1, #lines - LIVE_LINES + 1), #lines do
    to:line("  " .. lines[index], "OhDim")
  end
  to:fold_below(head, is_over and 0 or math.huge)
end

function render.plan(to, entry)
  to:line("Plan", "OhAgent")
  for _, step in ipairs(entry.item.entries or {}) do
    local group = step.status == "completed" and "OhDim" or nil
    to:line(("- %s %s"):format(PLAN[step.status] or "[ ]", (step.text:gsub("\n", " "))), group)
  end
end

function render.tool(to, entry, view)
  local item = entry.item
  local has_failed = item.status == "completed" and (item.exitCode or 0) ~= 0
  local status = has_failed and "failed" or item.status
  M.head(to, status, blocks.escaped(item.title or item.kind), M.tool_facts(entry))
  local head = #to.lines
  local n_later = not entry.is_open and M.n_later(entry)
  if n_later then
    to:line(blocks.LATER, "OhDim")
    to:fold_below(head, 0, n_later)
    return
  end
  M.result(to, entry)
  if item.status ~= "running" then
    local is_looking = item.toolKind == "read" or item.toolKind == "search"
    to:fold_below(head, is_looking and 0 or view.folded)
  end
end

--- Render an item of a kind of a later release.
function render.unknown(to, entry)
  local item = entry.item
  M.head(to, item.status, blocks.escaped(item.title or item.kind), blocks.unknown(item.kind))
end

function render.condensation(to, entry)
  local item = entry.item
  local size = item.keepFrom and ("%d to %d tokens"):format(item.tokensBefore, item.tokensAfter)
  local is_kept = item.status ~= "running" and not item.keepFrom
  local what = is_kept and "Kept what came before" or "Summarized what came before"
  if item.keepFrom and not item.summary then
    what = item.limits and "Cut long output" or "Left out older output"
  end
  M.head(to, item.status, what, size)
  local head = #to.lines
  for _, line in ipairs(vim.split(item.summary or "", "\n", { plain = true, trimempty = true })) do
    to:line("  " .. line, "OhDim")
  end
  to:fold_below(head, 0)
end

function render.subagent(to, entry)
  local item = entry.item
  M.head(to, item.status, blocks.escaped(item.agent .. ": " .. item.title))
end

function render.notice(to, entry)
  local item = entry.item
  local text = item.description and (item.title .. ": " .. item.description) or item.title
  for _, line in ipairs(vim.split(text, "\n", { plain = true })) do
    to:line("> " .. line, item.severity == "error" and "OhFailed" or "OhNotice")
  end
end

function render.error(to, entry)
  local err = entry.item.error
  to:line("> " .. blocks.escaped(err.message), "OhFailed")
  if err.hint then
    to:line("> " .. blocks.escaped(err.hint), "OhNotice")
  end
end

function render.turnFiles(to, entry)
  local files = entry.item.files
  local names = vim.tbl_map(function(file)
    return ("%s +%d -%d"):format(blocks.path(file.uri), file.added, file.removed)
  end, vim.list_slice(files, 1, MAX_FILES))
  local more = #files > MAX_FILES and (", and %d more"):format(#files - MAX_FILES) or ""
  to:line(("> Changed: %s%s; `:Oh diff` reviews."):format(table.concat(names, ", "), more), "OhDim")
end

local STOPPED = {
  interrupted = "Interrupted",
  paused = "Paused",
  failed = "The turn ended with an error",
}
local WAYS_ON = {
  paused = "`:Oh resume` goes on",
  failed = "`:Oh resume` tries again",
}

function render.turnEnd(to, entry)
  local turn = entry.item.turn
  local why = STOPPED[turn.status] or words.STOPS[turn.stopReason] or "Stopped"
  local pause = entry.item.pause
  M.stop(to, entry, why .. (words.PAUSES[pause] or ""), pause and "paused" or turn.status)
end

function render.paused(to, entry)
  local reason = entry.item.reason
  M.stop(to, entry, "Paused" .. (words.PAUSES[reason] or ": " .. reason), "paused")
end

---@param to oh.Block
---@param entry oh.Entry
---@param why string
---@param status string
function M.stop(to, entry, why, status)
  local way_on = not entry.item.is_past and WAYS_ON[status]
  local text = way_on and ("%s; %s"):format(why, way_on) or why
  to:line(("> %s."):format(text), status == "failed" and "OhFailed" or "OhNotice")
end

---@param to oh.Block
---@param status string
---@param title string
---@param facts? string
function M.head(to, status, title, facts)
  local glyph, group = unpack(STATUS[status] or STATUS.pending)
  local text = ("%s %s"):format(glyph, title)
  to:line(facts and facts ~= "" and ("%s  %s"):format(text, facts) or text)
  local row = #to.lines - 1
  table.insert(to.marks, { row = row, group = group, first = 0, last = #glyph })
  if facts and facts ~= "" then
    table.insert(to.marks, { row = row, group = "OhDim", first = #text, last = #to.lines[row + 1] })
  end
end

--- The facts after a tool call's title: exit code, size of a change, time.
---@param entry oh.Entry
---@return string
function M.tool_facts(entry)
  local item = entry.item
  -- What was left out comes first, since a fold shows only what fits in a line.
  local facts = { entry.left_out }
  for _, change in ipairs(item.changes or {}) do
    table.insert(facts, ("+%d -%d"):format(change.added, change.removed))
    if change.unsaved then
      table.insert(facts, "unsaved")
    end
  end
  if item.exitCode and item.exitCode ~= 0 then
    table.insert(facts, ("exit %d"):format(item.exitCode))
  end
  if item.reason then
    table.insert(facts, words.ENDS[item.reason] or item.reason)
  elseif item.status == "rejected" then
    table.insert(facts, entry.note and "rejected: " .. blocks.escaped(entry.note) or "rejected")
  end
  if item.durationMs and item.durationMs >= 1000 then
    table.insert(facts, ("%.1f s"):format(item.durationMs / 1000))
  end
  return table.concat(facts, " · ")
end

--- The blocks of a result but for those that MCP's annotations keep for the model.
---@param content table[]
---@return table[]
local function for_people(content)
  return vim.tbl_filter(function(block)
    local audience = (block.annotations or {}).audience
    return not audience or vim.list_contains(audience, "user")
  end, content)
end

--- The number of lines of a result that is so long that it is rendered only when its fold is open.
---@param entry oh.Entry
---@return integer?
function M.n_later(entry)
  local item = entry.item
  if UNDER_WAY[item.status] or entry.streamed then
    return nil
  end
  local n_lines = item.outputRef and 1 or 0
  for _, change in ipairs(item.changes or {}) do
    n_lines = n_lines + M.n_lines(change.patch)
  end
  if not item.changes or #item.changes == 0 or item.kind == "command" then
    n_lines = n_lines + M.n_lines(M.output_text(item))
  end
  return n_lines > MAX_LINES and n_lines or nil
end

--- What a tool returned, for people: the head of its line says how a command ended.
---@param item table
---@return string
function M.output_text(item)
  local text = M.content_text(for_people(item.content or {}))
  return item.kind == "command" and (text:gsub("\n?%[exit code [^\n]*%]%s*$", "")) or text
end

---@param text? string
---@return integer
function M.n_lines(text)
  local n_lines, at = 0, 1
  while text and at <= #text do
    n_lines = n_lines + 1
    at = (text:find("\n", at, true) or #text) + 1
  end
  return n_lines
end

--- Render the diff of an edit, or the output of a tool; while it runs, only the last lines.
---@param to oh.Block
---@param entry oh.Entry
function M.result(to, entry)
  local item = entry.item
  local has_diff = item.changes and #item.changes > 0 and item.status ~= "failed"
  for _, change in ipairs(has_diff and item.changes or {}) do
    if item.kind == "command" then
      to:line(("%s %s"):format(change.op, blocks.path(change.uri)), "OhDim")
    end
    to:diff(change)
  end
  if has_diff and item.kind ~= "command" then
    return
  elseif item.status == "rejected" and entry.note then
    -- The observation only repeats the note, for the model.
    return
  end
  local live = entry.streamed and entry.streamed.output
  local lines = live and vim.list_slice(live, math.max(1, #live - LIVE_LINES + 1))
    or vim.split(M.output_text(item), "\n", { plain = true, trimempty = true })
  if #lines == 0 or #lines == 1 and lines[1] == "" then
    return
  end
  to:code(item.kind == "command" and "console" or "", lines)
  if item.outputRef then
    to:line("(shortened; `:Oh output` here shows all of it)", "OhDim")
  end
end

return M
