--- The agent's changes in the files themselves: those to review in colour, with what they replaced
--- as virtual lines; those that wait for consent as virtual lines. No buffer gets other text by it.
local changes = require("oh.changes")
local tell = require("oh.tell")

local M = {}

--- A hunk that a buffer shows; its mark follows what the user types.
---@class oh.Place
---@field buf integer
---@field mark integer
---@field change oh.Change
---@field hunk oh.Hunk

---@class oh.Inline
---@field conversation oh.Conversation
---@field namespace integer
---@field places oh.Place[]
---@field is_scheduled boolean
---@field n_asked integer How often the daemon was asked for the changes.

---@type table<string, oh.Inline>
local shown = {}

--- Events after which other changes may be there.
local RELEVANT = {
  ["approval.requested"] = true,
  ["approval.resolved"] = true,
  ["changes.updated"] = true,
  ["changes.reviewed"] = true,
  ["conversation.rolledBack"] = true,
}

---@param daemon oh.Daemon
function M.follow(daemon)
  vim.api.nvim_create_autocmd("User", {
    group = daemon.group,
    pattern = "OhEvent",
    desc = "oh: the changes of the agent are seen in its files",
    callback = function(args)
      local event, conversation = args.data.event, daemon.conversations[args.data.conversation]
      local is_edit = event.type == "item.completed" and event.item.changes ~= nil
      if conversation and (is_edit or RELEVANT[event.type]) then
        M.refresh(conversation)
      end
    end,
  })
  vim.api.nvim_create_autocmd({ "BufReadPost", "BufWritePost" }, {
    group = daemon.group,
    desc = "oh: also in files that are opened later",
    callback = function()
      for _, conversation in pairs(daemon.conversations) do
        M.refresh(conversation)
      end
    end,
  })
end

--- Ask the daemon for the changes again, once for events that come together.
---@param conversation oh.Conversation
function M.refresh(conversation)
  local is_off = not require("oh.config").current().inline or conversation.isolated
  -- Of a log that is being read only the end counts, after which this is called again.
  if is_off or conversation.is_fetching then
    return
  end
  local inline = shown[conversation.id]
    or { conversation = conversation, places = {}, is_scheduled = false, n_asked = 0 }
  inline.namespace = vim.api.nvim_create_namespace("oh.inline." .. conversation.id)
  shown[conversation.id] = inline
  if inline.is_scheduled then
    return
  end
  inline.is_scheduled = true
  vim.schedule(function()
    inline.is_scheduled = false
    if conversation.daemon.client_id then
      M.read(inline)
    end
  end)
end

---@param inline oh.Inline
function M.read(inline)
  local conversation = inline.conversation
  inline.n_asked = inline.n_asked + 1
  local mine = inline.n_asked
  changes.list(conversation, function(found)
    local open = vim.tbl_filter(changes.is_open, found)
    M.count(conversation, open)
    local drawn, n_waiting = {}, 1
    local function on_read()
      n_waiting = n_waiting - 1
      -- The answer to an older request may come later.
      if n_waiting == 0 and mine == inline.n_asked then
        M.draw(inline, drawn)
      end
    end
    for _, change in ipairs(open) do
      local buf = vim.fn.bufnr(vim.uri_to_fname(change.uri))
      if buf > 0 and vim.api.nvim_buf_is_loaded(buf) then
        n_waiting = n_waiting + 1
        changes.sides(conversation, change, function(sides)
          table.insert(drawn, { buf = buf, change = change, sides = sides })
          on_read()
        end)
      end
    end
    on_read()
  end)
end

--- For status lines: what waits for review in all files.
---@param conversation oh.Conversation
---@param open oh.Change[]
function M.count(conversation, open)
  local count = { files = 0, added = 0, removed = 0 }
  for _, change in ipairs(open) do
    if changes.is_unreviewed(change) then
      count.files = count.files + 1
      count.added, count.removed = count.added + change.added, count.removed + change.removed
    end
  end
  conversation.unreviewed = count
  tell.state_changed({ conversation = conversation.id, unreviewed = count })
end

