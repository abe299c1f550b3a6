--- Tells the user and other plugins: messages, `User Oh*` events, redrawn status lines.
local M = {}

---@param text string
---@param level? integer One of `vim.log.levels`.
function M.message(text, level)
  vim.notify("oh: " .. text, level or vim.log.levels.INFO)
end

---@param text string
function M.warning(text)
  M.message(text, vim.log.levels.WARN)
end

---@param text string
function M.error(text)
  M.message(text, vim.log.levels.ERROR)
end

--- Fire `User Oh{name}` with this data.
---@param name string
---@param data table
function M.event(name, data)
  vim.api.nvim_exec_autocmds("User", { pattern = "Oh" .. name, data = data, modeline = false })
end

--- Announce a change that a status line or a window bar may show.
---@param data table
function M.state_changed(data)
  M.event("StateChanged", data)
  vim.cmd("redrawstatus!")
end

--- Show lines in a floating window, until the cursor moves.
---@param lines string[]
---@param title string
---@param filetype string
function M.float(lines, title, filetype)
  vim.lsp.util.open_floating_preview(lines, filetype, {
    border = "rounded",
    title = (" %s "):format(title),
    focus_id = "oh_float",
    close_events = { "CursorMoved", "InsertEnter", "BufHidden" },
    max_width = 80,
  })
end

return M
