--- Continues conversations: a picker of stored ones, and the current one after a restart.
local conversation = require("oh.conversation")
local daemons = require("oh.daemon")
local tell = require("oh.tell")

local M = {}

--- Choose a conversation and show it with its whole history. An archived one is restored.
---@param daemon oh.Daemon
---@param query string Words in its title or in what was said and done.
---@param is_archived boolean Choose among the archived ones.
function M.pick(daemon, query, is_archived)
  local params = { limit = 100, archived = is_archived }
  local none = is_archived and "no conversation was put away" or "no conversation here yet"
  local is_searching = query ~= ""
  if is_searching then
    params.query, params.texts = query, true
    none = ("no conversation has %q in it"):format(query)
    vim.defer_fn(function()
      if is_searching then
        tell.message("searching all conversations; the first time, every log is read once")
      end
    end, 1000)
  end
  daemon:request("conversation/list", params, function(result)
    is_searching = false
    local matches = result.matches or {}
    require("oh.prompt").choose(result.conversations, none, {
      prompt = "Conversation",
      kind = "oh_conversation",
      format_item = function(info)
        return M.format(info, matches[info.id])
      end,
    }, function(chosen)
      if is_archived then
        M.update(daemon, chosen.id, { archived = false })
      end
      require("oh.outgoing").go_to(daemon, chosen.id)
    end)
  end, function(err)
    is_searching = false
    daemons.show_error(err)
  end)
end

---@param daemon oh.Daemon
---@param id string
---@param change { title?: string, archived?: boolean }
---@param on_done? fun()
function M.update(daemon, id, change, on_done)
  local params = vim.tbl_extend("error", { conversationId = id }, change)
  daemon:request("conversation/update", params, on_done)
end

---@param current oh.Conversation
function M.rename(current)
  vim.ui.input({ prompt = "Title: ", default = current.title }, function(given)
    if given and given ~= "" then
      M.update(current.daemon, current.id, { title = given })
    end
  end)
end

--- Archive it: it is no longer listed, and the next message starts another one.
---@param current oh.Conversation
function M.archive(current)
  M.update(current.daemon, current.id, { archived = true }, function()
    tell.message(("%q was put away; `:Oh archived` brings it back"):format(current.title))
    M.leave(current)
  end)
end

--- Move its log to the trash, if the user confirms.
---@param current oh.Conversation
function M.delete(current)
  require("oh.prompt").select({ "Keep it", "Delete it" }, {
    prompt = ("Delete %q?"):format(current.title),
    kind = "oh_delete",
  }, function(chosen)
    if chosen ~= "Delete it" then
      return
    end
    local params = { conversationId = current.id }
    current.daemon:request("conversation/delete", params, function()
      tell.message(("%q was moved to the trash"):format(current.title))
      M.leave(current)
    end)
  end)
end

---@param current oh.Conversation
function M.leave(current)
  local daemon = current.daemon
  if daemon.target ~= current.target then
    return
  end
  daemon.target = { daemon = daemon }
  if require("oh.windows").window_of("oh-chat") then
    require("oh.windows").show(daemon)
  end
end

--- Convert the daemon's UTC time to local time.
---@param utc string
---@return string
local function local_time(utc)
  local year, month, day, hour, min = utc:match("(%d+)-(%d+)-(%d+)T(%d+):(%d+)")
  local fields = { year = year, month = month, day = day, hour = hour, min = min, isdst = false }
  local read_as_local = os.time(fields)
  local offset = read_as_local - os.time(os.date("!*t", read_as_local) --[[@as osdateparam]])
  return os.date("%Y-%m-%d %H:%M", read_as_local + offset) --[[@as string]]
end

---@param n integer
---@param noun string
---@return string
local function count(n, noun)
  return ("%d %s%s"):format(n, noun, n == 1 and "" or "s")
end

---@param info table
---@param match? string The line in which it was found.
---@return string
function M.format(info, match)
  local parts = { info.title .. " ", info.status, count(info.messageCount, "message") }
  if (info.fileCount or 0) > 0 then
    table.insert(parts, count(info.fileCount, "file"))
  end
  table.insert(parts, local_time(info.updatedAt))
  local waits = info.pendingCount > 0 and ("  · %d to allow"):format(info.pendingCount) or ""
  return table.concat(parts, " · ") .. waits .. (match and ("  │ " .. match) or "")
end

--- Restart the daemon of this root and continue its conversation.
function M.restart()
  local daemon = daemons.known()
  if not daemon then
    daemons.start()
    return
  end
  daemon:restart(function()
    tell.message("the daemon was started anew")
    local current = daemon.target.conversation
    if current then
      conversation.open(daemon, current.id, function()
        require("oh.windows").show(daemon)
      end)
    end
  end)
end

--- Let the agent of this root work on another machine from now on, or here again.
---@param target string Such as `ssh://HOST`, or "here".
function M.move(target)
  local remote = target ~= "here" and target or nil
  local daemon = daemons.known()
  local function show()
    local place = remote or "this machine"
    tell.message(("the agent works on %s; `:Oh conversations` shows those there"):format(place))
    require("oh.windows").show(daemon)
  end
  if daemon then
    daemon.remote, daemon.target, daemon.chosen = remote, { daemon = daemon }, nil
    daemon:restart(show)
    return
  end
  daemon = daemons.start(nil, remote)
  if daemon then
    show()
  end
end

return M
