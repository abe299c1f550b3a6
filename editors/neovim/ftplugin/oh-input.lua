if vim.b.did_ftplugin then
  return
end
vim.b.did_ftplugin = true
vim.bo.textwidth = 0
pcall(vim.treesitter.start, 0, "markdown")
require("oh.keys").map(0, "input")
require("oh.completion").follow(vim.api.nvim_get_current_buf())
