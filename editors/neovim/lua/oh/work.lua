--- A finished turn's work: what led to its last words. The chat folds it into one line.
local transcript = require("oh.transcript")

local M = {}

---@class oh.Work
---@field first integer The index of its first entry.
---@field text string What the fold says.

--- Fewer entries are shown as they are.
local MIN_ENTRIES = 2

---@param time string As ISO 8601 writes it.
---@return integer
local function seconds(time)
  local year, month, day, hour, min, sec = time:match("(%d+)-(%d+)-(%d+)T(%d+):(%d+):(%d+)")
  return os.time({ year = year, month = month, day = day, hour = hour, min = min, sec = sec })
end

---@param n integer
---@param what string
---@return string?
local function counted(n, what)
  return n > 0 and ("%d %s%s"):format(n, what, n == 1 and "" or "s") or nil
end

---@param turn oh.protocol.Turn
---@param n_files integer
---@return string
function M.text(turn, n_files)
  local took = turn.endedAt and math.max(seconds(turn.endedAt) - seconds(turn.startedAt), 1) or 1
  local time = took < 60 and ("%d s"):format(took)
    or ("%d min %d s"):format(math.floor(took / 60), took % 60)
  local facts = { "Worked " .. time }
  table.insert(facts, counted(turn.nSteps, "step"))
  table.insert(facts, counted(n_files, "file"))
  return "▸ " .. table.concat(facts, " · ")
end

--- Whether the agent said this to the user.
---@param entry oh.Entry
---@return boolean
local function is_word(entry)
  return entry.item.kind == "agentMessage" or transcript.is_last_word(entry.item)
end

--- Find the work of a turn that has ended well. Messages of the user stay seen, so there may be
--- several parts of it, of which the last one says it all.
---@param entries oh.Entry[]
---@param first integer The turn's first entry.
---@param turn oh.protocol.Turn
---@param n_files integer
---@return oh.Work[]
function M.fold(entries, first, turn, n_files)
  local last, found = #entries, {}
  while last >= first and not is_word(entries[last]) do
    last = last - 1
  end
  local work = { first = first, text = M.text(turn, n_files) }
  for index = last - 1, first - 1, -1 do
    local is_over = index < first or entries[index].item.kind == "userMessage"
    if is_over and last - 1 - index >= MIN_ENTRIES then
      work.first = index + 1
      for each = work.first, last - 1 do
        entries[each].work = work
      end
      table.insert(found, work)
    end
    if is_over then
      last, work = index, { first = index, text = "▸ Worked until your message" }
    end
  end
  return found
end

return M
