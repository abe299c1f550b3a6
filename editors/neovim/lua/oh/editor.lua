--- The daemon's access to the editor: buffers that it follows, edits and saves that it requests.
--- Invariant: the user's text is never lost; an edit made for another version is refused.
local tell = require("oh.tell")

local M = {}

--- How long an edit waits for the user's command; the daemon waits for the edit a little longer.
M.patience_ms = 8000

--- Commands whose effect 'inccommand' shows while they are typed.
local PREVIEWED = { "substitute", "smagic", "snomagic" }

--- Show the daemon every file under its root that is open now or will be.
---@param daemon oh.Daemon
function M.follow_buffers(daemon)
  for _, buf in ipairs(vim.api.nvim_list_bufs()) do
    M.follow(daemon, buf)
  end
  vim.api.nvim_create_autocmd({ "BufReadPost", "BufNewFile", "BufFilePost" }, {
    group = daemon.group,
    desc = "oh: show the daemon the files that are open",
    callback = function(args)
      M.follow(daemon, args.buf)
    end,
  })
  vim.api.nvim_create_autocmd("BufFilePre", {
    group = daemon.group,
    desc = "oh: for the daemon, a file with another name is another document",
    callback = function(args)
      if vim.lsp.buf_is_attached(args.buf, daemon.client_id) then
        vim.lsp.buf_detach_client(args.buf, daemon.client_id)
      end
    end,
  })
end

---@param daemon oh.Daemon
---@param buf integer
function M.follow(daemon, buf)
  local name = vim.api.nvim_buf_get_name(buf)
  local is_file = vim.api.nvim_buf_is_loaded(buf) and vim.bo[buf].buftype == "" and name ~= ""
  local is_wanted = not (vim.g.oh_disable or vim.b[buf].oh_disable)
  if is_file and is_wanted and vim.fs.relpath(daemon.root, name) and M.is_text(buf) then
    vim.lsp.buf_attach_client(buf, daemon.client_id)
  end
end

--- With 'binary', a buffer may hold bytes that are not UTF-8, which no message can carry.
---@param buf integer
---@return boolean
function M.is_text(buf)
  if not vim.bo[buf].binary then
    return true
  end
  local lines = vim.api.nvim_buf_get_lines(buf, 0, -1, false)
  return vim.iconv(table.concat(lines, "\n"), "utf-8", "utf-8") ~= nil
end

--- `editor/applyEdit`: apply the whole edit as one undo step, or nothing.
---@param daemon oh.Daemon
---@param params { label: string, edit: table, save: "ifWasClean"|"never" }
---@return { applied: boolean, saved?: boolean, failureReason?: string }
function M.apply_edit(daemon, params)
  local changes = params.edit.documentChanges or {}
  local is_here = vim.iter(changes):any(function(change)
    return change.textDocument.uri == vim.uri_from_bufnr(0)
  end)
  if is_here and not M.wait_for_command() then
    return { applied = false, failureReason = "rejected" }
  end
  local buffers = {} ---@type integer[]
  for index, change in ipairs(changes) do
    local buf, refusal = M.editable(daemon, change.textDocument)
    if not buf then
      return { applied = false, failureReason = refusal }
    end
    buffers[index] = buf
  end
  local saved = #changes > 0
  for index, change in ipairs(changes) do
    local buf = buffers[index]
    local was_clean = not vim.bo[buf].modified
    -- Neovim raises while text is locked, for instance while an expression map runs.
    if not pcall(M.change, buf, change.edits, daemon:client().offset_encoding) then
      return { applied = false, failureReason = "rejected" }
    end
    saved = params.save == "ifWasClean" and was_clean and M.save(buf) and saved
    tell.event("EditApplied", {
      root = daemon.root,
      buf = buf,
      uri = change.textDocument.uri,
      label = params.label,
      saved = saved,
    })
  end
  return { applied = true, saved = saved }
end

--- Whether the user is in the middle of a command that an edit would spoil: an operator knows its
--- line by number only, and what 'inccommand' previews is in the buffer meanwhile.
---@return boolean
local function is_in_command()
  if vim.fn.state("o") ~= "" then
    return true
  elseif vim.fn.getcmdtype() ~= ":" or vim.o.inccommand == "" then
    return false
  end
  local is_command, parsed = pcall(vim.api.nvim_parse_cmd, vim.fn.getcmdline(), {})
  -- Commands of the user's plugins may have a preview too.
  return is_command and (vim.list_contains(PREVIEWED, parsed.cmd) or parsed.cmd:find("^%u") ~= nil)
end

--- Wait in a coroutine until the user's command is complete.
---@return boolean is_free False if that took too long.
function M.wait_for_command()
  if not (coroutine.running() and is_in_command()) then
    return true
  end
  local options = { desc = "oh: an edit waits for the user's command" }
  return require("oh.wait").for_event("ModeChanged", options, M.patience_ms, function()
    return not is_in_command()
  end)
end

