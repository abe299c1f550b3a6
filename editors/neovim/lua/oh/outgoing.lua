--- Messages on their way: they wait while a conversation is being started or opened again.
--- Invariant: what the user wrote is sent, or it is in the input again.
local conversations = require("oh.conversation")

local M = {}

---@class oh.Message
---@field content table[]
---@field delivery "auto"|"queue"|"interrupt"
---@field draft string The same as the user wrote it.

--- Messages to daemons that are starting or opening a conversation.
---@type table<oh.Daemon, oh.Message[]>
local held = setmetatable({}, { __mode = "k" })

---@param daemon oh.Daemon
---@param message oh.Message
function M.send(daemon, message)
  -- It means where the user is now.
  require("oh.context").tell(daemon)
  local conversation = daemon.current
  if held[daemon] then
    table.insert(held[daemon], message)
  elseif not conversation then
    held[daemon] = { message }
    conversations.start(daemon, message.content, function(started)
      -- It has the first one already.
      table.remove(held[daemon], 1)
      M.release(daemon, started)
    end, M.drop(daemon))
  elseif conversation.status == "stopped" or conversation.is_followed then
    -- Who ran it may be gone, and then it is ours.
    held[daemon] = { message }
    conversations.open(daemon, conversation.id, function(opened)
      M.release(daemon, opened)
    end, M.drop(daemon))
  else
    M.deliver(conversation, message)
  end
end

---@param conversation oh.Conversation
---@param message oh.Message
function M.deliver(conversation, message)
  local on_error = M.give_back(conversation.daemon, { message.draft })
  conversation:send(message.content, message.delivery, on_error)
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
---@param conversation oh.Conversation
function M.release(daemon, conversation)
  local windows = require("oh.windows")
  if windows.window_of("oh-chat") then
    -- The place for the first message becomes the chat; who has hidden it meanwhile wants none.
    windows.show(daemon)
  end
  local messages = held[daemon]
  if conversation.is_followed and #messages > 0 then
    M.drop(daemon)({
      message = "another window runs this conversation; here it can only be watched",
    })
    return
  end
  held[daemon] = nil
  for _, message in ipairs(messages) do
    M.deliver(conversation, message)
  end
end

--- Give up what waits.
---@param daemon oh.Daemon
---@return fun(err: oh.Error)
function M.drop(daemon)
  return function(err)
    local drafts = vim.tbl_map(function(message)
      return message.draft
    end, held[daemon])
    held[daemon] = nil
    M.give_back(daemon, drafts)(err)
  end
end

--- What to do when a request fails that has in it what the user wrote: that is a draft again.
---@param daemon oh.Daemon
---@param texts string[]
---@return fun(err: oh.Error)
function M.give_back(daemon, texts)
  return function(err)
    for _, text in ipairs(texts) do
      require("oh.input").append(daemon.root, text)
    end
    require("oh.daemon").show_error(err, "; what you wrote is in the input again")
  end
end

return M
