--- The status of a conversation in a few words: for status lines and the chat's window bar.
local blocks = require("oh.block")
local words = require("oh.words")

local M = {}

---@class oh.Status
---@field root string
---@field status string The conversation's; without one `starting`, `ready` or `stopped`.
---@field reason? string
---@field title? string
---@field approvals integer
---@field questions integer
---@field queued integer
---@field unreviewed? { files: integer, added: integer, removed: integer }
---@field mode? string
---@field model? string
---@field context? { used: integer, size?: integer }
---@field cost_usd? number

---@param daemon oh.Daemon
---@return oh.Status
function M.of(daemon)
  local conversation = daemon.target.conversation
  if not conversation then
    local status = not daemon.client_id and "stopped" or daemon.is_ready and "ready" or "starting"
    return { root = daemon.root, status = status, approvals = 0, questions = 0, queued = 0 }
  end
  return {
    root = daemon.root,
    status = conversation.status,
    reason = conversation.reason,
    title = conversation.title,
    approvals = #conversation.approvals,
    questions = #conversation.questions,
    queued = #conversation.queue,
    unreviewed = conversation.unreviewed,
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
  elseif status.questions > 0 then
    text = text .. ", a question"
  end
  local unreviewed = status.unreviewed
  if unreviewed and unreviewed.files > 0 then
    text = ("%s, +%d -%d to review"):format(text, unreviewed.added, unreviewed.removed)
  end
  return text
end

local GROUPS = {
  running = "OhRunning",
  waiting = "OhApproval",
  error = "OhFailed",
  stopped = "OhFailed",
}

--- Blanks around state, title and facts.
local BLANKS = "     "
--- The model's name is left out if it would leave less than this for the title.
local TITLE_WIDTH = 24
local DOT = " · "
--- Warnings that replace the names of modes that must not be overlooked.
local ALARMS = { full = "full: never asks" }

--- The chat's window bar: status, title, mode, use of the context, cost and model.
---@param conversation oh.Conversation
---@param width? integer The window's: the model's name is left out, then the title cut, to fit it.
---@return string
function M.bar(conversation, width)
  local state = M.state(conversation)
  local room = (width or math.huge) - vim.api.nvim_strwidth(state) - #BLANKS
  local title = conversation.title:gsub("[\r\n]", " ")
  title = conversation.isolated and "[isolated] " .. title or title
  local facts = M.facts(conversation, room - math.min(vim.api.nvim_strwidth(title), TITLE_WIDTH))
  title = blocks.cut(title, room - vim.api.nvim_strwidth(facts))
  local function plain(text)
    return (text:gsub("%%", "%%%%"))
  end
  local group = GROUPS[conversation.status] or "OhDim"
  local left = ("%%#%s# %s %%* %s"):format(group, plain(state), plain(title))
  return ("%s%%=%%<%%#OhDim# %s "):format(left, M.alarmed(plain(facts)))
end

---@param facts string
---@return string
function M.alarmed(facts)
  for _, alarm in pairs(ALARMS) do
    facts = facts:gsub(vim.pesc(alarm), ("%%%%#OhApproval#%s%%%%#OhDim#"):format(alarm))
  end
  return facts
end

--- The window bar before the first message.
---@param daemon? oh.Daemon
---@return string
function M.empty_bar(daemon)
  local status = daemon and M.of(daemon).status or "ready"
  local said = { status ~= "ready" and status or "oh" }
  for _, id in ipairs({ "mode", "approval", "model" }) do
    local value = daemon and daemon.next_options[id]
    table.insert(said, ALARMS[value] or value)
  end
  local group = GROUPS[status] or "OhDim"
  return ("%%#%s# %s "):format(group, M.alarmed(table.concat(said, DOT):gsub("%%", "%%%%")))
end

---@param conversation oh.Conversation
---@return string
function M.state(conversation)
  local status = conversation.status
  local state = status
  local steps = status == "running" and conversation.plan and conversation.plan.item.entries or {}
  if #steps > 0 then
    local n_done = #vim.tbl_filter(function(step)
      return step.status == "completed"
    end, steps)
    state = ("%s, %d of %d done"):format(status, n_done, #steps)
  end
  if status == "waiting" and #conversation.approvals > 0 then
    state = ("%d to allow"):format(#conversation.approvals)
  elseif #conversation.questions > 0 then
    state = "a question"
  end
  return conversation.is_followed and state .. " elsewhere" or state
end

---@param conversation oh.Conversation
---@param room number
---@return string
function M.facts(conversation, room)
  local mode = conversation.options.mode
  local facts = { ALARMS[mode] or mode }
  local context = conversation.context
  if context.size and context.size > 0 then
    table.insert(facts, ("%d%%"):format(100 * context.used / context.size))
  end
  if conversation.cost_usd then
    table.insert(facts, words.cost(conversation.cost_usd, 2))
  end
  local model = conversation.model or ""
  local taken = vim.api.nvim_strwidth(table.concat(facts, DOT) .. DOT .. model)
  if model ~= "" and taken <= room then
    table.insert(facts, math.min(2, #facts + 1), model)
  end
  return table.concat(facts, DOT)
end

return M
