--- `:Oh`: its sub-commands and their completion. Anything else is a message.
--- Words after a sub-command are its own only if they fit, so that plain sentences stay messages.
local tell = require("oh.tell")

local M = {}

---@class oh.Call
---@field args string The text after the name, or the whole message.
---@field first? integer Lines of the range, when one was given.
---@field last? integer

---@class oh.Command
---@field takes? string What may follow the name.
---@field fits? fun(words: string, has_range: boolean): boolean They need no `!` after the name.
---@field choices? fun(): string[]
---@field is_closed? boolean What follows must be one of the choices.
---@field run fun(call: oh.Call)

---@param act fun(conversation: oh.Conversation, call: oh.Call)
---@return fun(call: oh.Call)
local function with_conversation(act)
  return function(call)
    local conversation = require("oh").conversation()
    if conversation then
      act(conversation, call)
    else
      tell.message("there is no conversation here yet; `:Oh {message}` starts one")
    end
  end
end

---@param act fun(daemon: oh.Daemon, call: oh.Call)
---@return fun(call: oh.Call)
local function with_daemon(act)
  return function(call)
    local daemon = require("oh.daemon").start()
    if daemon then
      act(daemon, call)
    end
  end
end

---@param words string
---@return boolean
local function is_one_word(words)
  return not words:find("%s")
end

--- The text after the name, or nil if there is none.
---@param call oh.Call
---@return string?
local function given(call)
  return call.args ~= "" and call.args or nil
end

--- Whether the agent waits for an answer of this kind.
---@param kind "approvals"|"questions"
---@return boolean
local function is_asked(kind)
  local conversation = require("oh").conversation()
  return conversation ~= nil and #conversation[kind] > 0
end

---@param delivery "auto"|"queue"|"interrupt"
---@return fun(call: oh.Call)
local function sends(delivery)
  return function(call)
    M.send(call, delivery)
  end
end

--- Apply or discard the changes of an isolated conversation: all, the file here, or a named one.
---@param verdict "apply"|"discard"
---@return oh.Command
local function settles(verdict)
  return {
    takes = "file",
    fits = is_one_word,
    choices = function()
      return { "all", "file" }
    end,
    run = with_conversation(function(conversation, call)
      require("oh.changes").settle_isolated(conversation, verdict, call.args)
    end),
  }
end

---@param id string
---@return oh.Command
local function option(id)
  return {
    takes = "value",
    fits = is_one_word,
    is_closed = id == "mode" or id == "approval",
    choices = function()
      return require("oh.options").values(id)
    end,
    run = with_daemon(function(daemon, call)
      if call.args == "" then
        require("oh.options").choose(daemon, id)
      else
        require("oh.options").set(daemon, id, call.args)
      end
    end),
  }
end

