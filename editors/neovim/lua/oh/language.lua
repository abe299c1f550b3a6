--- Queries the user's language servers for the agent: `editor/diagnostics` and
--- `editor/languageRequest`. Our own client is never asked, and nothing is opened or changed.
local M = {}

local FAILED = vim.lsp.protocol.ErrorCodes.RequestFailed
--- How long to wait for the diagnostics of a text that has just changed.
local SETTLE_MS = 1000

local RANGES = {
  range = true,
  selectionRange = true,
  targetRange = true,
  targetSelectionRange = true,
  originSelectionRange = true,
}

---@param uri string
---@return integer?
local function loaded_buffer(uri)
  return vim.iter(vim.api.nvim_list_bufs()):find(function(buf)
    return vim.api.nvim_buf_is_loaded(buf) and vim.uri_from_bufnr(buf) == uri
  end)
end

--- The lines of a file from its buffer, else from disk; none if there is no file.
---@param uri string
---@return string[]
function M.lines_of(uri)
  local buf = loaded_buffer(uri)
  if buf then
    return vim.api.nvim_buf_get_lines(buf, 0, -1, false)
  end
  local is_file, path = pcall(vim.uri_to_fname, uri)
  return is_file and vim.fn.filereadable(path) == 1 and vim.fn.readfile(path) or {}
end

-- Positions: each server counts columns in its own encoding.

---@class oh.Recoding
---@field from string
---@field to string
---@field lines table<string, string[]> The lines of each file seen so far, by URI.

---@param from string
---@param to string
---@return oh.Recoding
local function recoding(from, to)
  return { from = from, to = to, lines = {} }
end

---@param position lsp.Position
---@param uri string
---@param how oh.Recoding
---@return lsp.Position
local function recoded_position(position, uri, how)
  how.lines[uri] = how.lines[uri] or M.lines_of(uri)
  local line = how.lines[uri][position.line + 1] or ""
  local byte = vim.str_byteindex(line, how.from, position.character, false)
  local column = vim.str_utfindex(line, how.to, byte, false)
  return { line = position.line, character = column }
end

---@param range lsp.Range
---@param uri string
---@param how oh.Recoding
---@return lsp.Range
local function recoded_range(range, uri, how)
  return {
    start = recoded_position(range.start, uri, how),
    ["end"] = recoded_position(range["end"], uri, how),
  }
end

--- Convert a range whose columns are bytes to the encoding of the daemon.
---@param daemon oh.Daemon
---@param range lsp.Range
---@param uri string
---@return lsp.Range
function M.in_encoding_of(daemon, range, uri)
  return recoded_range(range, uri, recoding("utf-8", daemon:client().offset_encoding))
end

--- Copy any LSP value, with all its positions in the other encoding.
---@param value any
---@param uri string The document of positions that do not name one.
---@param how oh.Recoding
---@return any
local function recoded(value, uri, how)
  if type(value) ~= "table" or how.from == how.to then
    return value
  end
  local own = value.uri or value.targetUri or vim.tbl_get(value, "textDocument", "uri") or uri
  local copy = vim.islist(value) and {} or vim.empty_dict()
  for key, part in pairs(value) do
    if RANGES[key] then
      copy[key] = recoded_range(part, key == "originSelectionRange" and uri or own, how)
    elseif key == "position" then
      copy[key] = recoded_position(part, own, how)
    else
      -- In the `changes` of an edit the key is the document's URI.
      local names_one = type(key) == "string" and key:find("^%a[%w+.-]*:") ~= nil
      copy[key] = recoded(part, names_one and key or own, how)
    end
  end
  return copy
end

-- Diagnostics.

--- The `changedtick` of each buffer when diagnostics came last.
---@type table<integer, integer>
local reported = {}

