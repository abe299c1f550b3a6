--- Answers to what the agent asks. Which approval is meant: that under the cursor, else the oldest.
local tell = require("oh.tell")

local M = {}

---@param conversation oh.Conversation
---@return table?
function M.meant(conversation)
  local chat = require("oh.chat").at()
  local entry = chat
    and chat.conversation == conversation
    and chat:entry_at(vim.api.nvim_win_get_cursor(0)[1])
  local approval = entry and entry.approval or conversation.approvals[1]
  if not approval then
    tell.message("nothing waits to be allowed")
  elseif conversation.status == "stopped" then
    tell.warning("the daemon does not run; `:Oh restart` first, then it is asked again")
    return nil
  end
  return approval
end

--- Allow it for this scope; without one the narrowest that is offered.
---@param conversation oh.Conversation
---@param scope? string
function M.approve(conversation, scope)
  local approval = M.meant(conversation)
  if not approval then
    return
  end
  if scope == "?" then
    M.choose(conversation, approval)
    return
  end
  for _, option in ipairs(approval.options) do
    if option.effect == "allow" and (scope == nil or option.scope == scope) then
      conversation:respond(approval, option)
      return
    end
  end
  tell.warning(
    ("this cannot be allowed for %q; `:Oh approve ?` shows what is offered"):format(scope)
  )
end

---@param conversation oh.Conversation
---@param approval table
function M.choose(conversation, approval)
  vim.ui.select(approval.options, {
    prompt = approval.title,
    kind = "oh_approval",
    format_item = function(option)
      return option.label
    end,
  }, function(option)
    if option then
      conversation:respond(approval, option)
    end
  end)
end

--- Reject it; the note goes to the agent.
---@param conversation oh.Conversation
---@param note? string
function M.reject(conversation, note)
  local approval = M.meant(conversation)
  for _, option in ipairs(approval and approval.options or {}) do
    if approval and option.effect == "reject" then
      conversation:respond(approval, option, note)
      return
    end
  end
end

--- Ask for a note first; leaving the prompt rejects nothing.
function M.reject_with_note()
  local conversation = require("oh").conversation()
  local approval = conversation and M.meant(conversation)
  if not (conversation and approval) then
    return
  end
  vim.ui.input({ prompt = "Reject, because: " }, function(note)
    if note then
      M.reject(conversation, note ~= "" and note or nil)
    end
  end)
end

return M
