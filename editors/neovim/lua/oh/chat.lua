--- The chat buffer of a conversation. Once per frame, the lines that differ are redrawn.
--- Invariant: `lines` and `levels` are those of the buffer; only this module changes it.
local blocks = require("oh.block")
local config = require("oh.config")
local transcript = require("oh.transcript")

local M = {}

---@class oh.Chat
---@field conversation oh.Conversation
---@field buf integer
---@field private blocks oh.Block[] One for each drawn entry.
---@field private lines string[]
---@field private levels string[] Fold level of each line, in the words of 'foldexpr'.
---@field private dirty table<integer, true> Entries to redraw.
---@field private is_scheduled boolean
---@field private frame_ms number
---@field private tail oh.Block
---@field private laid_out? integer The width that tables have.
---@field private is_unfolded? boolean Drawn while the user wrote.
---@field private n_tail? integer Lines of the tail in the buffer.
local Chat = {}
Chat.__index = Chat

local FRAME_MS = 33
--- Highlighting a long paragraph may take longer than a frame. To keep the keys responsive, drawing
--- pauses for this many times as long as it took.
local REST = 3
local MAX_FRAME_MS = 500
local namespace = vim.api.nvim_create_namespace("oh.chat")

---@type table<integer, oh.Chat>
local chats = {}

--- The chat of a conversation; if it has no buffer, one is created and filled from the log.
---@param conversation oh.Conversation
---@return oh.Chat
function M.of(conversation)
  for _, chat in pairs(chats) do
    if chat.conversation == conversation then
      return chat
    end
  end
  local chat = setmetatable({ conversation = conversation, frame_ms = FRAME_MS }, Chat)
  chat:create_buffer()
  conversation.on_change = function(index)
    chat:on_change(index)
  end
  chat:draw_all()
  return chat
end

--- The chat that a buffer shows.
---@param buf? integer
---@return oh.Chat?
function M.at(buf)
  return chats[buf or vim.api.nvim_get_current_buf()]
end

--- Neovim does not update folds meanwhile, so all that is drawn then looks open.
---@return boolean
local function is_inserting()
  return vim.fn.mode():find("^[iR]") ~= nil
end

--- A fold that the user has opened, by whatever key, gets its lines when the line in it is drawn.
vim.api.nvim_set_decoration_provider(vim.api.nvim_create_namespace("oh.chat.later"), {
  on_win = function(_, win, buf, top, bottom)
    local chat = chats[buf]
    if chat and not is_inserting() and chat:is_later(top, bottom) then
      vim.schedule(function()
        chat:load_open(win)
      end)
    end
    return false
  end,
})

--- For 'foldexpr' of a window that shows a chat.
---@return string
function M.fold_level()
  local chat = chats[vim.api.nvim_get_current_buf()]
  return chat and chat.levels[vim.v.lnum] or "0"
end

--- For 'foldtext': if a head is too long, its title is cut, so that the facts behind it stay.
---@return [string, string][]
function M.fold_text()
  local line = vim.v.foldstart
  local chat = chats[vim.api.nvim_get_current_buf()]
  local block, row, index
  if chat then
    block, row, index = chat:block_at(line)
  end
  if not block then
    return { { vim.fn.getline(line), "" } }
  end
  local entry = chat.conversation.entries[index]
  if entry and entry.work and vim.v.foldlevel == 1 then
    return { { entry.work.text, "OhDim" } }
  end
  return block:head(row, vim.api.nvim_win_get_width(0))
end

--- For 'winbar'.
---@return string
function M.bar()
  local chat, status = chats[vim.api.nvim_get_current_buf()], require("oh.status")
  if chat then
    return status.bar(chat.conversation, vim.api.nvim_win_get_width(0))
  end
  return status.empty_bar(require("oh.daemon").known())
end

