if vim.b.did_ftplugin then
  return
end
vim.b.did_ftplugin = true
require("oh.keys").map(0, "review")
