if vim.b.did_ftplugin then
  return
end
vim.b.did_ftplugin = true
vim.bo.commentstring = ""
pcall(vim.treesitter.start, 0, "markdown")
require("oh.keys").map(0, "chat")
