--- The highlight groups; a color scheme or the user may override any of them.
local M = {}

local LINKS = {
  OhUser = "Title",
  OhAgent = "Special",
  OhDim = "Comment",
  OhNotice = "DiagnosticInfo",
  OhApproval = "DiagnosticWarn",
  OhRunning = "DiagnosticInfo",
  OhDone = "DiagnosticOk",
  OhFailed = "DiagnosticError",
  OhUserText = "CursorLine",
  OhCode = "CursorLine",
  OhDiffAdd = "DiffAdd",
  OhDiffDelete = "DiffDelete",
  OhInlineAdd = "DiffAdd",
  OhInlineChange = "DiffChange",
  OhInlineDelete = "DiffDelete",
}

local function define()
  for name, link in pairs(LINKS) do
    vim.api.nvim_set_hl(0, name, { link = link, default = true })
  end
end

--- Define the groups now, and again after each change of the color scheme.
function M.setup()
  define()
  vim.api.nvim_create_autocmd("ColorScheme", {
    group = vim.api.nvim_create_augroup("oh.highlights", { clear = true }),
    desc = "oh: highlight groups",
    callback = define,
  })
end

return M
