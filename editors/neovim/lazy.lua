-- For lazy.nvim, which reads this file in a plugin that it knows as oh.nvim. Nothing is loaded
-- before the first command or map, so there is nothing to gain by waiting, and the <Plug> maps
-- and `vim.lsp.enable("oh")` are there.
return { "oh.nvim", lazy = false }
