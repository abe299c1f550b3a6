--- Ports on which the agent's commands listen in their sandbox: listed, and opened in the browser.
local tell = require("oh.tell")

local M = {}

---@param port oh.protocol.OpenPort
---@return string
local function told(port)
  return port.address and ("%d  · open at %s"):format(port.port, port.address)
    or tostring(port.port)
end

---@param conversation oh.Conversation
function M.pick(conversation)
  local of_it = { conversationId = conversation.id }
  conversation.daemon:request("port/list", of_it, function(result)
    local none = "no command listens on a port in the sandbox"
    require("oh.prompt").choose(result.ports, none, {
      prompt = "Open port",
      kind = "oh_port",
      format_item = told,
    }, function(port)
      local params = { conversationId = conversation.id, port = port.port }
      conversation.daemon:request("port/open", params, function(opened)
        vim.ui.open("http://" .. opened.address)
        tell.message(("port %d of the sandbox is open at %s"):format(port.port, opened.address))
      end)
    end)
  end)
end

--- A command began to listen, or does no more.
---@param params oh.protocol.PortChangedParams
function M.on_changed(_, params)
  local ports = vim.iter(params.ports):map(told):totable()
  if #ports > 0 then
    tell.message(
      ("the agent listens on %s; `:Oh ports` opens it"):format(table.concat(ports, ", "))
    )
  end
end

return M
