--- What stands in the chat window before the first message.
local M = {}

local TEXT = [[
## Oh

Write what you want done below.

`:Oh {message}` from any window
`:'<,'>Oh {message}` with these lines
`:Oh conversations` for earlier ones
`:Oh mode` for when you are asked
`@path` mentions a file

Nothing runs and no file changes without your consent. `:help oh`]]

---@type table<string, integer>
local buffers = {}

---@param root string
---@return integer
function M.buffer(root)
  local buf = buffers[root]
  if not (buf and vim.api.nvim_buf_is_loaded(buf)) then
    buf = vim.api.nvim_create_buf(false, true)
    buffers[root] = buf
    vim.api.nvim_buf_set_name(buf, "oh://chat" .. root)
    vim.b[buf].oh_root = root
    vim.bo[buf].bufhidden = "hide"
    vim.api.nvim_buf_set_lines(buf, 0, -1, false, vim.split(TEXT, "\n"))
    vim.bo[buf].modifiable = false
    vim.bo[buf].filetype = "oh-chat"
  end
  return buf
end

return M
