--- Where a conversation stands, in a few words: for status lines and the chat's window bar.
local M = {}

---@class oh.Status
---@field root string
---@field status string Of the conversation; `starting`, `ready` or `stopped` without one.
---@field reason? string
---@field title? string
---@field approvals integer
---@field queued integer
---@field mode? string
---@field model? string
---@field context? { used: integer, size?: integer }
---@field cost_usd? number

---@param daemon oh.Daemon
---@return oh.Status
function M.of(daemon)
  local conversation = daemon.current
  if not conversation then
    local status = not daemon.client_id and "stopped" or daemon.is_ready and "ready" or "starting"
    return { root = daemon.root, status = status, approvals = 0, queued = 0 }
  end
  return {
    root = daemon.root,
    status = conversation.status,
    reason = conversation.reason,
    title = conversation.title,
    approvals = #conversation.approvals,
    queued = #conversation.queue,
    mode = conversation.options.mode,
    model = conversation.model,
    context = conversation.context,
    cost_usd = conversation.cost_usd,
  }
end

---@param status oh.Status
---@return string
function M.text(status)
  local text = "oh: " .. status.status
  if status.approvals > 0 then
    text = ("%s, %d to allow"):format(text, status.approvals)
  end
  return text
end

local GROUPS = {
  running = "OhRunning",
  waiting = "OhApproval",
  error = "OhFailed",
  stopped = "OhFailed",
}

--- The chat's window bar: status, title, and what a message costs and reaches.
---@param conversation oh.Conversation
---@return string
function M.bar(conversation)
  local function plain(text)
    return (text:gsub("%%", "%%%%"):gsub("[\r\n]", " "))
  end
  local status = conversation.status
  local state = conversation.reason and ("%s (%s)"):format(status, conversation.reason) or status
  if status == "waiting" and #conversation.approvals > 0 then
    state = ("%d to allow"):format(#conversation.approvals)
  end
  local left = ("%%#%s# %s %%*"):format(GROUPS[status] or "OhDim", state)
  local facts = { conversation.options.mode or "", plain(conversation.model or "") }
  local context = conversation.context
  if context.size and context.size > 0 then
    table.insert(facts, ("%d%%%%"):format(100 * context.used / context.size))
  end
  if conversation.cost_usd then
    table.insert(facts, ("$%.2f"):format(conversation.cost_usd))
  end
  local title = plain(conversation.title)
  return ("%s %%<%s%%=%%#OhDim# %s "):format(left, title, table.concat(facts, " · "))
end

return M