---@private
function Chat:create_buffer()
  local buf = vim.api.nvim_create_buf(false, true)
  self.buf = buf
  chats[buf] = self
  vim.api.nvim_buf_set_name(buf, require("oh.names").free("oh://chat"))
  vim.b[buf].oh_root = self.conversation.daemon.root
  vim.bo[buf].bufhidden = "hide"
  vim.bo[buf].undolevels = -1
  vim.bo[buf].modifiable = false
  vim.api.nvim_create_autocmd({ "BufUnload" }, {
    buffer = buf,
    desc = "oh: the conversation goes on without its buffer",
    callback = function()
      chats[buf] = nil
      self.conversation.on_change = function() end
      require("oh.names").give_back(buf)
    end,
  })
  vim.api.nvim_create_autocmd("InsertLeave", {
    group = vim.api.nvim_create_augroup("oh.chat", { clear = true }),
    desc = "oh: what was drawn while the user wrote is folded",
    callback = vim.schedule_wrap(M.fold_all),
  })
  vim.api.nvim_create_autocmd("WinResized", {
    group = "oh.chat",
    desc = "oh: tables fit the window",
    callback = function()
      for _, chat in pairs(chats) do
        chat:on_resized()
      end
    end,
  })
  vim.bo[buf].filetype = "oh-chat"
  -- Nothing is Markdown until it is drawn as such.
  require("oh.prose").set(buf, {})
end

--- Fold what was drawn while the user wrote.
function M.fold_all()
  for buf, chat in pairs(chats) do
    if chat.is_unfolded then
      chat.is_unfolded = nil
      for _, win in ipairs(vim.fn.win_findbuf(buf)) do
        vim.api.nvim_set_option_value("foldmethod", "expr", { win = win, scope = "local" })
      end
      chat:to_end(chat:windows_at_end())
    end
  end
end

--- Draw what changed in the next frame.
---@private
---@param index? integer
function Chat:on_change(index)
  if index then
    self.dirty[index] = true
  end
  if self.is_scheduled then
    return
  end
  self.is_scheduled = true
  vim.defer_fn(function()
    self.is_scheduled = false
    if self.conversation.is_fetching or require("oh.wait").is_locked() then
      -- A long log comes in many pages; drawing after each would parse the whole buffer again.
      self:on_change()
    elseif chats[self.buf] == self and vim.api.nvim_buf_is_loaded(self.buf) then
      self:draw()
    end
  end, self.frame_ms)
end

---@private
function Chat:draw_all()
  self.blocks, self.lines, self.levels, self.dirty = {}, { "" }, { "0" }, {}
  for index = 1, #self.conversation.entries do
    self.dirty[index] = true
  end
  self.n_tail = nil
  self.is_scheduled = false
  self:set_lines(0, -1, {})
  self:draw()
end

---@private
function Chat:draw()
  local started = vim.uv.hrtime()
  local entries = self.conversation.entries
  if #self.blocks > #entries then
    self:draw_all()
    return
  end
  local first = #self.blocks + 1
  for index in pairs(self.dirty) do
    first = math.min(first, index)
  end
  local n_above = self:lines_above(first)
  self.laid_out = self:width()
  self:render_blocks(first)
  local lines, levels = self:joined(first)
  local readers = self:windows_at_text()
  local followers = self:replace(n_above, lines, levels)
  self:decorate(first, n_above)
  self:to_end(followers)
  for _, win in ipairs(readers) do
    -- What the user reads just then does not go into a fold.
    vim.api.nvim_win_call(win, function()
      vim.cmd("silent! normal! zv")
    end)
  end
  vim.cmd("redrawstatus!")
  local took_ms = (vim.uv.hrtime() - started) / 1e6
  self.frame_ms = math.floor(math.min(math.max(FRAME_MS, REST * took_ms), MAX_FRAME_MS))
end

--- Count the lines above the block with this index, from the end, where most changes happen.
---@private
---@param index integer
---@return integer
function Chat:lines_above(index)
  local n_below = self.n_tail or #self.lines
  for at = #self.blocks, index, -1 do
    n_below = n_below + #self.blocks[at].lines
  end
  return #self.lines - n_below
end

