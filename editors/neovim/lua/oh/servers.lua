--- MCP servers: the state of each, and the possible actions.
local tell = require("oh.tell")

local M = {}

---@param server oh.protocol.McpServerInfo
---@return string
local function told(server)
  local n_tools, n_omitted = #(server.tools or {}), #(server.omitted or {})
  local left = n_omitted > 0 and (", %d left out"):format(n_omitted) or ""
  local what = server.status == "running" and ("%d tools%s"):format(n_tools, left) or server.error
  return ("%s  · %s%s"):format(server.name, server.status, what and " · " .. what or "")
end

--- The state of a server, its tools, and what is left out, each with the reason.
---@param server oh.protocol.McpServerInfo
---@return string
local function detail(server)
  local lines = { told(server) }
  for _, tool in ipairs(server.tools or {}) do
    lines[#lines + 1] = "  " .. tool
  end
  for _, omission in ipairs(server.omitted or {}) do
    lines[#lines + 1] = "  left out: " .. omission
  end
  return table.concat(lines, "\n")
end

---@param server oh.protocol.McpServerInfo
---@return table[] choices
local function choices(server)
  local name = server.name
  if server.status == "disabled" then
    return { { "Turn it on", "mcp/setEnabled", { server = name, enabled = true } } }
  end
  local found = {
    { "Show its tools" },
    { "Start it anew", "mcp/restart", { server = name } },
    { "Turn it off", "mcp/setEnabled", { server = name, enabled = false } },
  }
  if server.status == "authRequired" then
    table.insert(found, 1, { "Sign in with the browser", "mcp/authenticate", { server = name } })
  end
  return found
end

---@param daemon oh.Daemon
function M.pick(daemon)
  daemon:request("mcp/list", {}, function(result)
    local none = "no MCP server is set; the setting `mcpServers` names them"
    require("oh.prompt").choose(result.servers, none, {
      prompt = "MCP server",
      kind = "oh_mcp_server",
      format_item = told,
    }, function(server)
      M.act(daemon, server)
    end)
  end)
end

---@param daemon oh.Daemon
---@param server oh.protocol.McpServerInfo
function M.act(daemon, server)
  require("oh.prompt").select(choices(server), {
    prompt = told(server),
    kind = "oh_mcp_action",
    format_item = function(choice)
      return choice[1]
    end,
  }, function(choice)
    if choice and not choice[2] then
      tell.message(detail(server))
    elseif choice then
      local _, method, params = unpack(choice)
      daemon:request(method, params, function(result)
        if result.url and not result.opened then
          vim.ui.open(result.url)
        end
        local now = vim.iter(result.servers):find(function(each)
          return each.name == server.name
        end)
        tell.message(now and told(now) or server.name)
      end)
    end
  end)
end

return M
