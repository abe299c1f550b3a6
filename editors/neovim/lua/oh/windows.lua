--- The windows of chat and input, at the right of each tab page that shows them.
--- Windows are looked up when needed and never remembered, so closing one breaks nothing.
local config = require("oh.config")
local tell = require("oh.tell")

local M = {}

local MIN_WIDTH = 40
--- Room for chat and input with their bars, of one line each, and the line between them.
local MIN_HEIGHT = 5

--- Show the conversation of a daemon, or an empty chat; the cursor stays where it is.
---@param daemon oh.Daemon
function M.show(daemon)
  M.forget_restored()
  local buf = M.chat_buffer(daemon)
  local win = M.window_of("oh-chat")
  if win then
    M.put(win, buf)
  else
    win = M.open_chat(buf)
  end
  if not win then
    return
  end
  local input = require("oh.input").buffer(daemon.root)
  local input_win = M.window_of("oh-input")
  if input_win then
    M.put(input_win, input)
  else
    M.open_input(win, input)
  end
end

--- A session brings our buffers back as empty files with their names: they and their windows go.
function M.forget_restored()
  for _, buf in ipairs(vim.api.nvim_list_bufs()) do
    local is_named = vim.startswith(vim.api.nvim_buf_get_name(buf), "oh://")
    if is_named and vim.bo[buf].buftype == "" and not vim.bo[buf].modified then
      vim.api.nvim_buf_delete(buf, { force = true })
    end
  end
end

--- The chat buffer of the current conversation, else the welcome buffer.
---@param daemon oh.Daemon
---@return integer
function M.chat_buffer(daemon)
  local target, welcome = daemon.target, require("oh.welcome")
  if target.conversation then
    local buf = require("oh.chat").of(target.conversation).buf
    require("oh.names").take(buf, "oh://chat")
    return buf
  end
  local buf = welcome.buffer(daemon.root)
  welcome.draw(daemon.root, require("oh.outgoing").untaken(target))
  return buf
end

---@param filetype string
---@return integer?
function M.window_of(filetype)
  for _, win in ipairs(vim.api.nvim_tabpage_list_wins(0)) do
    if vim.bo[vim.api.nvim_win_get_buf(win)].filetype == filetype then
      return win
    end
  end
end

--- Show another buffer in one of our windows, whose buffer is otherwise fixed.
---@param win integer
---@param buf integer
function M.put(win, buf)
  if vim.api.nvim_win_get_buf(win) == buf then
    return
  end
  vim.wo[win].winfixbuf = false
  vim.api.nvim_win_set_buf(win, buf)
  -- With another buffer a window gets other local options.
  M.dress(win, vim.bo[buf].filetype)
end

--- Open a window if the screen has room for it; otherwise say so.
---@param buf integer
---@param enter boolean
---@param place vim.api.keyset.win_config
---@return integer? win
function M.split(buf, enter, place)
  local is_open, win = pcall(vim.api.nvim_open_win, buf, enter, place)
  if is_open then
    return win
  end
  local name = vim.fs.basename(vim.api.nvim_buf_get_name(buf))
  tell.warning(("there is no room for the window %q; make the screen larger"):format(name))
end

---@param buf integer
---@return integer? win
function M.open_chat(buf)
  local win = M.split(buf, false, { split = "right", win = -1, width = M.chat_width() })
  if not win then
    return
  end
  M.dress(win, "oh-chat")
  local group = vim.api.nvim_create_augroup("oh.windows", { clear = true })
  vim.api.nvim_create_autocmd("VimResized", {
    group = group,
    desc = "oh: the chat keeps its part of the screen",
    callback = M.resize,
  })
  vim.api.nvim_create_autocmd("WinClosed", {
    group = group,
    desc = "oh: the input keeps its height",
    callback = function(args)
      M.keep_height(tonumber(args.match) --[[@as integer]])
    end,
  })
  return win
end

--- Neovim gives the room of a closing window to the one beside it, even with 'winfixheight'.
---@param closing integer
function M.keep_height(closing)
  local input, chat = M.window_of("oh-input"), M.window_of("oh-chat")
  local is_float = vim.api.nvim_win_get_config(closing).relative ~= ""
  if not (input and chat) or is_float or closing == input or closing == chat then
    return
  end
  -- The closing window may have squeezed the input.
  local height = math.max(vim.api.nvim_win_get_height(input), config.current().input.height)
  vim.schedule(function()
    local are_valid = vim.api.nvim_win_is_valid(input) and vim.api.nvim_win_is_valid(chat)
    if are_valid and M.are_stacked(chat, input) then
      vim.api.nvim_win_set_height(input, height)
    end
  end)
