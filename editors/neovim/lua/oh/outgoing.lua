--- Messages being sent: they wait while a conversation is being started or opened again.
--- Invariant: what the user wrote is sent, or put back into the input; until then it is shown.
local conversations = require("oh.conversation")

local M = {}

---@class oh.Message
---@field content table[]
---@field delivery "auto"|"queue"|"interrupt"
---@field draft string The message as the user wrote it.

--- Messages to daemons that are starting or opening a conversation.
---@type table<oh.Daemon, oh.Message[]>
local held = setmetatable({}, { __mode = "k" })

--- Messages that the daemon has not taken yet, oldest first, and why the last one was refused.
---@class oh.Untaken
---@field drafts string[]
---@field problem? oh.Error

---@type table<oh.Daemon, oh.Untaken>
local untaken = setmetatable({}, { __mode = "k" })

---@param daemon oh.Daemon
---@return oh.Untaken
function M.untaken(daemon)
  return untaken[daemon] or { drafts = {} }
end

--- Send a draft, once the commands that it may name are known.
---@param daemon oh.Daemon
---@param draft string
---@param make fun(commands: table[]): table[], "auto"|"queue"|"interrupt" Its parts and delivery.
function M.write(daemon, draft, make)
  local drafts = M.untaken(daemon).drafts
  table.insert(drafts, draft)
  M.show(daemon, { drafts = drafts })
  daemon:with_commands(function(commands)
    local content, delivery = make(commands)
    M.send(daemon, { content = content, delivery = delivery, draft = draft })
  end)
end

---@param daemon oh.Daemon
---@param now oh.Untaken
function M.show(daemon, now)
  untaken[daemon] = now
  if daemon.current then
    daemon.current.on_change()
  end
  require("oh.welcome").draw(daemon.root, daemon.current and { drafts = {} } or now)
end

--- Forget a draft: the daemon has taken it, or the user has it back.
---@param daemon oh.Daemon
---@param draft string
---@param problem? oh.Error
local function settle(daemon, draft, problem)
  local drafts = M.untaken(daemon).drafts
  for index, each in ipairs(drafts) do
    if each == draft then
      table.remove(drafts, index)
      break
    end
  end
  M.show(daemon, { drafts = drafts, problem = problem })
end

---@param daemon oh.Daemon
---@param message oh.Message
function M.send(daemon, message)
  -- The message refers to where the user is now.
  require("oh.context").tell(daemon)
  local conversation = daemon.current
  if held[daemon] then
    table.insert(held[daemon], message)
  elseif not conversation then
    held[daemon] = { message }
    conversations.start(daemon, message.content, function(started)
      -- The new conversation already has the first message.
      table.remove(held[daemon], 1)
      settle(daemon, message.draft)
      M.release(daemon, started)
    end, M.drop(daemon))
  elseif conversation.status == "stopped" or conversation.is_followed then
    -- The process that ran it may be gone; opening then takes it over.
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
  local daemon = conversation.daemon
  conversation:send(message.content, message.delivery, function()
    settle(daemon, message.draft)
  end, M.give_back(daemon, { message.draft }))
end

--- Run a chosen code action: the daemon gives it to a conversation, which is then shown.
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
    -- The welcome buffer becomes the chat, unless the user has hidden it meanwhile.
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

--- Return an error handler that gives up the waiting messages.
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

--- Return an error handler for a request with text of the user, which puts it back into the draft.
---@param daemon oh.Daemon
---@param texts string[]
---@return fun(err: oh.Error)
function M.give_back(daemon, texts)
  return function(err)
    for _, text in ipairs(texts) do
      require("oh.input").append(daemon.root, text)
      settle(daemon, text, err)
    end
    require("oh.daemon").show_error(err, "; what you wrote is in the input again")
  end
end

return M
