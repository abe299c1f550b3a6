if vim.b.did_ftplugin then
  return
end
vim.b.did_ftplugin = true
vim.bo.commentstring = ""
require("oh.prose").start(vim.api.nvim_get_current_buf())
require("oh.keys").map(0, "chat")
