--- An instruction for lines of a file: a conversation of its own changes them, and a mark at the
--- lines says how far it is. The changes are then kept or undone in the file (`oh.inline`).
local tell = require("oh.tell")

local M = {}

---@class oh.Edit
---@field conversation? oh.Conversation Once it has been started.
---@field buf integer
---@field uri string
---@field mark integer
---@field hold? "asked"|"paused" Why it does not go on by itself.
---@field is_stopped? boolean The user wants it to end.
---@field is_over? boolean

local INSTRUCTIONS = "The user gives an instruction for the selection, in the editor itself. "
  .. "Change the file at once, in as few steps as possible, and nothing that it does not ask for. "
  .. "Your last message is shown in one line: one short sentence, without Markdown."
local MAX_TITLE = 100
local SHOWN = {
  running = { "● the agent edits this; `:Oh stop` ends it", "OhRunning" },
  asked = { "? the agent asks you; `:Oh visit` shows it", "OhApproval" },
  paused = { "● the agent is paused; `:Oh visit` shows why", "OhNotice" },
}
local GOES_ON = {
  ["approval.resolved"] = true,
  ["input.resolved"] = true,
  ["turn.resumed"] = true,
  ["turn.started"] = true,
}
local namespace = vim.api.nvim_create_namespace("oh.edit")

--- All edits of this session, oldest first.
---@type oh.Edit[]
local edits = {}

---@param conversation oh.Conversation
---@return oh.Edit?
local function edit_of(conversation)
  return vim.iter(edits):find(function(edit)
    return edit.conversation == conversation
  end)
end

--- Let the agent change lines of the current buffer; without an instruction, ask for it.
---@param call oh.Call
function M.begin(call)
  local daemon, buf = require("oh.daemon").start(), vim.api.nvim_get_current_buf()
  if not daemon then
    return
  end
  local first, last = call.first or 1, call.last or vim.api.nvim_buf_line_count(buf)
  local of_lines = require("oh.mention").of_lines
  local _, name = of_lines(buf, daemon.root, first, last)
  if not name then
    tell.warning("only a file under " .. daemon.root .. " can be edited like this")
    return
  end
  local function go_on(instruction)
    instruction = vim.trim(instruction or "")
    if instruction == "" then
      return
    end
    -- While the user wrote it, the buffer may have changed.
    local is_loaded = vim.api.nvim_buf_is_loaded(buf)
    if not is_loaded or first > vim.api.nvim_buf_line_count(buf) then
      tell.warning("the lines are gone")
    else
      local part = of_lines(buf, daemon.root, first, last)
      M.start(daemon, buf, part, ("%s: %s"):format(name:sub(2), instruction), instruction)
    end
  end
  if call.args ~= "" then
    go_on(call.args)
  else
    vim.ui.input({ prompt = ("Edit %s: "):format(name:sub(2)) }, function(instruction)
      tell.clear()
      go_on(instruction)
    end)
  end
end

---@param daemon oh.Daemon
---@param buf integer
---@param part table The lines.
---@param title string
---@param instruction string
function M.start(daemon, buf, part, title, instruction)
  local current, conversations = daemon.target.conversation, require("oh.conversation")
  local options = vim.tbl_extend("force", {}, current and current.options or daemon.next_options)
  -- In a plan nothing could be changed.
  options.mode = options.mode == "plan" and "ask" or options.mode
  local first, last = part.range.start.line, part.range["end"].line
  ---@type oh.Edit
  local edit = { buf = buf, uri = part.uri, mark = 0 }
  edit.mark = vim.api.nvim_buf_set_extmark(buf, namespace, first, 0, { end_row = last })
  table.insert(edits, edit)
  M.draw(edit)
  M.follow()
  require("oh.context").tell(daemon)
  daemon:request("conversation/start", {
    title = require("oh.block").cut(title:gsub("%s+", " "), MAX_TITLE),
    content = { { type = "text", text = instruction }, part },
    instructions = INSTRUCTIONS,
    options = next(options) and options or nil,
    clientRequestId = conversations.request_id(),
  }, function(result)
    edit.conversation = conversations.take_up(daemon, result)
    if edit.is_stopped then
      edit.conversation:interrupt()
    end
    for _, approval in ipairs(edit.conversation.approvals) do
      M.answer(edit.conversation, approval)
    end
  end, function(err)
    M.finish(edit)
    require("oh.daemon").show_error(err)
  end)
end