--- Keep track of whether diagnostics belong to the current text.
function M.follow_diagnostics()
  vim.api.nvim_create_autocmd("DiagnosticChanged", {
    group = vim.api.nvim_create_augroup("oh.language", { clear = true }),
    desc = "oh: which text the diagnostics are about",
    callback = function(args)
      reported[args.buf] = vim.api.nvim_buf_get_changedtick(args.buf)
    end,
  })
end

---@param client vim.lsp.Client
---@return boolean
local function is_users(client)
  return client.name ~= "oh"
end

--- Wait in a coroutine until the servers have looked at the text, or have had time to.
---@param buf integer
local function wait_for_report(buf)
  local servers = vim.tbl_filter(is_users, vim.lsp.get_clients({ bufnr = buf }))
  if #servers == 0 or reported[buf] == vim.api.nvim_buf_get_changedtick(buf) then
    return
  end
  local options = { buffer = buf, desc = "oh: the agent asked for diagnostics" }
  require("oh.wait").for_event("DiagnosticChanged", options, SETTLE_MS)
end

--- `editor/diagnostics`
---@param daemon oh.Daemon
---@param params oh.protocol.DiagnosticsParams
---@return oh.protocol.DiagnosticsResult
function M.diagnostics(daemon, params)
  local encoding = daemon:client().offset_encoding
  local wanted = { severity = { min = params.minSeverity or 4 } }
  local items = {}
  for _, uri in ipairs(params.uris or M.known_uris()) do
    local buf = loaded_buffer(uri) or params.uris == nil and vim.uri_to_bufnr(uri)
    if buf and params.uris then
      wait_for_report(buf)
    end
    local how = recoding("utf-8", encoding)
    -- The user may have wiped the buffer meanwhile.
    local is_there = buf and vim.api.nvim_buf_is_valid(buf)
    local found = vim.tbl_map(function(diagnostic)
      return M.in_lsp_form(diagnostic, uri, how)
    end, is_there and vim.diagnostic.get(buf, wanted) or {})
    table.insert(items, { uri = uri, diagnostics = found })
  end
  return { items = items, loading = M.loading_servers() }
end

--- The user's servers that report work in progress, such as indexing; nil if there are none.
---@return string[]?
function M.loading_servers()
  local names = {}
  for _, client in ipairs(vim.tbl_filter(is_users, vim.lsp.get_clients())) do
    if next(client.progress.pending) ~= nil then
      table.insert(names, client.name)
    end
  end
  return names[1] and names or nil
end

--- The files that have diagnostics.
---@return string[]
function M.known_uris()
  local uris, seen = {}, {}
  for _, diagnostic in ipairs(vim.diagnostic.get()) do
    local buf = diagnostic.bufnr
    if not seen[buf] and vim.api.nvim_buf_get_name(buf) ~= "" and vim.bo[buf].buftype == "" then
      table.insert(uris, vim.uri_from_bufnr(buf))
    end
    seen[buf] = true
  end
  return uris
end

---@param diagnostic vim.Diagnostic
---@param uri string
---@param how oh.Recoding
---@return lsp.Diagnostic
function M.in_lsp_form(diagnostic, uri, how)
  local range = {
    start = { line = diagnostic.lnum, character = diagnostic.col },
    ["end"] = {
      line = diagnostic.end_lnum or diagnostic.lnum,
      character = diagnostic.end_col or diagnostic.col,
    },
  }
  return {
    range = recoded_range(range, uri, how),
    severity = diagnostic.severity,
    message = diagnostic.message,
    source = diagnostic.source,
    code = diagnostic.code,
  }
end

--- When Neovim requests code actions, it passes a server only that server's own diagnostics; the
--- agent fixes those of all servers. Remove this when `vim.lsp.buf.code_action` passes all of them.
---@param daemon oh.Daemon
function M.pass_on_diagnostics(daemon)
  local client = assert(daemon:client())
  local request = client.request
  client.request = function(self, method, params, ...)
    if method == "textDocument/codeAction" and type(params) == "table" then
      params = M.with_diagnostics(daemon, params)
    end
    return request(self, method, params, ...)
  end
