--- One daemon per root: its start and end, and requests to it. Callers know what these mean.
--- Invariant: every request ends once, with a result or an error, even when the daemon dies.
local config = require("oh.config")
local tell = require("oh.tell")

local M = {}

---@class oh.Error
---@field message string
---@field data? { kind?: string, hint?: string }

---@class oh.Request
---@field method string
---@field params table
---@field on_result? fun(result: table)
---@field on_error fun(err: oh.Error)

---@class oh.Daemon
---@field root string
---@field client_id? integer The LSP client, while the daemon runs.
---@field group integer Autocommands that end with it.
---@field is_ready boolean It has answered `initialize`, and is not to end.
---@field conversations table<string, oh.Conversation>
---@field target oh.Target Its conversation is the one that commands mean.
---@field chosen? oh.Target The next one, which is being opened; messages are for it already.
---@field next_options table<string, string> The user's choices for the next conversation.
---@field remote? string Where it runs, if not on this machine.
---@field next_isolated? boolean Whether the next conversation is isolated.
---@field context? oh.protocol.ContextChangedParams The last context that it was told.
---@field private commands? table[] The commands that a message can name with `/`, once known.
---@field private awaiting_commands? (fun(commands: table[]))[]
---@field private waiting oh.Request[] Requests made before it was ready, or while it was ending.
---@field private open table<integer, fun(err: oh.Error)> Requests without an answer so far.
---@field private n_sent integer Requests so far, which numbers them.
---@field private pid? integer The process that was started, which may be a wrapper.
---@field private on_end? fun() Called instead of a report when it has ended.
local Daemon = {}
Daemon.__index = Daemon

---@type table<string, oh.Daemon>
local daemons = {}

--- The folder that the agent would work in for this buffer.
---@param buf? integer
---@return string
function M.root(buf)
  buf = buf or vim.api.nvim_get_current_buf()
  local own = vim.b[buf].oh_root
  if own then
    return own
  end
  local chosen = config.current().root
  local found = chosen and chosen(buf)
  local is_file = vim.bo[buf].buftype == "" and vim.api.nvim_buf_get_name(buf) ~= ""
  local marked = vim.fs.root(is_file and buf or vim.fn.getcwd(), { ".git", ".openhands" })
  return vim.fs.normalize(found or marked or vim.fn.getcwd())
end

--- Roots by file and working folder, cached because status lines ask all the time.
---@type table<string, string>
local seen_roots = {}

--- The daemon of a root, by default the current buffer's, if it was ever started.
---@param root? string
---@return oh.Daemon?
function M.known(root)
  if not root and next(daemons) then
    local place = vim.b.oh_root or vim.api.nvim_buf_get_name(0) .. "\n" .. vim.fn.getcwd()
    seen_roots[place] = seen_roots[place] or M.root()
    root = seen_roots[place]
  end
  return daemons[root]
end

---@return oh.Daemon[]
function M.all()
  return vim.tbl_values(daemons)
end

--- The daemon of a root, started if it does not run. Nil when it cannot be started.
---@param root? string
---@param remote? string Where it is to run, if it does not run yet.
---@return oh.Daemon?
function M.start(root, remote)
  root = root or M.root()
  local daemon = daemons[root]
  if not daemon then
    daemon = setmetatable({ root = root, remote = remote }, Daemon)
    daemon.target, daemon.n_sent = { daemon = daemon }, 0
    daemon.conversations, daemon.next_options, daemon.waiting, daemon.open = {}, {}, {}, {}
  end
  if daemon.client_id or daemon:launch() then
    daemons[root] = daemon
    seen_roots = {}
    return daemon
  end
end

--- Send a request, also while the daemon is starting or restarting. An error is shown unless
--- `on_error` takes it.
---@param method string
---@param params table
---@param on_result? fun(result: table)
---@param on_error? fun(err: oh.Error)
function Daemon:request(method, params, on_result, on_error)
  on_error = on_error or M.show_error
  if not self.client_id then
    on_error({ message = "the daemon does not run; `:Oh restart` starts it" })
    return
  end
  if not self.is_ready then
    table.insert(self.waiting, {
      method = method,
      params = params,
      on_result = on_result,
      on_error = on_error,
    })
    return
  end
  self.n_sent = self.n_sent + 1
  local number = self.n_sent
  self.open[number] = on_error
  if next(params) == nil then
    params = vim.empty_dict()
  end
  self:client():request(method, params, function(err, result)
    self.open[number] = nil
    require("oh.wait").until_unlocked(function()
      if err then
        on_error(err)
      elseif on_result then
        on_result(result)
      end
    end)
  end)
