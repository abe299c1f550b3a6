--- `:checkhealth oh`
local M = {}

local health = vim.health

local MARKS = { ["✓"] = health.ok, ["!"] = health.warn, ["✗"] = health.error }
local DOCTOR_MS = 30000

function M.check()
  health.start("oh: Neovim and options")
  M.check_version()
  M.check_options()
  health.start("oh: keys and colours")
  M.check_use()
  health.start("oh: daemon")
  M.check_daemon()
  health.start("oh: running")
  M.report_running()
end

function M.check_version()
  if vim.fn.has("nvim-0.11") == 1 then
    health.ok("Neovim " .. tostring(vim.version()))
  else
    health.error("Neovim 0.11 or newer is needed, this is " .. tostring(vim.version()))
  end
end

function M.check_options()
  local config = require("oh.config")
  local problems = config.problems(config.given())
  for _, problem in ipairs(problems) do
    health.error(problem, "see `:help oh-options`; until then the defaults are used")
  end
  if #problems == 0 then
    health.ok("vim.g.oh is fine")
  end
end

local PLUGS = { "keep", "next-change", "previous-change", "undo" }

--- Say what is easily missed: which keys send and decide, and what is seen in the files.
function M.check_use()
  local options = require("oh.config").current()
  local keys = options.keys.input
  if keys.send or keys.send_insert then
    local how = "a message is sent by %s in normal mode and by %s in insert mode"
    health.ok(how:format(keys.send or "no key", keys.send_insert or "no key"))
  else
    health.warn("no key sends a message", "set `keys.input.send` in vim.g.oh")
  end
  local unmapped = vim.tbl_filter(
    function(plug)
      return vim.fn.hasmapto(plug, "n") == 0
    end,
    vim.tbl_map(function(name)
      return ("<Plug>(oh-%s)"):format(name)
    end, PLUGS)
  )
  if not options.inline then
    health.info("the agent's changes are shown in `:Oh diff` only, by `inline = false`")
  else
    health.ok("the agent's changes are shown in the files themselves")
    if #unmapped > 0 then
      health.info(("no key for %s; see `:help oh-inline`"):format(table.concat(unmapped, ", ")))
    end
  end
  if vim.treesitter.language.add("markdown") then
    health.ok("the parser for Markdown, which colours the chat")
  else
    health.warn("no parser for Markdown, so the chat has fewer colours", "`:TSInstall markdown`")
  end
end

function M.check_daemon()
  local options = require("oh.config").current()
  local program = options.cmd[1]
  if vim.fn.executable(program) == 0 then
    health.error(("%q is not executable"):format(program), {
      "install oh-daemon; its README says how",
      "or name it in `cmd` of vim.g.oh",
    })
    return
  end
  health.ok(vim.fn.exepath(program))
  M.consult(options)
end

--- Report what `oh-daemon doctor` finds on this machine; it starts no daemon.
---@param options oh.Config
function M.consult(options)
  local argv = {}
  for _, word in ipairs(options.cmd) do
    if word == "--stdio" then
      break
    end
    table.insert(argv, word)
  end
  table.insert(argv, "doctor")
  local env = vim.tbl_extend("keep", options.env, { OH_DAEMON_MODEL = options.settings.model })
  local how = { cwd = require("oh.daemon").root(), env = env, text = true, timeout = DOCTOR_MS }
  local run = vim.system(argv, how):wait()
  local found = false
  for mark, text in (run.stdout or ""):gmatch("([^\n ]+) ([^\n]+)") do
    local report = MARKS[mark]
    if report then
      found = true
      report(text)
    end
  end
  if not found then
    local said = vim.trim(run.stderr or ""):match("[^\n]*$")
    health.warn(("`%s` finds nothing: %s"):format(table.concat(argv, " "), said))
  end
end

--- Report what is running; no daemon is started for the check.
function M.report_running()
  local daemons = package.loaded["oh.daemon"]
  local all = daemons and daemons.all() or {}
  if #all == 0 then
    health.info("no daemon was started; `:Oh` starts one for the folder you are in")
  end
  for _, daemon in ipairs(all) do
    M.report(daemon)
  end
  health.info("messages of the connection: " .. vim.lsp.log.get_filename())
end

---@param daemon oh.Daemon
function M.report(daemon)
  local client = daemon:client()
  if not client then
    health.warn(daemon.root .. ": stopped", "`:Oh restart`")
    return
  end
  local ours = vim.tbl_get(client.server_capabilities or {}, "experimental", "ohDaemon")
  if not ours then
    health.warn(daemon.root .. ": has not answered yet")
    return
  end
  local protocol = ("%d.%d"):format(ours.protocolVersion.major, ours.protocolVersion.minor)
  local about = ("oh-daemon %s, protocol %s"):format(ours.daemon.version, protocol)
  health.ok(("%s: %s, process %d"):format(daemon.root, about, ours.daemon.pid))
  M.report_sandbox(client)
  local answer = client:request_sync("model/list", vim.empty_dict(), 5000)
  local models = answer and answer.result or {}
  if models.default then
    health.ok("model: " .. models.default)
  else
    health.error("no model can be used", "set a provider's key, for instance ANTHROPIC_API_KEY")
  end
end

local HELD = {
  overlay = "commands run in an overlay: they change nothing directly, and reach no network",
  landlock = "commands that run unasked only read, and reach no network",
  off = "nothing holds commands that run unasked",
}

--- Say what holds commands in the folder of this daemon, and what would make it more.
---@param client vim.lsp.Client
function M.report_sandbox(client)
  local answer = client:request_sync("daemon/status", vim.empty_dict(), 5000)
  local sandbox = answer and answer.result and answer.result.sandbox
  if not sandbox then
    return
  end
  local text = ("sandbox %s: %s"):format(sandbox.level, HELD[sandbox.level])
  if sandbox.cause then
    health.warn(("%s, since %s"):format(text, sandbox.cause), sandbox.cure)
  else
    health.ok(text)
  end
end

return M