end

--- Whether one is above the other; otherwise setting a height would resize a whole row of windows.
---@param one integer
---@param other integer
---@return boolean
function M.are_stacked(one, other)
  local column = vim.api.nvim_win_get_position(one)[2]
  return column == vim.api.nvim_win_get_position(other)[2]
end

--- The width of the chat. As a fraction it is at least 40 columns, or half of a narrow screen.
---@return integer
function M.chat_width()
  local width, columns = config.current().chat.width, vim.o.columns
  if width >= 1 then
    return width
  end
  return math.max(math.floor(columns * width), math.min(MIN_WIDTH, math.floor(columns / 2)))
end

function M.resize()
  local win = M.window_of("oh-chat")
  if win then
    vim.api.nvim_win_set_width(win, M.chat_width())
  end
end

---@param chat_win integer
---@param buf integer
function M.open_input(chat_win, buf)
  local height = config.current().input.height
  if vim.api.nvim_win_get_height(chat_win) < MIN_HEIGHT then
    -- A low window gets room from those above and below, and from its bar.
    vim.api.nvim_win_set_height(chat_win, 2 * height)
    vim.wo[chat_win][0].winbar = ""
  end
  local win = M.split(buf, false, { split = "below", win = chat_win, height = height })
  if win then
    M.dress(win, "oh-input")
  end
end

local PLAIN = {
  number = false,
  relativenumber = false,
  statuscolumn = "",
  signcolumn = "no",
  foldcolumn = "0",
  colorcolumn = "",
  cursorcolumn = false,
  winhighlight = "",
  list = false,
  spell = false,
  wrap = true,
  linebreak = true,
  breakindent = true,
  winfixbuf = true,
}

local DRESSES = {
  ["oh-chat"] = {
    winfixwidth = true,
    conceallevel = 2,
    concealcursor = "nc",
    foldmethod = "expr",
    foldexpr = "v:lua.require'oh.chat'.fold_level()",
    foldtext = "v:lua.require'oh.chat'.fold_text()",
    foldlevel = 0,
    foldenable = true,
    fillchars = "fold: ,eob: ",
    winbar = "%{%v:lua.require'oh.chat'.bar()%}",
  },
  ["oh-input"] = {
    winfixheight = true,
    fillchars = "eob: ",
    winbar = " message%=%#OhDim#%{v:lua.require'oh.input'.label()} ",
  },
}

---@param win integer
---@param filetype string
function M.dress(win, filetype)
  local dress = vim.tbl_extend("force", PLAIN, DRESSES[filetype])
  if vim.api.nvim_win_get_height(win) == 1 then
    -- The only line is for the text; Neovim would report an error.
    dress.winbar = nil
  end
  for name, value in pairs(dress) do
    vim.api.nvim_set_option_value(name, value, { win = win, scope = "local" })
  end
  local buf = vim.api.nvim_win_get_buf(win)
  vim.api.nvim_win_set_cursor(win, { vim.api.nvim_buf_line_count(buf), 0 })
end

--- Show both in this tab page, and go to the input.
---@param daemon oh.Daemon
function M.open(daemon)
  M.show(daemon)
  M.focus_input()
end

---@return boolean hidden Whether there was one to hide.
function M.hide()
  local found = false
  if vim.bo.filetype == "oh-input" then
    -- What is typed next goes to another window.
    vim.cmd.stopinsert()
  end
  for _, filetype in ipairs({ "oh-input", "oh-chat" }) do
    local win = M.window_of(filetype)
    if win then
      found = true
      M.close(win)
    end
  end
  return found
end

---@param win integer
function M.close(win)
  local windows = vim.tbl_filter(function(each)
    return vim.api.nvim_win_get_config(each).relative == ""
  end, vim.api.nvim_tabpage_list_wins(0))
  if #windows > 1 then
    vim.api.nvim_win_close(win, true)
    return
  end
  -- A tab page keeps its last window, so that window shows an empty buffer instead.
  vim.api.nvim_win_call(win, function()
    vim.wo.winfixbuf = false
    vim.cmd.enew()
    vim.cmd("setlocal winbar< foldmethod< foldexpr< foldtext< fillchars< number< relativenumber<")
    vim.cmd("setlocal nowinfixwidth nowinfixheight signcolumn< list<")
  end)
end

function M.focus_input()
  local win = M.window_of("oh-input")
  if win then
    vim.api.nvim_set_current_win(win)
    vim.cmd("startinsert!")
  end
end

return M
