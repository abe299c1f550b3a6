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

--- The buffer with exactly this name, or -1.
---@param name string
---@return integer
local function holder(name)
  return vim.fn.bufnr(("^%s$"):format(name))
end

---@param buf integer
---@param name string
local function rename(buf, name)
  local former = vim.api.nvim_buf_get_name(buf)
  vim.api.nvim_buf_set_name(buf, name)
  -- Neovim keeps the former name for the alternate file, in an empty buffer.
  local empty = holder(former)
  if empty > 0 then
    vim.api.nvim_buf_delete(empty, { force = true })
  end
end

--- Give a buffer this name; the one that had it gets a number instead.
---@param buf integer
---@param name string
function M.take(buf, name)
  local other = holder(name)
  if other ~= buf then
    if other > 0 then
      rename(other, M.free(name))
    end
    rename(buf, name)
  end
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
