--- Opens files for the user, without a dialog: the next key would answer it unread.
local tell = require("oh.tell")

local M = {}

--- Run a function that opens files. For a file with a swap file, Neovim would open a dialog (E325),
--- unless it belongs to a running Neovim or an autocommand of the user's has decided.
---@param choice "e"|"o" In the words of |v:swapchoice|, for such a file.
---@param run fun()
---@return boolean is_chosen Whether there was such a file.
---@return string? err
function M.without_dialog(choice, run)
  local is_chosen = false
  local autocmd = vim.api.nvim_create_autocmd("SwapExists", {
    desc = "oh: a file is opened without a dialog about its swap file",
    callback = function()
      if vim.v.swapchoice == "" then
        vim.v.swapchoice, is_chosen = choice, true
      end
    end,
  })
  local is_done, err = pcall(run)
  vim.api.nvim_del_autocmd(autocmd)
  return is_chosen, not is_done and tostring(err) or nil
end

--- A window of this tab page whose buffer may change, the previous one if possible.
---@return integer?
local function free_window()
  local previous = vim.fn.win_getid(vim.fn.winnr("#"))
  local windows = vim.api.nvim_tabpage_list_wins(0)
  return vim.iter({ previous, windows }):flatten():find(function(win)
    return win ~= 0
      and not vim.wo[win].winfixbuf
      and vim.api.nvim_win_get_config(win).relative == ""
      and vim.bo[vim.api.nvim_win_get_buf(win)].buftype == ""
  end)
end

--- Open a file in a window that shows it, in one whose buffer may change, or in a tab of its own.
---@param name string
---@param line integer
function M.open(name, line)
  local win = free_window()
  local is_chosen, err = M.without_dialog("o", function()
    vim.api.nvim_set_current_win(win or 0)
    vim.cmd((win and "drop " or "tab drop ") .. vim.fn.fnameescape(name))
    vim.api.nvim_win_set_cursor(0, { math.min(line, vim.api.nvim_buf_line_count(0)), 0 })
  end)
  if err then
    tell.error(err)
  elseif is_chosen then
    local text = "%s has a swap file and is opened read-only; `:recover` restores the text in that"
    tell.warning(text:format(vim.fs.basename(name)))
  end
end

--- Open the file whose name is under the cursor, such as `src/app.py:12`, relative to the project.
function M.open_under_cursor()
  local name = vim.fn.expand("<cfile>")
  local line = vim.fn.expand("<cWORD>"):match(vim.pesc(name) .. ":(%d+)")
  local is_absolute = name:find("^[/~]") ~= nil
  local path = vim.fs.normalize(is_absolute and name or vim.fs.joinpath(vim.b.oh_root, name))
  local file = vim.uv.fs_stat(path)
  if name == "" or not file or file.type ~= "file" then
    tell.message(("no file %q"):format(name))
    return
  end
  M.open(path, tonumber(line) or 1)
end

return M
