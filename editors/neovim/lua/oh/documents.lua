--- Documents that the daemon keeps, read by their URI: logs, outputs, sides of a diff.
local M = {}

---@param daemon oh.Daemon
function M.follow(daemon)
  vim.api.nvim_create_autocmd("BufReadCmd", {
    group = vim.api.nvim_create_augroup("oh.documents" .. daemon.root, { clear = true }),
    pattern = { "*oh-log:/*", "*oh-diff:/*", "*oh-output:/*" },
    desc = "oh: a document of the daemon's",
    callback = function(args)
      M.read(daemon, args.buf)
    end,
  })
end

--- Fill a buffer with the document whose URI is its name.
---@param daemon oh.Daemon
---@param buf integer
function M.read(daemon, buf)
  -- Neovim takes the URI for a path and puts the working folder in front.
  local uri = vim.api.nvim_buf_get_name(buf):match("oh%-%a+:/.*$")
  local conversation_id = uri:match("^oh%-output:/([^/]+)/")
  if conversation_id and not daemon.conversations[conversation_id] then
    -- Another project's daemon has it.
    return
  end
  vim.bo[buf].buftype = "nofile"
  vim.bo[buf].swapfile = false
  daemon:request("workspace/textDocumentContent", { uri = uri }, function(result)
    if vim.api.nvim_buf_is_valid(buf) then
      local lines = vim.split((result.text:gsub("\n$", "")), "\n", { plain = true })
      vim.bo[buf].modifiable = true
      vim.api.nvim_buf_set_lines(buf, 0, -1, false, lines)
      vim.bo[buf].modifiable = false
    end
  end)
end

--- `editor/openDiff`: show both sides in a new tab.
---@param _ oh.Daemon
---@param params { oldUri: string, newUri: string, title: string }
---@return table
function M.open_diff(_, params)
  vim.cmd.tabnew()
  for index, uri in ipairs({ params.oldUri, params.newUri }) do
    if index == 2 then
      vim.cmd("rightbelow vsplit")
    end
    vim.api.nvim_win_set_buf(0, vim.uri_to_bufnr(uri))
    vim.cmd.diffthis()
    vim.wo.winbar = (index == 1 and " before" or " " .. params.title:gsub("%%", "%%%%"))
  end
  return vim.empty_dict()
end

return M
