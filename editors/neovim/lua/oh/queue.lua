--- The queued messages: the user sends one now, moves it to the front or takes it back.
local prompts = require("oh.prompt")
local tell = require("oh.tell")

local M = {}

local NONE = "no message waits"

---@type { label: string, op: "sendNow"|"move"|"remove", position?: integer }[]
local ACTS = {
  { label = "Send now", op = "sendNow" },
  { label = "Put first", op = "move", position = 0 },
  { label = "Take back to the draft", op = "remove" },
}

--- Let the user choose a message and what to do with it.
---@param conversation oh.Conversation
function M.choose(conversation)
  prompts.choose(conversation.queue, NONE, {
    prompt = "Which message?",
    kind = "oh_queued",
    format_item = M.title,
  }, function(message)
    M.choose_act(conversation, message)
  end)
end

---@param conversation oh.Conversation
---@param message table
function M.choose_act(conversation, message)
  prompts.select(ACTS, {
    prompt = M.title(message),
    kind = "oh_queued_act",
    format_item = function(act)
      return act.label
    end,
  }, function(act)
    if act and act.op == "remove" then
      M.take_back(conversation, message)
    elseif act then
      conversation:change_queue(act.op, message.messageId, { position = act.position })
    end
  end)
end

--- Take a message out of the queue; its text goes to the draft.
---@param conversation oh.Conversation
---@param message? table By default the newest one.
function M.take_back(conversation, message)
  message = message or conversation.queue[#conversation.queue]
  if not message then
    tell.message(NONE)
    return
  end
  local text = require("oh.transcript").written(message.content)
  conversation:change_queue("remove", message.messageId, {}, function()
    require("oh.input").append(conversation.daemon.root, text)
  end)
end

---@param message table
---@return string
function M.title(message)
  return (require("oh.transcript").content_text(message.content):gsub("\n.*", " …"))
end

return M
