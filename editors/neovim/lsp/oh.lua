-- For `vim.lsp.enable("oh")`: the daemon starts with the first file that is opened, not with `:Oh`.
-- It attaches itself to the files of its root, so there is nothing left to attach here.
return {
  cmd = require("oh.config").current().cmd,
  root_dir = function(buf)
    local is_file = vim.bo[buf].buftype == "" and vim.api.nvim_buf_get_name(buf) ~= ""
    if is_file and not (vim.g.oh_disable or vim.b[buf].oh_disable) then
      local daemons = require("oh.daemon")
      daemons.start(daemons.root(buf))
    end
  end,
}
