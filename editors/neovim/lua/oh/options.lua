--- The options of the conversation, or of the next one: mode, approval policy, model and effort.
local tell = require("oh.tell")

local M = {}

local NAMES = { mode = "Mode", approval = "Approval" }

--- An option with its choices, if it is known without asking the daemon.
---@param id string
---@return { id: string, name: string, choices: { value: string, label: string }[] }?
function M.known(id)
  local conversation = require("oh").conversation()
  local found = vim.iter(conversation and conversation.pickers or {}):find(function(option)
    return option.id == id
  end)
  local choices = require("oh.protocol").CHOICES[id]
  return found or choices and { id = id, name = NAMES[id], choices = choices }
end

--- The values of an option, for completion.
---@param id string
---@return string[]
function M.values(id)
  local option = M.known(id)
  return vim.tbl_map(function(choice)
    return choice.value
  end, option and option.choices or {})
end

---@param daemon oh.Daemon
---@param id string
---@param value string
function M.set(daemon, id, value)
  local current = daemon.target.conversation
  if current then
    current:set_option(id, value)
    return
  end
  daemon.next_options[id] = value
  -- The problem with the last message, such as a missing model, may be solved.
  local outgoing = require("oh.outgoing")
  outgoing.show(daemon.target, { drafts = outgoing.untaken(daemon.target).drafts })
  tell.message(("the next conversation has %s %s"):format(id, value))
end

--- Let the user choose a value.
---@param daemon oh.Daemon
---@param id string
function M.choose(daemon, id)
  local option = M.known(id)
  if option then
    M.select(daemon, option)
    return
  end
  if id ~= "model" then
    tell.warning("only a conversation whose model has levels of " .. id .. " has this option")
    return
  end
  daemon:request("model/list", {}, function(result)
    local available = vim.tbl_filter(function(model)
      return model.available
    end, result.models)
    local choices = vim.tbl_map(function(model)
      return { value = model.id, label = model.label }
    end, available)
    M.select(daemon, { id = id, name = "Model", choices = choices }, result.default)
  end)
end

---@param daemon oh.Daemon
---@param option { id: string, name: string, choices: { value: string, label: string }[] }
---@param default? string
function M.select(daemon, option, default)
  local current = daemon.target.conversation
  local now = current and current.options[option.id] or daemon.next_options[option.id] or default
  require("oh.prompt").select(option.choices, {
    prompt = now and ("%s (now %s)"):format(option.name, now) or option.name,
    kind = "oh_option",
    format_item = function(choice)
      return choice.label
    end,
  }, function(choice)
    if choice then
      M.set(daemon, option.id, choice.value)
    end
  end)
end

return M
