--- The public API. Requiring it loads nothing else; each function loads what it needs.
local M = {}

--- The same as setting `vim.g.oh`; there is no need to call it.
---@param options? table|fun(): table
function M.setup(options)
  vim.g.oh = options or {}
end

--- The agent's status for a status line, or "" if no daemon was started here.
---@return string
function M.status()
  local status = M.status_table()
  return status and require("oh.status").text(status) or ""
end

--- The same status as a table.
---@return oh.Status?
function M.status_table()
  local daemons = package.loaded["oh.daemon"]
  local daemon = daemons and daemons.known()
  return daemon and require("oh.status").of(daemon)
end

--- The conversation that commands apply to here.
---@return oh.Conversation?
function M.conversation()
  local daemon = require("oh.daemon").known()
  return daemon and daemon.target.conversation
end

--- Show chat and input, or hide them.
function M.toggle()
  local windows = require("oh.windows")
  if windows.hide() then
    return
  end
  local daemon = require("oh.daemon").start()
  if daemon then
    windows.open(daemon)
  end
end

---@class oh.SendOptions
---@field root? string
---@field content? table[] The message as parts as the protocol defines them, instead of the text.
---@field range? integer[] First and last line of the buffer's lines that go before the text.
---@field delivery? "auto"|"queue"|"interrupt"

--- Send a message: to the current conversation, or as the first one of a new conversation.
---@param text string
---@param options? oh.SendOptions
---@return boolean sent False when the daemon cannot be started.
function M.send(text, options)
  options = options or {}
  local daemon = require("oh.daemon").start(options.root)
  if not daemon then
    return false
  end
  local mention = require("oh.mention")
  local chosen, name
  if options.range then
    chosen, name = mention.of_lines(0, daemon.root, unpack(options.range))
  end
  require("oh.windows").show(daemon)
  require("oh.outgoing").write(daemon, name and name .. "\n" .. text or text, function(commands)
    local content = options.content or mention.parts(text, daemon.root, commands)
    if chosen then
      table.insert(content, 1, chosen)
    end
    return content, options.delivery or "auto"
  end)
  return true
end

--- Leave the current conversation; the next message starts a new one.
---@param isolated? boolean Whether it changes nothing in the folder until that is applied.
function M.new(isolated)
  local daemon = require("oh.daemon").start()
  if daemon then
    daemon.target, daemon.chosen = { daemon = daemon }, nil
    daemon.next_isolated = isolated or nil
    require("oh.windows").open(daemon)
  end
end

return M
