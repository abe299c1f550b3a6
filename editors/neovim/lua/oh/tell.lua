--- Tells the user and other plugins: messages, `User Oh*` events, redrawn status lines.
local M = {}

local GROUPS = { [vim.log.levels.WARN] = "WarningMsg", [vim.log.levels.ERROR] = "ErrorMsg" }

---@param text string
---@param level? integer One of `vim.log.levels`.
function M.message(text, level)
  text = "oh: " .. text
  if vim.o.cmdheight == 0 and M.is_plain() then
    -- The command that leads to it may still be in the line where it is shown.
    vim.schedule(function()
      M.fit(text, level)
    end)
  else
    M.fit(text, level)
  end
end

---@param text string
---@param level? integer
function M.fit(text, level)
  local room = math.max(vim.o.cmdheight - 1, 0) * vim.o.columns + vim.v.echospace
  local is_long = text:find("\n") or vim.api.nvim_strwidth(text) > room
  if not (is_long and M.is_plain()) then
    vim.notify(text, level or vim.log.levels.INFO)
    return
  end
  -- Neovim would wait for a key, and take the one that the user types just then. So only the
  -- beginning stays on the screen; `:messages` has the whole text.
  local usual, more = vim.o.messagesopt, vim.o.more
  vim.o.messagesopt, vim.o.more = usual:gsub("hit%-enter", "wait:0"), false
  vim.notify(text, level or vim.log.levels.INFO)
  vim.o.messagesopt, vim.o.more = usual, more
  vim.cmd.redraw()
  local short = require("oh.block").cut(text:match("^[^\n]*"), room)
  vim.api.nvim_echo({ { short, GROUPS[level] } }, false, {})
end

--- Whether `vim.notify` is Neovim's own, whose source is a module of the runtime, or unknown.
---@return boolean
function M.is_plain()
  local source = debug.getinfo(vim.notify, "S").source
  return source == "?" or vim.startswith(source, "@vim/")
end

--- Take the command or the prompt that the user has just left off the screen.
function M.clear()
  if vim.o.cmdheight > 0 then
    vim.api.nvim_echo({ { "" } }, false, {})
  end
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

--- Show lines in a floating window, which takes the focus unless the user types just then, so that
--- the keys mean what is seen; `q` and `<Esc>` close it. On a tiny screen as a message.
---@param lines string[]
---@param title string
---@param filetype string
function M.float(lines, title, filetype)
  local has_room, buf, win = pcall(vim.lsp.util.open_floating_preview, lines, filetype, {
    border = "rounded",
    title = (" %s "):format(title),
    focus_id = "oh_float",
    close_events = { "CursorMoved", "InsertEnter", "BufHidden" },
    max_width = 80,
  })
  if not has_room then
    M.message(table.concat(lines, "\n"))
    return
  end
  vim.keymap.set("n", "<Esc>", "q", { buffer = buf, remap = true, nowait = true })
  if vim.fn.mode() == "n" then
    vim.api.nvim_set_current_win(win)
  end
end

return M