---@type table<string, oh.Command>
local commands = {
  toggle = {
    run = function()
      require("oh").toggle()
    end,
  },
  new = {
    takes = "isolated",
    fits = function(words)
      return words == "isolated"
    end,
    is_closed = true,
    choices = function()
      return { "isolated" }
    end,
    run = function(call)
      require("oh").new(call.args == "isolated")
    end,
  },
  apply = settles("apply"),
  discard = settles("discard"),
  send = { takes = "message", run = sends("auto") },
  queue = {
    takes = "message",
    run = function(call)
      local conversation = call.args == "" and require("oh").conversation()
      if conversation then
        require("oh.queue").choose(conversation)
      else
        M.send(call, "queue")
      end
    end,
  },
  instead = { takes = "message", run = sends("interrupt") },
  add = {
    run = function(call)
      local daemon = require("oh.daemon").start()
      local buf = vim.api.nvim_get_current_buf()
      if daemon and require("oh.input").mention(buf, daemon.root, call.first, call.last) then
        require("oh.windows").open(daemon)
      end
    end,
  },
  unqueue = {
    run = with_conversation(function(conversation)
      require("oh.queue").take_back(conversation)
    end),
  },
  approve = {
    takes = "scope",
    fits = is_one_word,
    is_closed = true,
    choices = function()
      return { "once", "conversation", "edits", "folder", "server", "all", "?" }
    end,
    run = with_conversation(function(conversation, call)
      if require("oh.questions").meant(conversation) then
        require("oh.questions").answer(conversation, "")
      else
        require("oh.approval").approve(conversation, given(call))
      end
    end),
  },
  reject = {
    takes = "note",
    fits = function()
      return is_asked("approvals") or is_asked("questions")
    end,
    run = with_conversation(function(conversation, call)
      local question = require("oh.questions").meant(conversation)
      if question then
        conversation:answer(question, "decline")
      else
        require("oh.approval").reject(conversation, given(call))
      end
    end),
  },
  answer = {
    takes = "text",
    fits = function()
      return is_asked("questions")
    end,
    run = with_conversation(function(conversation, call)
      require("oh.questions").answer(conversation, call.args)
    end),
  },
  edit = {
    takes = "instruction",
    fits = function(_, has_range)
      return has_range
    end,
    run = function(call)
      if call.first or call.args ~= "" then
        require("oh.edit").begin(call)
      else
        with_conversation(require("oh.approval").edit)(call)
      end
    end,
  },
  visit = {
    run = function()
      require("oh.edit").visit()
    end,
  },
  diff = {
    run = with_conversation(function(conversation)
      require("oh.review").open(conversation)
    end),
  },
  changes = {
    run = with_conversation(function(conversation)
      require("oh.changes").to_quickfix(conversation)
    end),
  },
  stop = {
    run = function(call)
      if not require("oh.edit").stop() then
        with_conversation(function(conversation)
          conversation:interrupt()
        end)(call)
      end
    end,
  },
  pause = {
    run = with_conversation(function(conversation)
      conversation:pause("step")
    end),
  },
  resume = {
    takes = "message",
    run = with_conversation(function(conversation, call)
      if call.args == "" then
        conversation:resume()
        return
      end
      local daemon = conversation.daemon
      daemon:with_commands(function(commands)
        local message = require("oh.mention").parts(call.args, daemon.root, commands)
        local give_back = require("oh.outgoing").give_back
        conversation:resume(message, give_back(conversation.target, { call.args }))
      end)
    end),
  },
  conversations = {
    takes = "query",
    fits = is_one_word,
    run = with_daemon(function(daemon, call)
      require("oh.conversations").pick(daemon, call.args, false)
    end),
  },
  archived = {
    takes = "query",
    fits = is_one_word,
    run = with_daemon(function(daemon, call)
      require("oh.conversations").pick(daemon, call.args, true)
    end),
  },
  rename = {
    run = with_conversation(function(conversation)
      require("oh.conversations").rename(conversation)
    end),
  },
  archive = {
    run = with_conversation(function(conversation)
      require("oh.conversations").archive(conversation)
    end),
  },
  delete = {
    run = with_conversation(function(conversation)
      require("oh.conversations").delete(conversation)
    end),
  },
  condense = {
    takes = "instructions",
    run = with_conversation(function(conversation, call)
      conversation:condense(given(call))
    end),
  },
  fork = {
    takes = "title",
    run = with_conversation(function(conversation, call)
      require("oh.branches").fork(conversation, given(call))
    end),
  },
  rollback = {
    run = with_conversation(function(conversation)
      require("oh.branches").rollback(conversation)
    end),
  },
  checkpoints = {
    run = with_conversation(function(conversation)
      require("oh.branches").restore(conversation)
    end),
  },
  export = {
    takes = "format",
    fits = is_one_word,
    is_closed = true,
    choices = function()
      return { "markdown", "html", "jsonl" }
    end,
    run = with_conversation(function(conversation, call)
      require("oh.branches").export(conversation, call.args ~= "" and call.args or "markdown")
    end),
  },
  usage = {
    run = with_conversation(function(conversation)
      require("oh.usage").show(conversation)
    end),
  },
  ask = {
    takes = "question",
    run = with_conversation(function(conversation, call)
      require("oh.branches").ask(conversation, call.args)
    end),
  },
  agent = {
    run = with_conversation(function(conversation)
      require("oh.branches").visit_agent(conversation)
    end),
  },
  ports = {
    run = with_conversation(function(conversation)
      require("oh.ports").pick(conversation)
    end),
  },
  servers = {
    run = with_daemon(function(daemon)
      require("oh.servers").pick(daemon)
    end),
  },
  secret = {
    takes = "variable",
    -- What follows may be the secret itself, which is never sent to the model.
    fits = function()
      return true
    end,
    run = with_daemon(function(daemon, call)
      require("oh.secrets").expose(daemon, call.args)
    end),
  },
  mode = option("mode"),
  approval = option("approval"),
  model = option("model"),
  effort = option("effort"),
  output = {
    run = with_conversation(function(conversation)
      require("oh.output").show(conversation)
    end),
  },
  trust = {
    takes = "level",
    fits = is_one_word,
    is_closed = true,
    choices = function()
      return { "full", "readOnly", "none" }
    end,
    run = with_daemon(function(daemon, call)
      if call.args == "" then
        tell.message("`:Oh trust full`, `readOnly` or `none`: what may the agent do here?")
        return
      end
      local params = { folder = daemon.root, trusted = call.args }
      daemon:request("workspace/setTrust", params, function()
        tell.message(("%s: %s"):format(daemon.root, call.args))
      end)
    end),
  },
  remote = {
    takes = "target",
    fits = function(words)
      return words == "here" or words:match("^%l+:") ~= nil
    end,
    choices = function()
      return { "ssh://", "docker://", "podman://", "kubectl://", "cmd:", "here" }
    end,
    run = function(call)
      if call.args == "" then
        tell.message("`:Oh remote ssh://HOST`, `docker://CONTAINER` or `here`: where does it work?")
      else
        require("oh.conversations").move(call.args)
      end
    end,
  },
  restart = {
    run = function()
      require("oh.conversations").restart()
    end,
  },
  log = {
    run = function()
      require("oh.files").without_dialog("o", function()
        vim.cmd.tabedit(vim.fn.fnameescape(vim.lsp.log.get_filename()))
      end)
    end,
  },
}