--- The buffer of a document if it may be changed now, else nil and the protocol's failure reason.
---@param daemon oh.Daemon
---@param document { uri: string, version?: integer }
---@return integer? buf
---@return string? refusal
function M.editable(daemon, document)
  local buf = M.buffer_of(daemon, document.uri)
  if not buf then
    return nil, "missing"
  end
  if vim.bo[buf].readonly or not vim.bo[buf].modifiable then
    return nil, "readonly"
  end
  -- A clean buffer whose file has changed is reloaded first, which gives it another version.
  M.reload(buf)
  if document.version and vim.lsp.util.buf_versions[buf] ~= document.version then
    return nil, "stale"
  end
  return buf
end

--- The followed buffer with this URI.
---@param daemon oh.Daemon
---@param uri string
---@return integer?
function M.buffer_of(daemon, uri)
  local client = daemon:client()
  for buf in pairs(client and client.attached_buffers or {}) do
    if vim.api.nvim_buf_is_loaded(buf) and vim.uri_from_bufnr(buf) == uri then
      return buf
    end
  end
end

local LINE_ENDS = { unix = "\n", dos = "\r\n", mac = "\r" }

--- `editor/readDocument`: what a buffer contains now.
---@param daemon oh.Daemon
---@param params oh.protocol.ReadDocumentParams
---@return oh.protocol.ReadDocumentResult? answer
---@return lsp.ResponseError? err
function M.read_document(daemon, params)
  local buf = M.buffer_of(daemon, params.uri)
  if not buf then
    local code = vim.lsp.protocol.ErrorCodes.RequestFailed
    return nil, vim.lsp.rpc_response_error(code, params.uri .. " is not open")
  end
  local line_end = LINE_ENDS[vim.bo[buf].fileformat]
  local text = table.concat(vim.api.nvim_buf_get_lines(buf, 0, -1, false), line_end)
  return {
    text = vim.bo[buf].endofline and text .. line_end or text,
    version = vim.lsp.util.buf_versions[buf],
  }
end

---@param buf integer
---@param edits lsp.TextEdit[]
---@param encoding string
function M.change(buf, edits, encoding)
  local function end_undo_step()
    vim.api.nvim_buf_call(buf, function()
      -- Without `g:` the local value would become the global one too, and be lost.
      vim.cmd("let &g:undolevels = &g:undolevels")
    end)
  end
  end_undo_step()
  local is_listed = vim.bo[buf].buflisted
  vim.lsp.util.apply_text_edits(edits, buf, encoding)
  vim.bo[buf].buflisted = is_listed
  end_undo_step()
  if vim.api.nvim_get_current_buf() == buf and vim.fn.mode():find("^[iR]") then
    -- What the user types next is an undo step of its own.
    vim.api.nvim_feedkeys(vim.keycode("<C-g>u"), "ni", false)
  end
end

---@param buf integer
---@return boolean saved
function M.save(buf)
  local is_written = pcall(vim.api.nvim_buf_call, buf, function()
    vim.cmd("silent lockmarks update")
  end)
  return is_written and not vim.bo[buf].modified
end

--- `editor/saveDocument`: save buffers, which the user has allowed.
---@param daemon oh.Daemon
---@param params { uris: string[] }
---@return { saved: string[] }
function M.save_documents(daemon, params)
  local saved = vim.tbl_filter(function(uri)
    local buf = M.buffer_of(daemon, uri)
    return buf ~= nil and M.save(buf)
  end, params.uris)
  return { saved = saved }
end

--- Reload an unmodified buffer whose file has changed on disk.
--- A modified buffer is left alone: Neovim warns when it is written, and a dialog would not help.
---@param buf integer
function M.reload(buf)
  local is_wanted = vim.bo[buf].autoread
  if is_wanted == nil then
    is_wanted = vim.go.autoread
  end
  local file = vim.uv.fs_stat(vim.api.nvim_buf_get_name(buf))
  -- About a file that is gone, Neovim would warn, and halt for a second to show it.
  if not (is_wanted and file) or vim.bo[buf].modified then
    return
  elseif not M.is_empty(buf) then
    vim.cmd(("silent checktime %d"):format(buf))
  elseif file.size > 0 then
    -- The buffer may be older than its file, about which Neovim would open a dialog.
    -- A swap file is no news: the buffer was opened beside it.
    require("oh.files").without_dialog("e", function()
      vim.api.nvim_buf_call(buf, function()
        vim.cmd("silent edit")
      end)
    end)
  end
end

---@param buf integer
---@return boolean
function M.is_empty(buf)
  return vim.api.nvim_buf_line_count(buf) == 1 and vim.fn.getbufoneline(buf, 1) == ""
end

--- Reload buffers after the agent has written to disk, or ran a command that may have.
---@param daemon oh.Daemon
function M.reload_all(daemon)
  local client = daemon:client()
  for buf in pairs(client and client.attached_buffers or {}) do
    if vim.api.nvim_buf_is_loaded(buf) then
      M.reload(buf)
    end
  end
end

return M
