--- The usage of model calls: of this conversation, of each of its models, and of all of today.
local tell = require("oh.tell")
local words = require("oh.words")

local M = {}

local ROW = "%-18s%8s%7s%8s%6s%9s"
local NAME_WIDTH = 17

---@param conversation oh.Conversation
function M.show(conversation)
  local daemon = conversation.daemon
  daemon:request("usage/read", { conversationId = conversation.id }, function(own)
    daemon:request("usage/read", { since = os.date("!%Y-%m-%d") }, function(today)
      tell.float(M.lines(conversation, own, today), "Usage", "text")
    end)
  end)
end

---@param conversation oh.Conversation
---@param own oh.protocol.UsageReadResult
---@param today oh.protocol.UsageReadResult
---@return string[]
function M.lines(conversation, own, today)
  local lines = { ROW:format("tokens", "read", "cached", "written", "calls", "cost") }
  table.insert(lines, M.row("this conversation", own.usage))
  for _, part in ipairs(#own.byModel > 1 and own.byModel or {}) do
    table.insert(lines, M.row("  " .. part.model:match("[^/]*$"), part.usage))
  end
  table.insert(lines, M.row("today (UTC)", today.usage))
  local context = conversation.context
  if (context.size or 0) > 0 then
    local part = 100 * context.used / context.size
    table.insert(lines, ("context %18.0f %% of %d"):format(part, context.size))
  end
  return lines
end

---@param name string
---@param usage oh.protocol.Usage
---@return string
function M.row(name, usage)
  local read = usage.inputTokens
  local cached = ("%.0f %%"):format(read > 0 and 100 * usage.cacheReadTokens / read or 0)
  local cost = usage.cost and words.cost(usage.cost.amount, 3) or "unknown"
  local short = require("oh.block").cut(name, NAME_WIDTH)
  return ROW:format(short, read, cached, usage.outputTokens, usage.requests, cost)
end

return M
