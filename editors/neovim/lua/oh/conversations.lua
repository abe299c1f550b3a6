--- Going on with conversations: a picker of those in the log, and the current one after a restart.
local conversation = require("oh.conversation")
local daemons = require("oh.daemon")
local tell = require("oh.tell")

local M = {}

--- Choose one and show it with all of its history.
---@param daemon oh.Daemon
---@param query string Part of a title.
function M.pick(daemon, query)
  local params = { limit = 100, query = query ~= "" and query or nil }
  daemon:request("conversation/list", params, function(result)
    if #result.conversations == 0 then
      tell.message("no conversation in this folder yet")
      return
    end
    vim.ui.select(result.conversations, {
      prompt = "Conversation",
      kind = "oh_conversation",
      format_item = M.format,
    }, function(chosen)
      if chosen then
        M.show(daemon, chosen.id)
      end
    end)
  end)
end

---@param info table
---@return string
function M.format(info)
  local when = info.updatedAt:gsub("T", " "):sub(1, 16)
  local count = ("%d message%s"):format(info.messageCount, info.messageCount == 1 and "" or "s")
  local waits = info.pendingCount > 0 and ("  · %d to allow"):format(info.pendingCount) or ""
  return ("%s  · %s · %s · %s%s"):format(info.title, info.status, count, when, waits)
end

---@param daemon oh.Daemon
---@param id string
function M.show(daemon, id)
  conversation.open(daemon, id, function()
    require("oh.windows").show(daemon)
  end)
end

--- Start the daemon of this root anew and go on with its conversation.
function M.restart()
  local daemon = daemons.known() or daemons.start()
  if not daemon then
    return
  end
  daemon:restart(function()
    tell.message("the daemon was started anew")
    if daemon.current then
      M.show(daemon, daemon.current.id)
    end
  end)
end

return M
