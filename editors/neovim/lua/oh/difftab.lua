--- The tab of a review: the files above; below, the chosen one as it was and as it is or would be.
--- It only shows what it is given. Its buffers are read-only, and closing one of them closes all.
local M = {}

---@class oh.DiffTab
---@field list integer Buffer of the files.
---@field before integer Buffer of the left side.
---@field after integer Buffer of the right side.
---@field private group integer
---@field private on_closed fun()
---@field private n_files? integer The number of files that the list has room for.
---@field private is_closed? boolean
local DiffTab = {}
DiffTab.__index = DiffTab

local LIST_LINES = 8
local namespace = vim.api.nvim_create_namespace("oh.difftab")

local LIST_OPTIONS = { cursorline = true, winfixheight = true, wrap = false, number = false }
local SIDE_OPTIONS = { number = true, wrap = false, foldcolumn = "0" }

--- A glyph, its highlight and a label for each state of a change.
M.STATES = {
  asked = { "?", "OhApproval", "to allow" },
  pending = { "●", "OhRunning", "to review" },
  conflict = { "!", "OhApproval", "in conflict" },
  kept = { "✓", "OhDone", "kept" },
  undone = { "⊘", "OhDim", "undone" },
}

--- The same for the hunks of an edit that awaits approval.
M.CHOSEN = {
  keep = { "✓ stays", "OhDone" },
  undo = { "⊘ left out", "OhDim" },
}

---@param name string
---@param root string
---@param on_closed fun()
---@return oh.DiffTab
function M.create(name, root, on_closed)
  local self = setmetatable({ on_closed = on_closed }, DiffTab)
  self.group = vim.api.nvim_create_augroup("oh.difftab" .. name, { clear = true })
  self.list = self:buffer("files", root)
  self.before = self:buffer("before", root)
  -- Tab lines show the name of this buffer.
  self.after = self:buffer("changes", root)
  vim.cmd("tab sbuffer " .. self.list)
  local list_win = vim.api.nvim_get_current_win()
  local after_win = vim.api.nvim_open_win(self.after, true, { split = "below", win = list_win })
  local place = { split = "left", win = after_win }
  local before_win = vim.api.nvim_open_win(self.before, false, place)
  M.dress(list_win, LIST_OPTIONS)
  for _, win in ipairs({ before_win, after_win }) do
    vim.api.nvim_win_call(win, vim.cmd.diffthis)
    M.dress(win, SIDE_OPTIONS)
  end
  return self
end

---@param win integer
---@param options table<string, any>
function M.dress(win, options)
  for name, value in pairs(options) do
    vim.api.nvim_set_option_value(name, value, { win = win, scope = "local" })
  end
  vim.wo[win].winfixbuf = true
end

---@private
---@param role string
---@param root string
---@return integer
function DiffTab:buffer(role, root)
  local buf = vim.api.nvim_create_buf(false, true)
  vim.api.nvim_buf_set_name(buf, require("oh.names").free("oh://" .. role))
  vim.b[buf].oh_root = root
  vim.bo[buf].bufhidden = "wipe"
  vim.bo[buf].modifiable = false
  vim.api.nvim_create_autocmd("BufWipeout", {
    group = self.group,
    buffer = buf,
    desc = "oh: without one of its buffers the tab makes no sense",
    callback = function()
      vim.schedule(function()
        self:close()
      end)
    end,
  })
  vim.bo[buf].filetype = "oh-review"
  return buf
end

---@param buf integer
---@return integer?
function M.window(buf)
  return vim.fn.win_findbuf(buf)[1]
end

---@param buf integer
---@return boolean
function DiffTab:owns(buf)
  return buf == self.list or buf == self.before or buf == self.after
end

---@return boolean
function DiffTab:is_open()
  return vim.api.nvim_buf_is_valid(self.list) and M.window(self.after) ~= nil
end

