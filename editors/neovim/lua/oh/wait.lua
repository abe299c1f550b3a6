--- Waits while Neovim and the user go on: in a coroutine, or until text may change.
local M = {}

--- A lock ends when the user presses a key, of which Neovim does not tell.
local LOCK_MS = 20

--- Wait for an event after which a condition holds.
---@param event string Of an autocommand.
---@param options vim.api.keyset.create_autocmd
---@param timeout_ms integer
---@param holds? fun(): boolean
---@return boolean in_time
function M.for_event(event, options, timeout_ms, holds)
  local waiting = coroutine.running()
  local autocmd ---@type integer?
  local function go_on(in_time)
    if autocmd then
      -- It is gone already if the user has wiped its buffer.
      pcall(vim.api.nvim_del_autocmd, autocmd)
      autocmd = nil
      coroutine.resume(waiting, in_time)
    end
  end
  options.callback = vim.schedule_wrap(function()
    if not holds or holds() then
      go_on(true)
    end
  end)
  autocmd = vim.api.nvim_create_autocmd(event, options)
  vim.defer_fn(function()
    go_on(false)
  end, timeout_ms)
  return coroutine.yield()
end

--- Whether no text and no window may change now, as while an expression mapping runs.
---@return boolean
function M.is_locked()
  local _, problem = pcall(vim.api.nvim_set_current_buf, vim.api.nvim_get_current_buf())
  return problem ~= nil and problem:find("E565", 1, true) ~= nil
end

--- Act as soon as text and windows may change, which is nearly always at once.
---@param act fun()
function M.until_unlocked(act)
  if M.is_locked() then
    vim.defer_fn(function()
      M.until_unlocked(act)
    end, LOCK_MS)
  else
    act()
  end
end

return M