end

--- Call `act` once the slash commands are known, in the order in which this was called.
---@param act fun(commands: table[])
function Daemon:with_commands(act)
  if self.commands then
    act(self.commands)
    return
  elseif self.awaiting_commands then
    table.insert(self.awaiting_commands, act)
    return
  end
  self.awaiting_commands = { act }
  local function go_on(commands)
    local acts = self.awaiting_commands or {}
    self.commands, self.awaiting_commands = commands, nil
    for _, each in ipairs(acts) do
      each(commands or {})
    end
  end
  self:request("command/list", {}, function(result)
    go_on(result.commands)
  end, function()
    -- Without the list the message is sent as it was written; the next message asks again.
    go_on(nil)
  end)
end

---@param err oh.Error
---@param more? string What was done about it.
function M.show_error(err, more)
  local hint = err.data and err.data.hint
  tell.error(err.message .. (hint and (" (%s)"):format(hint) or "") .. (more or ""))
end

--- A healthy daemon needs at most two seconds to end.
local END_MS = 5000

--- Stop the daemon if it runs, and start it again.
---@param on_started fun()
function Daemon:restart(on_started)
  local function start()
    if self:launch() then
      on_started()
    end
  end
  local client = self:client()
  if not client then
    start()
    return
  end
  local is_ending = self.on_end ~= nil
  self.on_end = start
  if not is_ending then
    self.is_ready = false
    client:stop()
    vim.defer_fn(function()
      self:kill(client.id)
    end, END_MS)
  end
end

--- End a daemon that hangs.
---@private
---@param client_id integer
function Daemon:kill(client_id)
  if self.client_id == client_id and self.pid then
    tell.warning("the daemon does not end, so it is killed")
    vim.uv.kill(self.pid, "sigkill")
  end
end

---@return vim.lsp.Client?
function Daemon:client()
  return self.client_id and vim.lsp.get_client_by_id(self.client_id)
end

--- Child processes of Neovim, since it does not tell which of them belongs to a client.
---@return integer[]
local function children()
  return vim.api.nvim_get_proc_children(vim.uv.os_getpid())
end

---@private
---@return boolean
function Daemon:launch()
  local options = config.current()
  if vim.fn.executable(options.cmd[1]) == 0 then
    local way_out = "install oh-daemon, or set `cmd` in vim.g.oh (`:checkhealth oh`)"
    tell.error(("%q is not there; %s"):format(options.cmd[1], way_out))
    return false
  end
  self.is_ready, self.context, self.commands = false, nil, nil
  local others = children()
  self.client_id = vim.lsp.start(self:client_config(options), { attach = false, silent = true })
  self.pid = vim.iter(children()):find(function(pid)
    return not vim.list_contains(others, pid)
  end)
  if not self.client_id then
    tell.error("the daemon did not start; `:Oh log` may say why")
    return false
  end
  self.group = vim.api.nvim_create_augroup("oh" .. self.root, { clear = true })
  require("oh.editor").follow_buffers(self)
  require("oh.language").follow_diagnostics()
  require("oh.context").follow(self)
  require("oh.documents").follow()
  require("oh.inline").follow(self)
  return true
end