---@private
---@param first integer
function Chat:render_blocks(first)
  local entries = self.conversation.entries
  local view = {
    root = self.conversation.daemon.root,
    width = self:width(),
    folded = config.current().chat.folded,
    state = self.conversation.status == "stopped" and "stopped"
      or self.conversation.is_followed and "followed"
      or "running",
    answers = function(approval)
      local together = require("oh.approval").together(self.conversation)
      local is_one = vim.list_contains(together, approval)
      return require("oh.keys").answers(approval, is_one and #together or 1)
    end,
    reply = require("oh.keys").reply(),
  }
  for index = first, #entries do
    if entries[index].approval then
      require("oh.approval").on_drawn(entries[index].approval)
    end
  end
  for index = first, #entries do
    if self.dirty[index] or not self.blocks[index] then
      view.before = entries[index - 1]
      self.blocks[index] = transcript.render(entries[index], view)
    end
  end
  self.dirty = {}
  local untaken = require("oh.outgoing").untaken(self.conversation.target)
  self.tail = transcript.render_tail(self.conversation, untaken.drafts)
end

--- The width for which tables are laid out.
---@private
---@return integer
function Chat:width()
  local win = vim.fn.win_findbuf(self.buf)[1]
  return win and vim.api.nvim_win_get_width(win) or require("oh.windows").chat_width()
end

--- Lay out the tables again after a window has got another width.
---@private
function Chat:on_resized()
  if self.laid_out ~= self:width() then
    for index, block in ipairs(self.blocks) do
      if block.has_tables then
        self:on_change(index)
      end
    end
  end
end

--- Join the lines from a block to the end of the buffer, with their fold levels.
---@private
---@param first integer
---@return string[] lines
---@return string[] levels
function Chat:joined(first)
  local lines, levels = {}, {}
  local function add(block, entry)
    local work = entry and entry.work
    local is_first = work and work.first == entry.index
    for row, line in ipairs(block.lines) do
      local is_lead = is_first and row <= block.n_lead
      local level = work and not is_lead and 1 or 0
      local is_start = is_first and row == block.n_lead + 1
      if block.fold and row > block.fold then
        level, is_start = level + 1, is_start or row == block.fold + 1
      end
      table.insert(lines, line)
      table.insert(levels, (is_start and ">" or "") .. level)
    end
  end
  for index = first, #self.blocks do
    add(self.blocks[index], self.conversation.entries[index])
  end
  add(self.tail)
  self.n_tail = #self.tail.lines
  return lines, levels
end

--- Write the lines that differ below the first `n_above`.
---@private
---@param n_above integer
---@param lines string[]
---@param levels string[]
---@return integer[] followers Windows that are to go to the end.
function Chat:replace(n_above, lines, levels)
  local n_old, n_new = #self.lines - n_above, #lines
  local n_same = 0
  while
    n_same < math.min(n_old, n_new)
    and self.lines[n_above + n_same + 1] == lines[n_same + 1]
    and self.levels[n_above + n_same + 1] == levels[n_same + 1]
  do
    n_same = n_same + 1
  end
  if n_same == n_old and n_same == n_new then
    return {}
  end
  local followers = self:windows_at_end()
  local start = n_above + n_same
  local n_end = 0
  -- What did not change below keeps its folds as the user has them.
  while
    n_end < math.min(n_old, n_new) - n_same
    and self.lines[#self.lines - n_end] == lines[n_new - n_end]
    and self.levels[#self.levels - n_end] == levels[n_new - n_end]
  do
    n_end = n_end + 1
  end
  -- A buffer without lines has an empty one, which goes.
  local stop = n_end == 0 and -1 or #self.lines - n_end
  for row = start + 1, math.max(#self.lines, n_above + n_new) do
    self.lines[row] = lines[row - n_above]
    -- Neovim asks for the fold levels while it sets the lines, so they are stored first.
    self.levels[row] = levels[row - n_above]
  end
  self:set_lines(start, stop, vim.list_slice(lines, n_same + 1, n_new - n_end))
  self.is_unfolded = self.is_unfolded or is_inserting()
  return followers
end

---@private
---@param start integer
---@param stop integer
---@param lines string[]
function Chat:set_lines(start, stop, lines)
  vim.bo[self.buf].modifiable = true
  vim.api.nvim_buf_set_lines(self.buf, start, stop, false, lines)
  vim.bo[self.buf].modifiable = false
end

--- Whether some of these rows stand for lines that are added later.
---@private
---@param top integer
---@param bottom integer
---@return boolean
function Chat:is_later(top, bottom)
  for row = top, bottom do
    if self.lines[row + 1] == blocks.LATER then
      return true
    end
  end
  return false
end

--- Add the lines of the open folds that a window shows.
---@private
---@param win integer
function Chat:load_open(win)
  if not (vim.api.nvim_win_is_valid(win) and vim.api.nvim_win_get_buf(win) == self.buf) then
    return
  end
  vim.api.nvim_win_call(win, function()
    for line = vim.fn.line("w0"), vim.fn.line("w$") do
      if self.lines[line] == blocks.LATER and vim.fn.foldclosed(line) < 0 then
        local block, _, index = self:block_at(line)
        local entry = self.conversation.entries[index]
        if block and block.fold and entry and not entry.is_open then
          entry.is_open = true
          self.dirty[index] = true
          self:draw()
          vim.cmd(("silent! %dfoldopen"):format(line))
          return
        end
      end
    end
  end)
end

--- Go to the end, which the windows then follow, without empty lines below it.
---@param windows? integer[] By default all that show the chat.
function Chat:to_end(windows)
  for _, win in ipairs(windows or vim.fn.win_findbuf(self.buf)) do
    vim.api.nvim_win_set_cursor(win, { vim.api.nvim_buf_line_count(self.buf), 0 })
    vim.api.nvim_win_call(win, function()
      vim.cmd("normal! zb")
    end)
  end
end

---@private
---@return integer[]
function Chat:windows_at_end()
  local n_lines = vim.api.nvim_buf_line_count(self.buf)
  return vim.tbl_filter(function(win)
    return vim.api.nvim_win_get_cursor(win)[1] == n_lines
  end, vim.fn.win_findbuf(self.buf))
end

--- The windows whose cursor is in the text, and in no closed fold.
---@private
---@return integer[]
function Chat:windows_at_text()
  local n_lines = vim.api.nvim_buf_line_count(self.buf)
  return vim.tbl_filter(function(win)
    return vim.api.nvim_win_call(win, function()
      return vim.fn.line(".") < n_lines and vim.fn.foldclosed(".") < 0
    end)
  end, vim.fn.win_findbuf(self.buf))
end

---@private
---@param first integer
---@param n_above integer
function Chat:decorate(first, n_above)
  vim.api.nvim_buf_clear_namespace(self.buf, namespace, n_above, -1)
  local row = n_above
  local function add(block)
    block:paint(self.buf, namespace, row)
    row = row + #block.lines
  end
  for index = first, #self.blocks do
    add(self.blocks[index])
  end
  add(self.tail)
  self:parse()
end

--- Tell which rows are Markdown.
---@private
function Chat:parse()
  local row, ranges = 0, {}
  for _, block in ipairs(self.blocks) do
    for _, rows in ipairs(block.prose) do
      table.insert(ranges, { row + rows[1], row + rows[2] })
    end
    row = row + #block.lines
  end
  require("oh.prose").set(self.buf, ranges)
end

--- The entry under the cursor, if this window is the chat of the conversation.
---@param conversation oh.Conversation
---@return oh.Entry?
function M.entry_here(conversation)
  local chat = M.at()
  if chat and chat.conversation == conversation then
    return chat:entry_at(vim.api.nvim_win_get_cursor(0)[1])
  end
end

--- The entry that a line belongs to.
---@param line integer
---@return oh.Entry?
function Chat:entry_at(line)
  local _, _, index = self:block_at(line)
  return index and self.conversation.entries[index]
end

---@param line integer
---@return oh.Block? block
---@return integer row The row of the line within the block, from 0.
---@return integer? index
function Chat:block_at(line)
  local above = 0
  for index, block in ipairs(self.blocks) do
    if line <= above + #block.lines then
      return block, line - above - 1, index
    end
    above = above + #block.lines
  end
  return nil, 0, nil
end

return M
