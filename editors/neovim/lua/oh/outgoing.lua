--- Messages on their way: they wait while a conversation is being started or opened again.
local conversations = require("oh.conversation")

local M = {}

---@class oh.Message
---@field content table[]
---@field delivery "auto"|"queue"|"interrupt"

--- Messages to daemons that are starting or opening a conversation.
---@type table<oh.Daemon, oh.Message[]>
local held = setmetatable({}, { __mode = "k" })

---@param daemon oh.Daemon
---@param content table[]
---@param delivery "auto"|"queue"|"interrupt"
function M.send(daemon, content, delivery)
  local message = { content = content, delivery = delivery }
  local conversation = daemon.current
  if held[daemon] then
    table.insert(held[daemon], message)
  elseif not conversation then
    held[daemon] = {}
    conversations.start(daemon, content, M.release(daemon), M.drop(daemon))
  elseif conversation.status == "stopped" then
    held[daemon] = { message }
    conversations.open(daemon, conversation.id, M.release(daemon), M.drop(daemon))
  else
    conversation:send(content, delivery)
  end
end

---@param daemon oh.Daemon
---@return fun(conversation: oh.Conversation)
function M.release(daemon)
  return function(conversation)
    local messages = held[daemon] or {}
    held[daemon] = nil
    require("oh.windows").show(daemon)
    for _, message in ipairs(messages) do
      conversation:send(message.content, message.delivery)
    end
  end
end

---@param daemon oh.Daemon
---@return fun(err: oh.Error)
function M.drop(daemon)
  return function(err)
    held[daemon] = nil
    require("oh.daemon").show_error(err)
  end
end

return M
