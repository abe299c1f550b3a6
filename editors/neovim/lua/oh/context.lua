--- Tells the daemon where the user is (`editor/contextChanged`), after a short quiet time.
--- Only files that the agent may see count; in any other window the last such file stays active.
local language = require("oh.language")

local M = {}

local QUIET_MS = 50
local MAX_TEXT_BYTES = 32 * 1024

local EVENTS = {
  "BufEnter",
  "BufDelete",
  "CursorMoved",
  "CursorMovedI",
  "ModeChanged",
  "WinScrolled",
  "DiagnosticChanged",
}

--- Tell this daemon, as long as it runs.
---@param daemon oh.Daemon
function M.follow(daemon)
  vim.api.nvim_create_autocmd("User", {
    group = daemon.group,
    pattern = "OhStarted",
    desc = "oh: the first message has a context too",
    callback = function()
      M.tell(daemon)
    end,
  })
  local newest = 0
  vim.api.nvim_create_autocmd(EVENTS, {
    group = daemon.group,
    desc = "oh: tell the daemon where the user is",
    callback = function()
      newest = newest + 1
      local mine = newest
      vim.defer_fn(function()
        if mine == newest then
          M.tell(daemon)
        end
      end, QUIET_MS)
    end,
  })
end

---@param daemon oh.Daemon
function M.tell(daemon)
  local context = daemon.is_ready and M.context(daemon)
  if context and not vim.deep_equal(context, daemon.context) then
    daemon.context = context
    daemon:client():notify("editor/contextChanged", context)
  end
end

--- The current context, or nil in a window without a file that the agent may see.
---@param daemon oh.Daemon
---@return table?
function M.context(daemon)
  local buffers = daemon:client().attached_buffers
  local buf = vim.api.nvim_get_current_buf()
  if not buffers[buf] then
    return nil
  end
  local uri = vim.uri_from_bufnr(buf)
  local open = {}
  for other in pairs(buffers) do
    if vim.bo[other].buflisted then
      table.insert(open, vim.uri_from_bufnr(other))
    end
  end
  table.sort(open)
  local counts = vim.diagnostic.count()
  return {
    activeUri = uri,
    selection = M.selection(daemon, uri),
    visibleRanges = { M.visible(daemon, uri) },
    openUris = open,
    diagnosticsSummary = { errors = counts[1] or 0, warnings = counts[2] or 0 },
  }
end

--- The range from the first line of the window to the end of its last one.
---@param daemon oh.Daemon
---@param uri string
---@return lsp.Range
function M.visible(daemon, uri)
  local last = vim.fn.line("w$")
  return language.in_encoding_of(daemon, {
    start = { line = vim.fn.line("w0") - 1, character = 0 },
    ["end"] = { line = last - 1, character = #vim.fn.getline(last) },
  }, uri)
end

--- The selection with its text, or else the position of the cursor.
---@param daemon oh.Daemon
---@param uri string
---@return table
function M.selection(daemon, uri)
  local mode = vim.fn.mode()
  local from, to = vim.fn.getpos("v"), vim.fn.getpos(".")
  if from[2] > to[2] or from[2] == to[2] and from[3] > to[3] then
    from, to = to, from
  end
  local is_visual = vim.list_contains({ "v", "V", vim.keycode("<C-v>") }, mode)
  if not is_visual then
    from = to
  end
  local first, last = from[3] - 1, to[3] - 1
  if mode == "V" then
    first, last = 0, #vim.fn.getline(to[2])
  elseif is_visual and vim.o.selection ~= "exclusive" then
    -- A selection ends with the character under the cursor; an LSP range ends behind it.
    last = last + #vim.fn.matchstr(vim.fn.getline(to[2]), ".", last)
  end
  local range = {
    start = { line = from[2] - 1, character = first },
    ["end"] = { line = to[2] - 1, character = last },
  }
  local text = is_visual and table.concat(vim.fn.getregion(from, to, { type = mode }), "\n")
  return {
    uri = uri,
    range = language.in_encoding_of(daemon, range, uri),
    text = text and M.short(text) or nil,
  }
end

---@param text string
---@return string?
function M.short(text)
  return #text <= MAX_TEXT_BYTES and text or nil
end

return M
