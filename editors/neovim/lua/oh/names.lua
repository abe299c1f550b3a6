--- Names of our buffers: short, since status lines and tab lines show them.
local M = {}

--- A name that no other buffer has.
---@param name string
---@return string
function M.free(name)
  local found, n = name, 1
  while vim.fn.bufexists(found) == 1 do
    n = n + 1
    found = ("%s-%d"):format(name, n)
  end
  return found
end

--- Delete a buffer that was unloaded: it would keep its name, which the next buffer needs.
---@param buf integer
function M.give_back(buf)
  vim.schedule(function()
    if vim.api.nvim_buf_is_valid(buf) then
      vim.api.nvim_buf_delete(buf, { force = true })
    end
  end)
end

return M
