--- Operations on a whole conversation: fork, rollback, checkpoints, export, side questions, and
--- switching to the conversations of its sub-agents.
local blocks = require("oh.block")
local outgoing = require("oh.outgoing")
local tell = require("oh.tell")

local M = {}

--- The entry at the cursor, or above it, that is in the log: some entries exist only in the chat.
---@param conversation oh.Conversation
---@return integer? index Into the entries; nil outside the chat.
local function place(conversation)
  local chat = require("oh.chat").at()
  if not chat or chat.conversation ~= conversation then
    return nil
  end
  local entry = chat:entry_at(vim.api.nvim_win_get_cursor(0)[1])
  local index = entry and entry.index or #conversation.entries
  while index > 0 and conversation.entries[index].id:match("^%l+%-%d+$") do
    index = index - 1
  end
  return index > 0 and index or nil
end

--- Continue in another conversation that has this one's history up to the cursor, or all of it.
---@param conversation oh.Conversation
---@param title? string
function M.fork(conversation, title)
  local index = place(conversation)
  conversation.daemon:request("conversation/fork", {
    conversationId = conversation.id,
    atItemId = index and conversation.entries[index].id,
    title = title,
  }, function(result)
    outgoing.go_to(conversation.daemon, result.conversation.id)
    tell.message(("%q goes on as %q"):format(conversation.title, result.conversation.title))
  end)
end

local MAX_NAMED = 6

