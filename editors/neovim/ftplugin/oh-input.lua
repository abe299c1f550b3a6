if vim.b.did_ftplugin then
  return
end
vim.b.did_ftplugin = true
vim.bo.textwidth = 0
vim.bo.omnifunc = "v:lua.require'oh.mention'.complete"
pcall(vim.treesitter.start, 0, "markdown")
require("oh.keys").map_input(0)
