--- Messages being sent: they wait while a conversation is being started or opened again.
--- Invariant: what the user wrote is sent, or put back into the input; until then it is shown.
local conversations = require("oh.conversation")

local M = {}

--- Where messages go: to a conversation, or to the one that the first of them starts.
---@class oh.Target
---@field daemon oh.Daemon
---@field conversation? oh.Conversation

---@class oh.Message
---@field content table[]
---@field delivery "auto"|"queue"|"interrupt"
---@field draft string The message as the user wrote it.

--- Messages to conversations that are being started or opened.
---@type table<oh.Target, oh.Message[]>
local held = setmetatable({}, { __mode = "k" })

--- Messages that the daemon has not taken yet, oldest first, and why the last one was refused.
---@class oh.Untaken
---@field drafts string[]
---@field problem? oh.Error

---@type table<oh.Target, oh.Untaken>
local untaken = setmetatable({}, { __mode = "k" })

---@param target oh.Target
---@return oh.Untaken
function M.untaken(target)
  return untaken[target] or { drafts = {} }
end

--- Send a draft to what is chosen now, once the commands that it may name are known.
---@param daemon oh.Daemon
---@param draft string
---@param make fun(commands: table[]): table[], "auto"|"queue"|"interrupt" Its parts and delivery.
function M.write(daemon, draft, make)
  local target = daemon.chosen or daemon.target
  local drafts = M.untaken(target).drafts
  table.insert(drafts, draft)
  M.show(target, { drafts = drafts })
  if target.conversation then
    require("oh.chat").of(target.conversation):to_end()
  end
  daemon:with_commands(function(commands)
    local content, delivery = make(commands)
    M.send(target, { content = content, delivery = delivery, draft = draft })
  end)
end

---@param target oh.Target
---@param now oh.Untaken
function M.show(target, now)
  untaken[target] = now
  local daemon, conversation = target.daemon, target.conversation
  if conversation then
    conversation.on_change()
  end
  if daemon.target == target then
    require("oh.welcome").draw(daemon.root, conversation and { drafts = {} } or now)
  end
end

--- Forget a draft: the daemon has taken it, or the user has it back.
---@param target oh.Target
---@param draft string
---@param problem? oh.Error
local function settle(target, draft, problem)
  local drafts = M.untaken(target).drafts
  for index, each in ipairs(drafts) do
    if each == draft then
      table.remove(drafts, index)
      break
    end
  end
  M.show(target, { drafts = drafts, problem = problem })
end

---@param target oh.Target
---@param message oh.Message
function M.send(target, message)
  -- The message refers to where the user is now.
  require("oh.context").tell(target.daemon)
  local conversation = target.conversation
  if held[target] then
    table.insert(held[target], message)
  elseif not conversation then
    held[target] = { message }
    conversations.start(target, message.content, function(started)
      -- The new conversation already has the first message.
      table.remove(held[target], 1)
      settle(target, message.draft)
      M.release(started)
    end, M.drop(target))
  elseif
    conversation.status == "stopped"
    or conversation.is_followed
    or not target.daemon.is_ready
  then
    -- The process that ran it is ending, or may be gone; opening then takes it over.
    held[target] = { message }
    conversations.open(target.daemon, conversation.id, M.release, M.drop(target))
  else
    M.deliver(conversation, message)
  end
end

---@param conversation oh.Conversation
---@param message oh.Message
function M.deliver(conversation, message)
  conversation:send(message.content, message.delivery, function()
    settle(conversation.target, message.draft)
  end, M.give_back(conversation.target, { message.draft }))
end

--- Go to a conversation: what the user writes from now on is for it, also before it is shown.
---@param daemon oh.Daemon
---@param id string
function M.go_to(daemon, id)
  local known, before = daemon.conversations[id], daemon.target
  local target = known and known.target or { daemon = daemon }
  daemon.chosen, held[target] = target, held[target] or {}
  if not known then
    conversations.preview(daemon, id, function(preview)
      if daemon.chosen == target then
        target.conversation, preview.target = preview, target
        daemon.target = target
        require("oh.windows").show(daemon)
      end
    end)
  end
  conversations.open(daemon, id, function(opened)
    target.conversation, opened.target = opened, target
    if daemon.chosen == target then
      daemon.target, daemon.chosen = target, nil
      require("oh.windows").show(daemon)
    end
    M.release(opened)
  end, function(err)
    if daemon.chosen == target then
      daemon.chosen = nil
      if target.conversation and target.conversation.status == "opening" then
        daemon.conversations[id], daemon.target = nil, before
        require("oh.windows").show(daemon)
      end
    end
    M.drop(target)(err)
  end)
end

--- Run a chosen code action: the daemon gives it to a conversation, which is then shown.
---@param daemon oh.Daemon
---@param command lsp.Command
function M.act(daemon, command)
  local params = { command = command.command, arguments = command.arguments }
  daemon:request("workspace/executeCommand", params, function(result)
    if result.conversation then
      daemon.target, daemon.chosen = conversations.take_up(daemon, result).target, nil
    end
    require("oh.windows").show(daemon)
  end)
end

---@param conversation oh.Conversation
function M.release(conversation)
  local windows, target = require("oh.windows"), conversation.target
  if target == target.daemon.target and windows.window_of("oh-chat") then
    -- The welcome buffer becomes the chat, unless the user has left or hidden it meanwhile.
    windows.show(target.daemon)
  end
  local messages = held[target] or {}
  if conversation.is_followed and #messages > 0 then
    M.drop(target)({
      message = "another window runs this conversation; here it can only be watched",
    })
    return
  end
  held[target] = nil
  for _, message in ipairs(messages) do
    M.deliver(conversation, message)
  end
end

--- Return an error handler that gives up the waiting messages.
---@param target oh.Target
---@return fun(err: oh.Error)
function M.drop(target)
  return function(err)
    local drafts = vim.tbl_map(function(message)
      return message.draft
    end, held[target] or {})
    held[target] = nil
    M.give_back(target, drafts)(err)
  end
end

--- Return an error handler for a request with text of the user, which puts it back into the draft.
---@param target oh.Target
---@param texts string[]
---@return fun(err: oh.Error)
function M.give_back(target, texts)
  return function(err)
    for _, text in ipairs(texts) do
      require("oh.input").append(target.daemon.root, text)
      settle(target, text, err)
    end
    local done = #texts > 0 and "; what you wrote is in the input again" or nil
    require("oh.daemon").show_error(err, done)
  end
end

return M
