--- Lays out the tables of a Markdown text: aligned, with cells that break where a window is too
--- narrow for them; as lists where even that does not fit. Pure.
local M = {}

--- Columns narrower than this cannot be read.
local MIN_WIDTH = 6

---@class oh.Word
---@field text string With the marks that make it code or strong.
---@field width integer Without them, since they are concealed.

--- The cells of a row, or nil if the line is none.
---@param line string
---@return string[]?
local function cells_of(line)
  local inner = line:match("^%s*|(.*)|%s*$")
  if not inner then
    return nil
  end
  local cells = vim.split(inner:gsub("\\|", "\1"), "|", { plain = true })
  return vim.tbl_map(function(cell)
    return (vim.trim(cell):gsub("\1", "\\|"))
  end, cells)
end

---@param cells? string[]
---@return boolean
local function is_rule(cells)
  return cells ~= nil
    and vim.iter(cells):all(function(cell)
      return cell:find("^:?%-+:?$") ~= nil
    end)
end

--- The words of a cell. Marks around several words are put around each, so that a line may end
--- between them.
---@param cell string
---@return oh.Word[]
local function words_of(cell)
  local found = {}
  local function add(text, mark)
    for word in text:gmatch("%S+") do
      local width = vim.api.nvim_strwidth(word)
      table.insert(found, { text = mark .. word .. mark, width = width })
    end
  end
  local at = 1
  while at <= #cell do
    local first, last, mark, text = cell:find("(`+)([^`]+)%1", at)
    local strong, strong_end, bold = cell:find("%*%*([^*]+)%*%*", at)
    if strong and (not first or strong < first) then
      first, last, mark, text = strong, strong_end, "**", bold
    end
    add(cell:sub(at, (first or #cell + 1) - 1), "")
    if not first then
      break
    end
    add(text, mark)
    at = last + 1
  end
  return found
end

---@param words oh.Word[]
---@return integer
local function natural_width(words)
  local width = -1
  for _, word in ipairs(words) do
    width = width + word.width + 1
  end
  return math.max(width, 0)
end

--- Break words into lines of at most this width; a longer word has a line of its own.
---@param words oh.Word[]
---@param width integer
---@return oh.Word[] lines
local function broken(words, width)
  local lines, line = {}, nil
  for _, word in ipairs(words) do
    if line and line.width + 1 + word.width <= width then
      line = { text = line.text .. " " .. word.text, width = line.width + 1 + word.width }
      lines[#lines] = line
    else
      line = word
      table.insert(lines, line)
    end
  end
  return lines
end

--- Take from the widest columns until all fit; nil if that leaves too little.
---@param widths integer[]
---@param least integer[] The widest word of each.
---@param room integer
---@return integer[]?
local function narrowed(widths, least, room)
  widths = vim.list_slice(widths)
  local total = 0
  for _, width in ipairs(widths) do
    total = total + width
  end
  while total > room do
    local widest
    for column, width in ipairs(widths) do
      local may_shrink = width > math.max(least[column], MIN_WIDTH)
      if may_shrink and (not widest or width > widths[widest]) then
        widest = column
      end
    end
    if not widest then
      return nil
    end
    widths[widest], total = widths[widest] - 1, total - 1
  end
  return widths
end

---@param rows oh.Word[][][]
---@param widths integer[]
---@return string[]
local function drawn(rows, widths)
  local lines = {}
  local function add(pieces)
    table.insert(lines, "| " .. table.concat(pieces, " | ") .. " |")
  end
  for index, row in ipairs(rows) do
    local cells, height = {}, 1
    for column, width in ipairs(widths) do
      cells[column] = broken(row[column] or {}, width)
      height = math.max(height, #cells[column])
    end
    for at = 1, height do
      local pieces = {}
      for column, width in ipairs(widths) do
        local piece = cells[column][at] or { text = "", width = 0 }
        pieces[column] = piece.text .. (" "):rep(width - piece.width)
      end
      add(pieces)
    end
    if index == 1 then
      add(vim.tbl_map(function(width)
        return ("-"):rep(width)
      end, widths))
    end
  end
  return lines
end

---@param rows string[][]
---@return string[]
local function as_list(rows)
  local lines = {}
  for index = 2, #rows do
    for column, cell in ipairs(rows[index]) do
      local lead = column == 1 and "- " or "  "
      local name = rows[1][column] or ""
      table.insert(lines, name == "" and lead .. cell or ("%s%s: %s"):format(lead, name, cell))
    end
  end
  return lines
end

--- Lay out a table for a window of this width.
---@param rows string[][] The first has the names of the columns.
---@param room integer
---@return string[]
function M.fit(rows, room)
  local widths, least, words = {}, {}, {}
  for index, row in ipairs(rows) do
    words[index] = vim.tbl_map(words_of, row)
    for column, cell in ipairs(words[index]) do
      widths[column] = math.max(widths[column] or 1, natural_width(cell))
      for _, word in ipairs(cell) do
        least[column] = math.max(least[column] or 1, word.width)
      end
      least[column] = least[column] or 1
    end
  end
  -- Neovim wraps lines as if nothing was concealed, so lines may need more room than is seen.
  local space, excess = room - 3 * #widths - 1, 0
  repeat
    space = space - excess
    local fitting = narrowed(widths, least, space)
    if not fitting then
      return as_list(rows)
    end
    local lines = drawn(words, fitting)
    excess = vim.iter(lines):fold(0, function(most, line)
      return math.max(most, vim.api.nvim_strwidth(line) - room)
    end)
    if excess == 0 then
      return lines
    end
  until false
end

--- The rows of the table that begins with this line, and its last line.
---@param lines string[]
---@param first integer
---@return string[][]? rows
---@return integer last
function M.at(lines, first)
  local names = lines[first]:find("|", 1, true) and cells_of(lines[first])
  if not names or not is_rule(cells_of(lines[first + 1] or "")) then
    return nil, first
  end
  local rows, last = { names }, first + 1
  local cells = cells_of(lines[last + 1] or "")
  while cells do
    table.insert(rows, cells)
    last = last + 1
    cells = cells_of(lines[last + 1] or "")
  end
  return rows, last
end

return M