---@param found oh.Change[]
---@param name fun(change: oh.Change): string
function DiffTab:draw_list(found, name)
  local lines, width = {}, 0
  for _, change in ipairs(found) do
    width = math.max(width, vim.fn.strdisplaywidth(name(change)))
  end
  for index, change in ipairs(found) do
    local glyph, _, word = unpack(M.STATES[change.state])
    local size = ("+%d -%d"):format(change.added, change.removed)
    local pad = (" "):rep(width - vim.fn.strdisplaywidth(name(change)))
    lines[index] = (" %s %s%s  %-9s %s"):format(glyph, name(change), pad, size, word)
  end
  M.set_lines(self.list, lines)
  self:fit(#found)
  for index, change in ipairs(found) do
    local glyph, group = unpack(M.STATES[change.state])
    local mark = { end_col = 1 + #glyph, hl_group = group }
    vim.api.nvim_buf_set_extmark(self.list, namespace, index - 1, 1, mark)
  end
end

--- Give the list room for all files, up to a limit.
---@private
---@param n_files integer
function DiffTab:fit(n_files)
  local win = M.window(self.list)
  if win and n_files ~= self.n_files then
    self.n_files = n_files
    -- The window bar takes one line of the window.
    vim.api.nvim_win_set_height(win, math.min(math.max(n_files, 1), LIST_LINES) + 1)
  end
end

--- Mark the row of the file that is shown.
---@param row integer
function DiffTab:select(row)
  local win = M.window(self.list)
  if win then
    vim.api.nvim_win_set_cursor(win, { row, 0 })
  end
end

---@param path string
---@param sides oh.Sides
function DiffTab:draw_sides(path, sides)
  M.set_lines(self.before, sides.before)
  M.set_lines(self.after, sides.after)
  local filetype = vim.filetype.match({ filename = path, contents = sides.after })
  for _, buf in ipairs({ self.before, self.after }) do
    M.color(buf, filetype)
  end
  vim.cmd("diffupdate")
  self:mark(sides.hunks)
end

--- Show the choice for each hunk at the end of its first line: a hunk that is left out no longer
--- differs, so it would be folded away.
---@param hunks oh.Hunk[]
function DiffTab:mark(hunks)
  local last = vim.api.nvim_buf_line_count(self.after) - 1
  for _, hunk in ipairs(hunks) do
    local word = hunk.verdict and M.CHOSEN[hunk.verdict]
    if word then
      local place = { virt_text = { word } }
      local row = math.min(hunk.newStart, last)
      vim.api.nvim_buf_set_extmark(self.after, namespace, row, 0, place)
      self:unfold(row + 1)
    end
  end
end

---@private
---@param line integer Of the right side; the left one follows.
function DiffTab:unfold(line)
  local win = M.window(self.after)
  if win then
    vim.api.nvim_win_call(win, function()
      vim.cmd(("silent! %dfoldopen!"):format(line))
    end)
  end
end

--- Put the cursor of the right side on the first line that differs.
---@param sides oh.Sides
function DiffTab:to_first_change(sides)
  local win = M.window(self.after)
  local row = 1
  while row < #sides.after and sides.before[row] == sides.after[row] do
    row = row + 1
  end
  if win then
    vim.api.nvim_win_set_cursor(win, { row, 0 })
    vim.api.nvim_win_call(win, function()
      vim.cmd("normal! zz")
    end)
  end
end

--- Label a window with what it shows, and at its right with the keys or an explanation.
---@param buf integer
---@param left string
---@param right string
function M.label(buf, left, right)
  local win = M.window(buf)
  if win then
    left, right = left:gsub("%%", "%%%%"), right:gsub("%%", "%%%%")
    vim.wo[win].winbar = (" %%<%s%%=%%#OhDim#%s "):format(left, right)
  end
end

--- Highlight a side like the file, without the file type's plugins: nothing may attach to it.
---@param buf integer
---@param filetype? string
function M.color(buf, filetype)
  local language = filetype and vim.treesitter.language.get_lang(filetype)
  vim.treesitter.stop(buf)
  if not (language and pcall(vim.treesitter.start, buf, language)) then
    vim.bo[buf].syntax = filetype or ""
  end
end

---@param buf integer
---@param lines string[]
function M.set_lines(buf, lines)
  vim.bo[buf].modifiable = true
  vim.api.nvim_buf_clear_namespace(buf, namespace, 0, -1)
  vim.api.nvim_buf_set_lines(buf, 0, -1, false, lines)
  vim.bo[buf].modifiable = false
end

function DiffTab:close()
  if self.is_closed then
    return
  end
  self.is_closed = true
  vim.api.nvim_del_augroup_by_id(self.group)
  local last = M.window(self.list)
  if last then
    -- Without another tab page it stays, with a buffer of the user's.
    vim.wo[last].winfixbuf, vim.wo[last].winfixheight = false, false
  end
  for _, buf in ipairs({ self.before, self.after, self.list }) do
    if vim.api.nvim_buf_is_valid(buf) then
      vim.api.nvim_buf_delete(buf, { force = true })
    end
  end
  self.on_closed()
end

return M