---@param inline oh.Inline
---@param drawn { buf: integer, change: oh.Change, sides: oh.Sides }[]
function M.draw(inline, drawn)
  for _, place in ipairs(inline.places) do
    if vim.api.nvim_buf_is_valid(place.buf) then
      vim.api.nvim_buf_clear_namespace(place.buf, inline.namespace, 0, -1)
      vim.b[place.buf].oh_changes = nil
    end
  end
  inline.places = {}
  for _, each in ipairs(drawn) do
    if vim.api.nvim_buf_is_loaded(each.buf) and each.sides.fits then
      M.draw_file(inline, each.buf, each.change, each.sides)
    end
  end
end

---@param inline oh.Inline
---@param buf integer
---@param change oh.Change
---@param sides oh.Sides
function M.draw_file(inline, buf, change, sides)
  local text = vim.api.nvim_buf_get_lines(buf, 0, -1, false)
  local approval = change.approval
  if approval then
    require("oh.approval").on_drawn(approval)
  end
  local edits = approval and {} or M.difference(sides.after, text)
  local hunks = #sides.hunks > 0 and sides.hunks or M.difference(sides.before, sides.after)
  for _, hunk in ipairs(hunks) do
    local id
    if approval then
      id = M.propose(buf, inline.namespace, hunk, sides)
    else
      id = M.apply(buf, inline.namespace, M.row_in(edits, hunk.newStart), hunk, sides)
    end
    table.insert(inline.places, { buf = buf, mark = id, change = change, hunk = hunk })
  end
  local count = vim.b[buf].oh_changes or { hunks = 0, added = 0, removed = 0 }
  vim.b[buf].oh_changes = {
    hunks = count.hunks + #hunks,
    added = count.added + change.added,
    removed = count.removed + change.removed,
  }
end

--- The hunks between two texts.
---@param before string[]
---@param after string[]
---@return oh.Hunk[]
function M.difference(before, after)
  local function text(lines)
    return table.concat(lines, "\n") .. "\n"
  end
  local found = vim.diff(text(before), text(after), { result_type = "indices" })
  return vim.tbl_map(function(each)
    local old_start, n_old, new_start, n_new = unpack(each)
    return {
      -- Without lines on one side, the number is that of the line before.
      oldStart = n_old == 0 and old_start or old_start - 1,
      oldLines = n_old,
      newStart = n_new == 0 and new_start or new_start - 1,
      newLines = n_new,
    }
  end, found --[[@as integer[][] ]])
end

--- Where a row of a text is after edits of the user's.
---@param edits oh.Hunk[]
---@param row integer
---@return integer
function M.row_in(edits, row)
  local shift = 0
  for _, edit in ipairs(edits) do
    if edit.oldStart + edit.oldLines <= row then
      shift = shift + edit.newLines - edit.oldLines
    end
  end
  return row + shift
end

---@param buf integer
---@param lines string[]
---@param group string
---@return [string, string][][]
local function virtual(buf, lines, group)
  local tab = (" "):rep(vim.bo[buf].tabstop)
  return vim.tbl_map(function(line)
    return { { line == "" and " " or line:gsub("\t", tab), group } }
  end, lines)
end