--- Follow what the conversations do, from the first edit on.
function M.follow()
  local group = vim.api.nvim_create_augroup("oh.edit", { clear = true })
  vim.api.nvim_create_autocmd("User", {
    group = group,
    pattern = "OhEvent",
    desc = "oh: the lines of an instruction say how far it is",
    callback = function(args)
      local edit = vim.iter(edits):find(function(each)
        return each.conversation and each.conversation.id == args.data.conversation
      end)
      if edit and not edit.is_over then
        M.on_event(edit, args.data.event)
      end
    end,
  })
  vim.api.nvim_create_autocmd("User", {
    group = group,
    pattern = "OhExit",
    desc = "oh: what the daemon did ends with it",
    callback = function()
      for _, edit in ipairs(edits) do
        if not edit.conversation or edit.conversation.status == "stopped" then
          M.finish(edit)
        end
      end
    end,
  })
end

---@param edit oh.Edit
---@param event table
function M.on_event(edit, event)
  if GOES_ON[event.type] then
    edit.hold = nil
  elseif event.type == "turn.paused" then
    edit.hold = "paused"
  elseif event.type == "input.requested" then
    edit.hold = "asked"
  elseif event.type == "turn.completed" then
    M.finish(edit)
    M.report(event.turn)
    return
  end
  M.draw(edit)
end

---@param turn oh.protocol.Turn
function M.report(turn)
  if turn.error then
    tell.warning(turn.error.message .. "; `:Oh visit` shows the conversation")
  elseif turn.status == "interrupted" then
    tell.message("stopped; `u` or `<Plug>(oh-undo)` takes back what was changed")
  elseif (turn.finalText or "") ~= "" then
    tell.message((turn.finalText:gsub("%s+", " ")))
  end
end

--- The answer that allows what the instruction asks for: a change of the user's own file. What a
--- rule, a hook or a protected place asks about has no lasting answer.
---@param edit oh.Edit
---@param approval table
---@return table? option
local function allowed_by(edit, approval)
  local subject = approval.subject
  if subject.kind ~= "fileChange" or subject.origin or subject.git or edit.is_stopped then
    return nil
  elseif edit.conversation.options.approval == "askAlways" then
    return nil
  end
  local is_file = vim.iter(subject.changes):all(function(change)
    return change.op == "modify" and vim.uri_to_fname(change.uri) == vim.uri_to_fname(edit.uri)
  end)
  local is_harmless = approval.risk == "low" or approval.risk == "medium"
  local option_of = require("oh.approval").option_of
  return is_file
      and is_harmless
      and option_of(approval, "allow", "conversation")
      and option_of(approval, "allow", "once")
    or nil
end

--- Allow, while the turn of an instruction runs, what the instruction asks for.
---@param conversation oh.Conversation
---@param approval table
---@return boolean is_answered
function M.answer(conversation, approval)
  local edit = edit_of(conversation)
  if not edit or edit.is_over then
    return false
  end
  local option = allowed_by(edit, approval)
  if option then
    conversation:respond(approval, option)
    return true
  end
  edit.hold = "asked"
  M.draw(edit)
  return false
end

---@param edit oh.Edit
function M.draw(edit)
  if not vim.api.nvim_buf_is_loaded(edit.buf) then
    return
  end
  local how = { details = true }
  local mark = vim.api.nvim_buf_get_extmark_by_id(edit.buf, namespace, edit.mark, how)
  if mark[1] then
    vim.api.nvim_buf_set_extmark(edit.buf, namespace, mark[1], 0, {
      id = edit.mark,
      end_row = mark[3].end_row,
      hl_group = "OhCode",
      hl_eol = true,
      virt_text = { SHOWN[edit.hold or "running"] },
      strict = false,
    })
  end
end

---@param edit oh.Edit
function M.finish(edit)
  edit.is_over = true
  if vim.api.nvim_buf_is_valid(edit.buf) then
    vim.api.nvim_buf_del_extmark(edit.buf, namespace, edit.mark)
  end
end

--- The edits of the current buffer, oldest first; without any, all.
---@return oh.Edit[]
local function edits_here()
  local here = vim.tbl_filter(function(edit)
    return edit.buf == vim.api.nvim_get_current_buf()
  end, edits)
  return #here > 0 and here or edits
end

--- Stop what is under way in the current buffer.
---@return boolean stopped
function M.stop()
  local found = false
  for _, edit in ipairs(edits) do
    if edit.buf == vim.api.nvim_get_current_buf() and not edit.is_over then
      edit.is_stopped, found = true, true
      if edit.conversation then
        edit.conversation:interrupt()
      end
    end
  end
  return found
end

--- Show the conversation of the newest edit here.
function M.visit()
  local here = edits_here()
  local edit = here[#here]
  if edit and edit.conversation then
    require("oh.outgoing").go_to(edit.conversation.daemon, edit.conversation.id)
  else
    tell.message("no lines were edited by an instruction; `:'<,'>Oh edit {instruction}` does")
  end
end

return M