end

---@param daemon oh.Daemon
---@param params lsp.CodeActionParams
---@return lsp.CodeActionParams
function M.with_diagnostics(daemon, params)
  local uri, range = params.textDocument.uri, params.range
  local how = recoding("utf-8", daemon:client().offset_encoding)
  local found = {}
  for _, diagnostic in ipairs(vim.diagnostic.get(loaded_buffer(uri))) do
    if diagnostic.lnum >= range.start.line and diagnostic.lnum <= range["end"].line then
      table.insert(found, M.in_lsp_form(diagnostic, uri, how))
    end
  end
  local context = vim.tbl_extend("force", params.context, { diagnostics = found })
  return vim.tbl_extend("force", params, { context = context })
end

-- Questions about the code.

--- `editor/languageRequest`: return the result of the first server that has one.
---@param daemon oh.Daemon
---@param params oh.protocol.LanguageRequestParams
---@return oh.protocol.LanguageRequestResult? answer
---@return lsp.ResponseError? err
function M.request(daemon, params)
  local uri = vim.tbl_get(params.params, "textDocument", "uri") or ""
  local buf = loaded_buffer(uri)
  local servers = M.servers(params.method, uri, buf)
  local failure = #servers == 0 and ("no language server answers %s here"):format(params.method)
  local ours = daemon:client().offset_encoding
  for _, client in ipairs(servers) do
    local theirs = client.offset_encoding
    local question = recoded(params.params, uri, recoding(ours, theirs))
    local err, result = M.ask(client, params.method, question, buf)
    if err then
      failure = ("%s: %s"):format(client.name, err.message)
    elseif result ~= nil and result ~= vim.NIL and next(result) ~= nil then
      return { result = recoded(result, uri, recoding(theirs, ours)) }
    end
  end
  if failure then
    return nil, vim.lsp.rpc_response_error(FAILED, failure)
  end
  return { result = vim.NIL }
end

--- The servers for a file; if it is not open, those that have another file of its type open.
---@param method string
---@param uri string
---@param buf? integer
---@return vim.lsp.Client[]
function M.servers(method, uri, buf)
  local able = vim.tbl_filter(is_users, vim.lsp.get_clients({ method = method, bufnr = buf }))
  if buf or uri == "" then
    return able
  end
  local filetype = vim.filetype.match({ filename = vim.uri_to_fname(uri) })
  return vim.tbl_filter(function(client)
    return vim.iter(pairs(client.attached_buffers)):any(function(open)
      return vim.bo[open].filetype == filetype
    end)
  end, able)
end

--- Ask one server and wait for it in this coroutine. A file that is not open is opened meanwhile.
---@param client vim.lsp.Client
---@param method string
---@param question table
---@param buf? integer
---@return lsp.ResponseError? err
---@return any result
function M.ask(client, method, question, buf)
  local document = not buf and question.textDocument
  if document then
    local filetype = vim.filetype.match({ filename = vim.uri_to_fname(document.uri) })
    client:notify("textDocument/didOpen", {
      textDocument = {
        uri = document.uri,
        languageId = client.get_language_id(0, filetype or ""),
        version = 0,
        text = table.concat(M.lines_of(document.uri), "\n") .. "\n",
      },
    })
  end
  local waiting = coroutine.running()
  local answer ---@type table?
  local is_waiting = false
  local is_sent = client:request(method, question, function(err, result)
    answer = { err, result }
    if is_waiting then
      coroutine.resume(waiting)
    end
  end, buf)
  if not is_sent then
    return { code = FAILED, message = "it does not run any more" }
  end
  if not answer then
    is_waiting = true
    coroutine.yield()
  end
  if document then
    client:notify("textDocument/didClose", { textDocument = { uri = document.uri } })
  end
  return answer[1], answer[2]
end

return M
