--- Answers questions of the agent. A message that is sent while one is pending answers it as well.
local prompts = require("oh.prompt")
local tell = require("oh.tell")

local M = {}

local OTHER = "Something else…"

--- The question under the cursor, else the oldest one unless an approval waits before it.
---@param conversation oh.Conversation
---@return oh.protocol.InputRequest?
function M.meant(conversation)
  local entry = require("oh.chat").entry_here(conversation)
  if entry and (entry.question or entry.approval) then
    return entry.question
  end
  return #conversation.approvals == 0 and conversation.questions[1] or nil
end

--- Answer the meant question with this text, else with what the user chooses or types.
---@param conversation oh.Conversation
---@param text string
function M.answer(conversation, text)
  local question = M.meant(conversation)
  if not question then
    tell.message("the agent has asked nothing")
  elseif text ~= "" then
    conversation:answer(question, "accept", text)
  elseif question.choices and #question.choices > 0 then
    M.choose(conversation, question)
  else
    M.write(conversation, question)
  end
end

---@param conversation oh.Conversation
---@param question oh.protocol.InputRequest
function M.choose(conversation, question)
  local choices = vim.list_extend({}, question.choices)
  table.insert(choices, OTHER)
  local options = { prompt = question.prompt, kind = "oh_question" }
  local function take(_, index)
    if index == #choices then
      M.write(conversation, question)
    elseif index then
      conversation:answer(question, "accept", choices[index])
    end
  end
  prompts.select(choices, options, prompts.about(conversation, question.id, take))
end

---@param conversation oh.Conversation
---@param question oh.protocol.InputRequest
function M.write(conversation, question)
  -- The prompt is a single line; the whole question is in the chat.
  local prompt = vim.split(question.prompt, "\n", { plain = true })[1]
  local function take(given)
    if given and given ~= "" then
      conversation:answer(question, "accept", given)
    end
  end
  vim.ui.input({ prompt = prompt .. " " }, prompts.about(conversation, question.id, take))
end

return M