--- Mark a change that is in the buffer: its lines are coloured, those it replaced are above.
---@param buf integer
---@param namespace integer
---@param row integer
---@param hunk oh.Hunk
---@param sides oh.Sides
---@return integer mark
function M.apply(buf, namespace, row, hunk, sides)
  local n_lines = vim.api.nvim_buf_line_count(buf)
  local gone = vim.list_slice(sides.before, hunk.oldStart + 1, hunk.oldStart + hunk.oldLines)
  local has_lines, is_below = hunk.newLines > 0, row >= n_lines
  row = math.min(row, n_lines - 1)
  M.show_above_first(buf, row, #gone)
  return vim.api.nvim_buf_set_extmark(buf, namespace, row, 0, {
    end_row = has_lines and math.min(row + hunk.newLines, n_lines) or nil,
    hl_group = has_lines and (#gone > 0 and "OhInlineChange" or "OhInlineAdd") or nil,
    hl_eol = has_lines,
    virt_lines = virtual(buf, gone, "OhInlineDelete"),
    virt_lines_above = not is_below,
  })
end

--- Mark a change that is not allowed yet: the lines that would go are coloured, those that would
--- come are below them.
---@param buf integer
---@param namespace integer
---@param hunk oh.Hunk
---@param sides oh.Sides
---@return integer mark
function M.propose(buf, namespace, hunk, sides)
  local choice = require("oh.difftab").CHOSEN[hunk.verdict] or { "? to allow", "OhApproval" }
  local is_out, has_lines = hunk.verdict == "undo", hunk.oldLines > 0
  local n_lines = vim.api.nvim_buf_line_count(buf)
  local new = is_out and {}
    or vim.list_slice(sides.after, hunk.newStart + 1, hunk.newStart + hunk.newLines)
  local above = hunk.oldStart + hunk.oldLines - 1
  if #new > 0 then
    vim.api.nvim_buf_set_extmark(buf, namespace, math.max(above, 0), 0, {
      virt_lines = virtual(buf, new, "OhInlineAdd"),
      virt_lines_above = above < 0,
    })
  end
  M.show_above_first(buf, above + 1, above < 0 and #new or 0)
  return vim.api.nvim_buf_set_extmark(
    buf,
    namespace,
    has_lines and hunk.oldStart or math.max(above, 0),
    0,
    {
      end_row = has_lines and math.min(above + 1, n_lines) or nil,
      hl_group = has_lines and not is_out and "OhInlineDelete" or nil,
      hl_eol = has_lines,
      virt_text = { choice },
    }
  )
end

--- Neovim shows virtual lines above the first line only to those who scroll there.
---@param buf integer
---@param row integer
---@param n_lines integer
function M.show_above_first(buf, row, n_lines)
  for _, win in ipairs(row == 0 and n_lines > 0 and vim.fn.win_findbuf(buf) or {}) do
    vim.api.nvim_win_call(win, function()
      if vim.fn.line("w0") == 1 then
        vim.fn.winrestview({ topfill = n_lines })
      end
    end)
  end
end

-- What the user does in a file.

--- The places of this buffer with the rows where they are now, from the top.
---@return { place: oh.Place, inline: oh.Inline, first: integer, last: integer }[]
local function places_here()
  local found, buf = {}, vim.api.nvim_get_current_buf()
  for _, inline in pairs(shown) do
    for _, place in ipairs(inline.places) do
      local how = { details = true }
      local mark = place.buf == buf
          and vim.api.nvim_buf_get_extmark_by_id(buf, inline.namespace, place.mark, how)
        or {}
      if mark[1] then
        local last = math.max((mark[3].end_row or mark[1]) - 1, mark[1])
        table.insert(found, { place = place, inline = inline, first = mark[1], last = last })
      end
    end
  end
  table.sort(found, function(one, other)
    return one.first < other.first
  end)
  return found
end

--- Go to the next or the previous change in this buffer; after the last one comes the first.
---@param step 1|-1
function M.go(step)
  local here, row = places_here(), vim.fn.line(".") - 1
  if #here == 0 then
    tell.message("no change of the agent waits in this file; `:Oh changes` lists all")
    return
  end
  local ahead = vim.tbl_filter(function(each)
    return (each.first - row) * step > 0
  end, here)
  local list = #ahead > 0 and ahead or here
  local target = step > 0 and list[1] or list[#list]
  vim.cmd("normal! m'")
  vim.api.nvim_win_set_cursor(0, { target.first + 1, 0 })
  vim.cmd("normal! zv")
end

--- Keep or undo the change under the cursor, or all of the file.
---@param verdict oh.Verdict
---@param is_whole boolean
function M.decide(verdict, is_whole)
  local here, row = places_here(), vim.fn.line(".") - 1
  local at = vim.iter(here):find(function(each)
    -- A change that only removed lines is between two of them.
    local is_gap = each.place.hunk.newLines == 0
    return is_whole or row >= each.first - (is_gap and 1 or 0) and row <= each.last
  end)
  if not at then
    tell.message("no change of the agent under the cursor; `<Plug>(oh-next-change)` goes to one")
    return
  end
  local change, conversation = at.place.change, at.inline.conversation
  local hunk = not is_whole and at.place.hunk or nil
  local is_allowed = verdict == "keep" and change.approval
  if is_allowed and not require("oh.approval").is_readable(change.approval) then
    return
  end
  changes.decide(conversation, change, hunk, verdict, function()
    M.refresh(conversation)
  end)
end

return M
