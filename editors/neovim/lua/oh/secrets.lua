--- Secrets for the agent's commands: typed into a hidden prompt, held by the daemon until it ends.
local tell = require("oh.tell")

local M = {}

---@param daemon oh.Daemon
---@param name string A variable; "" shows which are exposed.
function M.expose(daemon, name)
  local function show_exposed(result)
    local names = table.concat(result.forCommands, ", ")
    tell.message(
      names == "" and "no secret is exposed" or "exposed to commands that name it: " .. names
    )
  end
  if name == "" then
    daemon:request("secret/list", vim.empty_dict(), show_exposed)
    return
  elseif not name:find("^[%a_][%w_]*$") then
    tell.warning(("%q is no name of a variable, such as GITHUB_TOKEN"):format(name))
    return
  end
  local prompt = ("$%s (empty takes it back): "):format(name)
  -- <C-c> raises an error.
  local is_answered, value = pcall(vim.fn.inputsecret, { prompt = prompt, cancelreturn = vim.NIL })
  if not is_answered or value == vim.NIL then
    return
  elseif value == "" then
    daemon:request("secret/remove", { name = name }, show_exposed)
  else
    local secret = { name = name, value = value, forCommands = true }
    daemon:request("secret/set", secret, show_exposed)
  end
end

return M