---@private
---@param options oh.Config
---@return string[]
function Daemon:argv(options)
  if not self.remote and options.attach == "never" then
    return options.cmd
  end
  local words = vim.list_slice(options.cmd)
  if words[#words] == "--stdio" then
    table.remove(words)
  end
  local how = self.remote and { "remote", self.remote } or { "attach", "--or-alone" }
  return vim.list_extend(words, how)
end

---@private
---@param options oh.Config
---@return vim.lsp.ClientConfig
function Daemon:client_config(options)
  local block = {
    protocolVersion = { major = 1, minor = 0 },
    client = { name = "Neovim", version = tostring(vim.version()), kind = "panel" },
    features = {
      applyEdit2 = true,
      readDocument = true,
      saveDocument = true,
      approvalRequests = true,
      inputRequests = true,
      diagnostics = true,
      languageRequests = true,
      openDiff = true,
    },
    settings = next(options.settings) and options.settings or vim.empty_dict(),
  }
  local trust = options.trust
  if type(trust) == "function" then
    trust = trust(self.root)
  end
  if trust ~= nil then
    block.trust = { { folder = vim.uri_from_fname(self.root), trusted = trust } }
  end
  return {
    name = "oh",
    cmd = function(dispatchers)
      return self:connect(options, dispatchers)
    end,
    root_dir = self.root,
    workspace_folders = {
      { uri = vim.uri_from_fname(self.root), name = vim.fs.basename(self.root) },
    },
    init_options = { ohDaemon = block },
    -- The daemon compares texts and versions right after an edit, so it must hear of it at once.
    flags = { debounce_text_changes = 0 },
    handlers = self:handlers(),
    commands = {
      ["ohDaemon.codeAction"] = function(command)
        require("oh.outgoing").act(self, command)
      end,
    },
    reuse_client = function()
      return false
    end,
    on_init = function()
      self:on_ready()
    end,
  }
end

--- Start the process. Its end is told in one line by `on_exit`: to Neovim it looks like an end on
--- request, as it would add a line of its own, and ask for a key press because of the two.
---@private
---@param options oh.Config
---@param dispatchers vim.lsp.rpc.Dispatchers
---@return vim.lsp.rpc.PublicClient
function Daemon:connect(options, dispatchers)
  local end_client = dispatchers.on_exit
  dispatchers.on_exit = function(code, signal)
    end_client(0, 0)
    vim.schedule(function()
      self:on_exit(code, signal)
    end)
  end
  return vim.lsp.rpc.start(self:argv(options), dispatchers, { cwd = self.root, env = options.env })
end

--- Approvals and questions also come as events, and are answered with `approval/respond` and
--- `input/respond`. A client that does not handle these requests is asked in a dialog, which blocks
--- all typing.
local function decide_nothing()
  return vim.empty_dict()
end

---@private
---@return table<string, lsp.Handler>
function Daemon:handlers()
  local conversation, documents = require("oh.conversation"), require("oh.documents")
  local editor, language = require("oh.editor"), require("oh.language")
  local function on(listen)
    return function(_, params)
      listen(self, params)
      return vim.NIL
    end
  end
  -- Requests are answered in a coroutine, so these may wait.
  local function by(answer)
    return function(_, params)
      return answer(self, params)
    end
  end
  return {
    ["conversation/event"] = on(conversation.on_event),
    ["conversation/delta"] = on(conversation.on_delta),
    ["conversation/gap"] = on(conversation.on_gap),
    ["port/changed"] = on(function(...)
      require("oh.ports").on_changed(...)
    end),
    ["daemon/statusChanged"] = on(function(_, params)
      local level = params.kind == "error" and vim.log.levels.ERROR or vim.log.levels.WARN
      tell.message(params.message, level)
    end),
    ["approval/request"] = decide_nothing,
    ["input/request"] = decide_nothing,
    ["editor/applyEdit"] = by(editor.apply_edit),
    ["editor/readDocument"] = by(editor.read_document),
    ["editor/saveDocument"] = by(editor.save_documents),
    ["editor/diagnostics"] = by(language.diagnostics),
    ["editor/languageRequest"] = by(language.request),
    ["editor/openDiff"] = by(documents.open_diff),
  }
end

---@private
function Daemon:on_ready()
  self.is_ready = true
  require("oh.language").pass_on_diagnostics(self)
  tell.event("Started", { root = self.root, client_id = self.client_id })
  tell.state_changed({ root = self.root })
  local waiting = self.waiting
  self.waiting = {}
  for _, request in ipairs(waiting) do
    self:request(request.method, request.params, request.on_result, request.on_error)
  end
end

---@private
---@param code integer
---@param signal integer
function Daemon:on_exit(code, signal)
  vim.api.nvim_del_augroup_by_id(self.group)
  self.client_id = nil
  self.is_ready = false
  local unanswered, on_end = {}, self.on_end
  for _, on_error in vim.spairs(self.open) do
    table.insert(unanswered, on_error)
  end
  self.open, self.on_end = {}, nil
  for _, conversation in pairs(self.conversations) do
    conversation:on_daemon_gone()
  end
  tell.event("Exit", { root = self.root, code = code, signal = signal })
  tell.state_changed({ root = self.root })
  if on_end then
    -- First, so that callers that go on without an answer, below, ask the next daemon.
    on_end()
  else
    local how = signal ~= 0 and ("signal %d"):format(signal) or ("exit code %d"):format(code)
    tell.error(("the daemon ended (%s); `:Oh restart` goes on where it was"):format(how))
  end
  if not self.client_id then
    for _, request in ipairs(self.waiting) do
      table.insert(unanswered, request.on_error)
    end
    self.waiting = {}
  end
  for _, on_error in ipairs(unanswered) do
    -- Errors that are only shown are skipped: they say no more than the line above.
    if on_error ~= M.show_error then
      require("oh.wait").until_unlocked(function()
        on_error({ message = "the daemon ended before it answered" })
      end)
    end
  end
end

return M