---@param call vim.api.keyset.create_user_command.command_args
function M.run(call)
  if vim.fn.getcmdwintype() ~= "" then
    tell.warning("the command-line window allows no other windows; leave it first, with `:q`")
  else
    require("oh.wait").until_unlocked(function()
      M.run_now(call)
    end)
  end
end

---@param call vim.api.keyset.create_user_command.command_args
function M.run_now(call)
  tell.clear()
  require("oh.highlights").setup()
  M.report_problems()
  local text = vim.trim(call.args)
  local has_range = call.range > 0
  local range = { first = has_range and call.line1 or nil, last = has_range and call.line2 or nil }
  if text == "" then
    commands[has_range and "add" or "toggle"].run(vim.tbl_extend("error", { args = "" }, range))
    return
  end
  local name, rest = text:match("^(%S+)%s*(.*)$")
  local command = commands[name]
  local is_own = rest == ""
    or call.bang
    or (command and command.fits and command.fits(rest, has_range))
  if command and is_own then
    M.run_command(name, vim.tbl_extend("error", { args = rest }, range))
  elseif call.bang then
    tell.warning(("there is no sub-command %q"):format(name))
  else
    M.send(vim.tbl_extend("error", { args = text }, range), "auto")
    if command and command.takes then
      local usage = ("`:Oh! %s {%s}`"):format(name, command.takes)
      tell.message(("that was a message; %s is the sub-command"):format(usage))
    end
  end
end

---@param name string
---@param call oh.Call
function M.run_command(name, call)
  local command = commands[name]
  local choices = command.is_closed and command.choices() or { call.args }
  if call.args ~= "" and not command.takes then
    tell.warning(("`:Oh %s` takes no words"):format(name))
  elseif call.args ~= "" and not vim.list_contains(choices, call.args) then
    tell.warning(("`:Oh %s` takes one of: %s"):format(name, table.concat(choices, ", ")))
  else
    command.run(call)
  end
end

--- Send a message; the lines of a range are included as the editor shows them.
---@param call oh.Call
---@param delivery "auto"|"queue"|"interrupt"
function M.send(call, delivery)
  if call.args == "" then
    tell.message("the message is empty")
    return
  end
  local range = call.first and { call.first, call.last }
  require("oh").send(call.args, { range = range, delivery = delivery })
end

--- Report wrong options once; the defaults are used until they are corrected.
function M.report_problems()
  local config = require("oh.config")
  local problems = table.concat(config.problems(config.given()), "; ")
  if problems ~= "" and problems ~= M.reported then
    tell.error(problems .. "; the defaults are used (`:checkhealth oh`)")
  end
  M.reported = problems
end

--- Complete the names of sub-commands, and the values that one of them takes.
---@param line string Up to the cursor.
---@return string[]
function M.complete(line)
  local words = line:match("Oh!?%s+(.*)$") or ""
  local name, prefix = words:match("^(%S+)%s+(%S*)$")
  local candidates = vim.tbl_keys(commands)
  if name then
    local command = commands[name]
    candidates = command and command.choices and command.choices() or {}
  else
    prefix = words
  end
  local found = vim.tbl_filter(function(candidate)
    return vim.startswith(candidate, prefix or "")
  end, candidates)
  table.sort(found)
  return found
end

return M
