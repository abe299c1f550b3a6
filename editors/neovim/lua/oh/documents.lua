--- Documents that the daemon keeps, read by their URI: logs, outputs, sides of a diff.
local daemons = require("oh.daemon")

local M = {}

--- May be called again.
function M.follow()
  vim.api.nvim_create_autocmd("BufReadCmd", {
    group = vim.api.nvim_create_augroup("oh.documents", { clear = true }),
    pattern = { "*oh-log:/*", "*oh-diff:/*", "*oh-output:/*" },
    desc = "oh: a document of the daemon's",
    callback = function(args)
      M.read(args.buf)
    end,
  })
end

--- The daemon that has this conversation open, else that of the current project.
---@param conversation_id string
---@return oh.Daemon
local function daemon_of(conversation_id)
  local all = daemons.all()
  local has_it = vim.iter(all):find(function(daemon)
    return daemon.conversations[conversation_id] ~= nil
  end)
  return has_it or daemons.known() or all[1]
end

--- Fill a buffer with the document whose URI is its name.
---@param buf integer
function M.read(buf)
  -- Neovim takes the URI for a path and puts the working folder in front.
  local uri = vim.api.nvim_buf_get_name(buf):match("oh%-%a+:/.*$")
  local daemon = daemon_of(uri:match("^[^/]+/([^/?]*)"))
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
  -- Nobody needs the empty buffer that comes with the tab.
  vim.bo.bufhidden = "wipe"
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
