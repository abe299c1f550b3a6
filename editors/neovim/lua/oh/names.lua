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

return M
