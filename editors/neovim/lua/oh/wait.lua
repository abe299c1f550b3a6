--- Waits in a coroutine, while Neovim and the user go on.
local M = {}

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
      vim.api.nvim_del_autocmd(autocmd)
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

return M
