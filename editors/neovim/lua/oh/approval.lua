--- Answers approvals: the one under the cursor, else the oldest.
local config = require("oh.config")
local prompts = require("oh.prompt")
local proposal = require("oh.proposal")
local tell = require("oh.tell")

local M = {}

--- When each approval was shown, in nanoseconds.
---@type table<table, integer>
local shown_at = setmetatable({}, { __mode = "k" })

--- Note when the chat has drawn an approval for the first time; it draws it more than once.
---@param approval table
function M.on_drawn(approval)
  shown_at[approval] = shown_at[approval] or vim.uv.hrtime()
end

--- Note that an approval has just taken the place of something else in the diff tab.
---@param approval table
function M.on_shown(approval)
  shown_at[approval] = vim.uv.hrtime()
end

--- Whether a key may answer it: a key pressed just as it appears was meant for something else.
---@param approval table
---@return boolean
function M.is_readable(approval)
  local shown_ms = (vim.uv.hrtime() - (shown_at[approval] or 0)) / 1e6
  if shown_ms < config.current().chat.inert_ms then
    tell.message("that was asked just now; read it, then press the key again")
    return false
  end
  return true
end

--- The approval under the cursor, else the oldest.
---@param conversation oh.Conversation
---@return table?
local function candidate(conversation)
  local entry = require("oh.chat").entry_here(conversation)
  return entry and entry.approval or conversation.approvals[1]
end

---@param conversation oh.Conversation
---@return table?
function M.meant(conversation)
  local approval = candidate(conversation)
  if not approval then
    tell.message("nothing waits to be allowed")
  elseif conversation.is_followed then
    tell.warning("another window runs this conversation; answer there")
    return nil
  elseif conversation.status == "stopped" then
    tell.warning("the daemon does not run; `:Oh restart` first, then it is asked again")
    return nil
  end
  return approval
end

--- Answer, without the changes left out of an edit; an edit without any change is not allowed.
---@param conversation oh.Conversation
---@param approval table
---@param option table
local function respond(conversation, approval, option)
  local edited = option.effect == "allow" and proposal.edited(approval) or nil
  if edited and #edited.hunks == 0 then
    tell.message("every change of it is left out; reject it, or take one in again")
  else
    conversation:respond(approval, option, { editedSubject = edited })
  end
end

--- What can be allowed at once: all that the chat shows, but for what has a high risk, and what is
--- no single action, such as trust in a folder.
---@param conversation oh.Conversation
---@return table[]
function M.together(conversation)
  return vim.tbl_filter(function(approval)
    local is_harmless = approval.risk == "low" or approval.risk == "medium"
    return shown_at[approval] and is_harmless and M.option_of(approval, "allow", "once") ~= nil
  end, conversation.approvals)
end

--- Allow all of that once.
---@param conversation oh.Conversation
---@param is_by_key boolean
function M.approve_all(conversation, is_by_key)
  local all = M.meant(conversation) and M.together(conversation) or {}
  if is_by_key and not vim.iter(all):all(M.is_readable) then
    return
  end
  for _, approval in ipairs(all) do
    respond(conversation, approval, M.option_of(approval, "allow", "once"))
  end
  if #all == 0 and #conversation.approvals > 0 then
    tell.message("what waits has a high risk, or is no single action; answer it itself")
  end
end

--- Do `:Oh approve all`, unless one of them has just appeared.
function M.approve_all_by_key()
  local conversation = require("oh").conversation()
  if conversation then
    M.approve_all(conversation, true)
  end
end

--- Do `:Oh approve`, unless the approval has just appeared.
function M.approve_by_key()
  local conversation = require("oh").conversation()
  local is_question = conversation and require("oh.questions").meant(conversation)
  local approval = conversation and not is_question and candidate(conversation)
  if not approval or M.is_readable(approval) then
    require("oh.command").run({ args = "approve", range = 0, bang = false })
  end
end

--- Allow the meant approval for this scope; `?` shows the scopes on offer.
---@param conversation oh.Conversation
---@param scope? string
function M.approve(conversation, scope)
  local approval = M.meant(conversation)
  if approval and scope == "?" then
    M.choose(conversation, approval)
  elseif approval and scope == "all" then
    M.approve_all(conversation, false)
  elseif approval then
    M.allow(conversation, approval, scope)
  end
end

---@param approval table
---@param effect "allow"|"reject"
---@param scope? string
---@return table?
function M.option_of(approval, effect, scope)
  return vim.iter(approval.options):find(function(option)
    return option.effect == effect and (scope == nil or option.scope == scope)
  end)
end

