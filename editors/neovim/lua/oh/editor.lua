--- The daemon's access to the editor: buffers that it follows, edits and saves that it requests.
--- Invariant: the user's text is never lost; an edit made for another version is refused.
local tell = require("oh.tell")

local M = {}

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
end

---@param daemon oh.Daemon
---@param buf integer
function M.follow(daemon, buf)
  local name = vim.api.nvim_buf_get_name(buf)
  local is_file = vim.api.nvim_buf_is_loaded(buf) and vim.bo[buf].buftype == "" and name ~= ""
  local is_wanted = not (vim.g.oh_disable or vim.b[buf].oh_disable)
  if is_file and is_wanted and vim.fs.relpath(daemon.root, name) then
    vim.lsp.buf_attach_client(buf, daemon.client_id)
  end
end

--- `editor/applyEdit`: apply the whole edit as one undo step, or nothing.
---@param daemon oh.Daemon
---@param params { label: string, edit: table, save: "ifWasClean"|"never" }
---@return { applied: boolean, saved?: boolean, failureReason?: string }
function M.apply_edit(daemon, params)
  local changes = params.edit.documentChanges or {}
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

---@param buf integer
---@param edits lsp.TextEdit[]
---@param encoding string
function M.change(buf, edits, encoding)
  local function end_undo_step()
    vim.api.nvim_buf_call(buf, function()
      vim.cmd("let &undolevels = &undolevels")
    end)
  end
  end_undo_step()
  vim.lsp.util.apply_text_edits(edits, buf, encoding)
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
  if is_wanted and not vim.bo[buf].modified then
    vim.cmd(("silent checktime %d"):format(buf))
  end
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
