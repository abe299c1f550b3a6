--- Messages on their way: they wait while a conversation is being started or opened again.
local conversations = require("oh.conversation")
local tell = require("oh.tell")

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
  -- It means where the user is now.
  require("oh.context").tell(daemon)
  local conversation = daemon.current
  if held[daemon] then
    table.insert(held[daemon], message)
  elseif not conversation then
    held[daemon] = {}
    conversations.start(daemon, content, M.release(daemon), M.drop(daemon))
  elseif conversation.status == "stopped" or conversation.is_followed then
    -- Who ran it may be gone, and then it is ours.
    held[daemon] = { message }
    conversations.open(daemon, conversation.id, M.release(daemon), M.drop(daemon))
  else
    conversation:send(content, delivery)
  end
end

--- A code action was chosen: the daemon gives it to a conversation, which is shown then.
---@param daemon oh.Daemon
---@param command lsp.Command
function M.act(daemon, command)
  local params = { command = command.command, arguments = command.arguments }
  daemon:request("workspace/executeCommand", params, function(result)
    if result.conversation then
      conversations.take_up(daemon, result)
    end
    require("oh.windows").show(daemon)
  end)
end

---@param daemon oh.Daemon
---@return fun(conversation: oh.Conversation)
function M.release(daemon)
  return function(conversation)
    local messages = held[daemon] or {}
    held[daemon] = nil
    local windows = require("oh.windows")
    if windows.window_of("oh-chat") then
      -- The place for the first message becomes the chat; who has hidden it meanwhile wants none.
      windows.show(daemon)
    end
    if conversation.is_followed then
      M.give_back(daemon, messages)
      return
    end
    for _, message in ipairs(messages) do
      conversation:send(message.content, message.delivery)
    end
  end
end

--- What cannot be sent is a draft again.
---@param daemon oh.Daemon
---@param messages oh.Message[]
function M.give_back(daemon, messages)
  local written = require("oh.transcript").written
  for _, message in ipairs(messages) do
    require("oh.input").append(daemon.root, written(message.content))
  end
  if #messages > 0 then
    tell.warning("another window runs this conversation; here it can only be watched")
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