--- Allow it for this scope, or for the narrowest scope on offer when none is given.
---@param conversation oh.Conversation
---@param approval table
---@param scope? string
function M.allow(conversation, approval, scope)
  local option = M.option_of(approval, "allow", scope)
  if option then
    respond(conversation, approval, option)
    return
  end
  local way_out = "`:Oh approve ?` shows what is offered"
  tell.warning(("this cannot be allowed for %q; %s"):format(scope, way_out))
end

---@param conversation oh.Conversation
---@param approval table
function M.choose(conversation, approval)
  prompts.select(
    approval.options,
    {
      prompt = approval.title,
      kind = "oh_approval",
      format_item = function(option)
        return option.label
      end,
    },
    prompts.about(conversation, approval.id, function(option)
      if option then
        respond(conversation, approval, option)
      end
    end)
  )
end

--- Reject the meant approval; the note goes to the agent.
---@param conversation oh.Conversation
---@param note? string
function M.reject(conversation, note)
  local approval = M.meant(conversation)
  local option = approval and M.option_of(approval, "reject")
  if approval and option then
    conversation:respond(approval, option, { feedback = note })
  end
end

--- Reject the meant approval, with a note; a meant question is declined.
function M.reject_meant()
  local conversation = require("oh").conversation()
  if not conversation then
    return
  end
  local question = require("oh.questions").meant(conversation)
  local approval = not question and M.meant(conversation)
  if question then
    conversation:answer(question, "decline")
  elseif approval then
    M.reject_with_note(conversation, approval)
  end
end

--- Ask for a note first; leaving the prompt rejects nothing.
---@param conversation oh.Conversation
---@param approval table
function M.reject_with_note(conversation, approval)
  local option = M.option_of(approval, "reject")
  local function take(note)
    tell.clear()
    if note and option then
      conversation:respond(approval, option, { feedback = note ~= "" and note or nil })
    end
  end
  vim.ui.input({ prompt = "Reject, because: " }, prompts.about(conversation, approval.id, take))
end

--- Open the command of the meant approval in a buffer; `:w` allows it once, as edited.
---@param conversation oh.Conversation
function M.edit(conversation)
  local approval = M.meant(conversation)
  if not approval then
    return
  elseif approval.subject.kind == "fileChange" then
    tell.message("`:Oh diff` shows an edit, and leaves out parts of it")
    return
  elseif not approval.editable then
    tell.message("only a command can be edited before it is allowed")
    return
  end
  local name = ("oh://command/%s"):format(approval.id)
  local open = vim.fn.bufwinid(name)
  if open > 0 then
    vim.api.nvim_set_current_win(open)
    return
  end
  local buf = vim.api.nvim_create_buf(false, false)
  vim.api.nvim_buf_set_name(buf, require("oh.names").free(name))
  vim.bo[buf].buftype = "acwrite"
  vim.bo[buf].bufhidden = "wipe"
  local lines = vim.split(approval.subject.command, "\n", { plain = true })
  vim.api.nvim_buf_set_lines(buf, 0, -1, false, lines)
  vim.bo[buf].modified = false
  vim.bo[buf].filetype = "sh"
  vim.api.nvim_create_autocmd("BufWriteCmd", {
    buffer = buf,
    desc = "oh: allow the command as it was edited",
    callback = function()
      M.allow_edited(conversation, approval, buf)
    end,
  })
  local from = vim.api.nvim_get_current_win()
  vim.api.nvim_create_autocmd("BufWipeout", {
    buffer = buf,
    desc = "oh: back to where the user was",
    callback = function()
      local is_here = vim.api.nvim_get_current_buf() == buf
      vim.schedule(function()
        if is_here and vim.api.nvim_win_is_valid(from) then
          vim.api.nvim_set_current_win(from)
        end
      end)
    end,
  })
  local place = { split = "below", win = -1, height = math.max(#lines, 3) + 1 }
  if not require("oh.windows").split(buf, true, place) then
    vim.api.nvim_buf_delete(buf, { force = true })
    return
  end
  vim.wo.winbar = " :w allows this command once, :q! leaves it%=%#OhDim#" .. approval.risk .. " "
  vim.wo.winfixbuf = true
end

---@param conversation oh.Conversation
---@param approval table
---@param buf integer
function M.allow_edited(conversation, approval, buf)
  local command = table.concat(vim.api.nvim_buf_get_lines(buf, 0, -1, false), "\n")
  local subject = vim.tbl_extend("force", approval.subject, { command = command })
  vim.bo[buf].modified = false
  local option = M.option_of(approval, "allow")
  conversation:respond(approval, option, { editedSubject = subject }, function()
    if vim.api.nvim_buf_is_valid(buf) then
      vim.api.nvim_buf_delete(buf, { force = true })
    end
  end)
end

return M