--- A few names and the number of the others, so that it fits a prompt.
---@param names string[]
---@return string
local function named(names)
  local more = #names - MAX_NAMED
  local shown = table.concat(names, ", ", 1, math.min(#names, MAX_NAMED))
  return more > 0 and ("%s and %d more"):format(shown, more) or shown
end

---@param files { restored: string[], conflicts: table[] } The outcome of a dry run.
---@return string
local function told(files)
  local restored = vim.tbl_map(blocks.path, files.restored)
  local what = #restored == 0 and "no file changes" or "files go back: " .. named(restored)
  local left = vim.tbl_map(function(conflict)
    return ("%s (%s)"):format(blocks.path(conflict.uri), conflict.reason)
  end, files.conflicts)
  return #left == 0 and what or ("%s; left alone: %s"):format(what, named(left))
end

--- Do for real what a dry run has shown, and say what happened to the files.
---@param daemon oh.Daemon
---@param method "conversation/rollback"|"checkpoint/restore"
---@param params table Of the dry run.
---@param on_done? fun()
local function go_back(daemon, method, params, on_done)
  params.dryRun = nil
  daemon:request(method, params, function(result)
    if on_done then
      on_done()
    end
    require("oh.editor").reload_all(daemon)
    tell.message(told(result))
  end)
end

--- Go back to before the message at the cursor, or before the last one, with or without the files.
--- The effect on the files is shown first; the message is in the draft afterwards.
---@param conversation oh.Conversation
function M.rollback(conversation)
  local entries = conversation.entries
  local index = place(conversation) or #entries
  while index > 0 and entries[index].item.kind ~= "userMessage" do
    index = index - 1
  end
  local message = entries[index]
  if not message then
    tell.message("there is no message to go back to")
    return
  end
  local written = require("oh.transcript").written(message.item.content)
  local daemon, params = conversation.daemon, { conversationId = conversation.id }
  params.toItemId, params.files, params.dryRun = message.id, "restore", true
  daemon:request("conversation/rollback", params, function(preview)
    local keep, restore = "Go back, keep the files", "Go back, files too"
    require("oh.prompt").select(#preview.restored > 0 and { keep, restore } or { "Go back" }, {
      prompt = ("Before %q: %s"):format(written:match("^[^\n]*"), told(preview)),
      kind = "oh_rollback",
    }, function(chosen)
      if not chosen then
        return
      end
      params.files = chosen == restore and "restore" or "keep"
      go_back(daemon, "conversation/rollback", params, function()
        require("oh.input").append(daemon.root, written)
      end)
    end)
  end)
end

--- Choose a moment before the agent changed files, newest first, and see what going back there
--- would do. The conversation goes on, and the agent is told.
---@param conversation oh.Conversation
function M.restore(conversation)
  local of_it = { conversationId = conversation.id }
  conversation.daemon:request("checkpoint/list", of_it, function(result)
    if result.problem then
      tell.warning(result.problem)
    end
    local newest_first = vim.iter(result.checkpoints):rev():totable()
    require("oh.prompt").choose(newest_first, "the agent has changed no file", {
      prompt = "Take back what the agent did to files from",
      kind = "oh_checkpoint",
      format_item = function(checkpoint)
        local files = checkpoint.nFiles == 1 and "1 file" or checkpoint.nFiles .. " files"
        return ("%s  %s"):format(blocks.escaped(checkpoint.title), files)
      end,
    }, function(checkpoint)
      M.restore_to(conversation, checkpoint)
    end)
  end)
end

--- Say what would happen to the files, and go back if the user agrees.
---@param conversation oh.Conversation
---@param checkpoint { id: string, title: string }
function M.restore_to(conversation, checkpoint)
  local daemon = conversation.daemon
  local params = { conversationId = conversation.id, checkpointId = checkpoint.id, dryRun = true }
  daemon:request("checkpoint/restore", params, function(preview)
    if #preview.restored == 0 then
      tell.message(told(preview))
      return
    end
    local restore = "Take it back"
    require("oh.prompt").select({ restore, "Leave the files as they are" }, {
      prompt = ("Before %q: %s"):format(blocks.escaped(checkpoint.title), told(preview)),
      kind = "oh_restore",
    }, function(chosen)
      if chosen == restore then
        go_back(daemon, "checkpoint/restore", params)
      end
    end)
  end)
end

local FILETYPES = { markdown = "markdown", jsonl = "json" }

--- Open the whole conversation as Markdown or as its log in a new tab, or as a page in the browser.
---@param conversation oh.Conversation
---@param format "markdown"|"jsonl"|"html"
function M.export(conversation, format)
  local params = { conversationId = conversation.id, format = format }
  conversation.daemon:request("conversation/export", params, function(result)
    if FILETYPES[format] then
      vim.cmd.tabnew()
      vim.bo.filetype, vim.bo.bufhidden, vim.bo.buftype = FILETYPES[format], "wipe", "nofile"
      vim.api.nvim_buf_set_lines(0, 0, -1, false, vim.split(result.text, "\n", { plain = true }))
      return
    end
    local path = vim.fn.tempname() .. ".html"
    vim.fn.writefile(vim.split(result.text, "\n", { plain = true }), path)
    local _, problem = vim.ui.open(path)
    tell.message(problem and ("the page is %s"):format(path) or "the page opens in the browser")
  end)
end

--- Ask about the conversation without adding to it; the answer is shown in a floating window.
---@param conversation oh.Conversation
---@param question string
function M.ask(conversation, question)
  if question == "" then
    tell.message("the question is empty")
    return
  end
  local params = { conversationId = conversation.id, question = question }
  conversation.daemon:request("conversation/ask", params, function(result)
    local lines = vim.split(vim.trim(result.text), "\n", { plain = true })
    tell.float(lines, question:gsub("\n", " "):sub(1, 60), "markdown")
  end)
end

--- Show the conversation of the sub-agent under the cursor, or of the newest one. In a sub-agent's
--- conversation, show the one that it works for.
---@param conversation oh.Conversation
function M.visit_agent(conversation)
  if conversation.parent_id then
    outgoing.go_to(conversation.daemon, conversation.parent_id)
    return
  end
  local index = place(conversation)
  local meant = index and conversation.entries[index]
  if not (meant and meant.item.kind == "subagent") then
    meant = vim.iter(conversation.entries):rfind(function(entry)
      return entry.item.kind == "subagent"
    end)
  end
  if meant then
    outgoing.go_to(conversation.daemon, meant.item.conversationId)
  else
    tell.message("no sub-agent works for this conversation")
  end
end

return M
