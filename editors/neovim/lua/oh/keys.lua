--- The keys of our own buffers. Other buffers get none; users map <Plug> keys there.
local config = require("oh.config")

local M = {}

---@class oh.Key
---@field name string In the options.
---@field modes string[]
---@field desc string
---@field run fun(): any

---@param name string
local function command(name)
  return function()
    -- Not by `vim.cmd`, in which a message about an error is an error itself.
    require("oh.command").run({ args = name, range = 0, bang = false })
  end
end

---@param module string
---@param name string
local function calls(module, name, ...)
  local arguments = { ... }
  return function()
    return require("oh." .. module)[name](unpack(arguments))
  end
end

--- Go to the heading of another message.
---@param flags string Flags of `search()`.
local function to_message(flags)
  return function()
    vim.fn.search([[^## \(You\|Oh\)]], flags)
  end
end

local NORMAL, MOTION, BOTH = { "n" }, { "n", "x" }, { "n", "i" }

--- The actions of the keys, in the order of the help. The options say which of them each kind of
--- buffer has.
---@type oh.Key[]
local actions = {
  {
    name = "approve",
    modes = NORMAL,
    desc = "allow what is asked; answer",
    run = calls("approval", "approve_by_key"),
  },
  {
    name = "approve_for",
    modes = NORMAL,
    desc = "choose for how long",
    run = command("approve ?"),
  },
  {
    name = "approve_all",
    modes = NORMAL,
    desc = "allow all that waits, once",
    run = calls("approval", "approve_all_by_key"),
  },
  {
    name = "reject",
    modes = NORMAL,
    desc = "reject it, with a note",
    run = calls("approval", "reject_meant"),
  },
  {
    name = "edit",
    modes = NORMAL,
    desc = "edit the command, then allow it",
    run = command("edit"),
  },
  { name = "diff", modes = NORMAL, desc = "show the changes side by side", run = command("diff") },
  { name = "stop", modes = NORMAL, desc = "stop the turn", run = command("stop") },
  { name = "output", modes = NORMAL, desc = "show a whole output", run = command("output") },
  { name = "next", modes = MOTION, desc = "next message", run = to_message("W") },
  { name = "previous", modes = MOTION, desc = "previous message", run = to_message("bW") },
  {
    name = "input",
    modes = NORMAL,
    desc = "write a message",
    run = calls("windows", "focus_input"),
  },
  { name = "hide", modes = NORMAL, desc = "hide chat and input", run = command("toggle") },
  { name = "send", modes = NORMAL, desc = "send the message", run = calls("input", "send") },
  {
    name = "send_insert",
    modes = { "i" },
    desc = "send the message",
    run = calls("input", "send"),
  },
  {
    name = "older",
    modes = BOTH,
    desc = "older message, on the first line",
    run = calls("input", "older"),
  },
  {
    name = "newer",
    modes = BOTH,
    desc = "newer message, on the last line",
    run = calls("input", "newer"),
  },
  {
    name = "keep",
    modes = NORMAL,
    desc = "keep the change under the cursor",
    run = calls("review", "decide", "keep", false),
  },
  {
    name = "undo",
    modes = NORMAL,
    desc = "undo the change under the cursor",
    run = calls("review", "decide", "undo", false),
  },
  {
    name = "keep_file",
    modes = NORMAL,
    desc = "keep the file",
    run = calls("review", "decide", "keep", true),
  },
  {
    name = "undo_file",
    modes = NORMAL,
    desc = "undo the file",
    run = calls("review", "decide", "undo", true),
  },
  { name = "next_file", modes = NORMAL, desc = "next file", run = calls("review", "go", 1) },
  {
    name = "previous_file",
    modes = NORMAL,
    desc = "previous file",
    run = calls("review", "go", -1),
  },
  {
    name = "open_file",
    modes = NORMAL,
    desc = "open the file here",
    run = function()
      if vim.bo.filetype == "oh-review" then
        require("oh.review").edit()
      else
        require("oh.files").open_under_cursor()
      end
    end,
  },
  { name = "close", modes = NORMAL, desc = "close the tab", run = calls("review", "close") },
  {
    name = "help",
    modes = NORMAL,
    desc = "show these keys",
    run = function()
      M.show(vim.bo.filetype:match("^oh%-(%w+)$"))
    end,
  },
}

--- Map the keys that the options define for a kind of buffer.
---@param buf integer
---@param where "chat"|"input"|"review"
function M.map(buf, where)
  local keys = config.current().keys[where]
  for _, action in ipairs(actions) do
    local key = keys[action.name]
    if key then
      local options = { buffer = buf, desc = "oh: " .. action.desc, nowait = true }
      vim.keymap.set(action.modes, key, action.run, options)
    end
  end
end

--- Tell how an approval is answered in the chat.
---@param approval table
---@param n_together integer The number of those that can be allowed at once.
---@return string[] lines
function M.answers(approval, n_together)
  local keys = config.current().keys.chat
  local function key(name, command_line)
    return ("[%s]"):format(keys[name] or command_line)
  end
  local narrowest = require("oh.approval").option_of(approval, "allow")
  local allow = narrowest and narrowest.label:gsub("^%u", string.lower) or "allow once"
  local lines = {
    ("%s %s  %s longer"):format(
      key("approve", ":Oh approve"),
      allow,
      key("approve_for", ":Oh approve ?")
    ),
    key("reject", ":Oh reject {note}") .. " reject",
  }
  if approval.subject.kind == "fileChange" then
    local left_out = require("oh.proposal").told(approval)
    local more = left_out and (" (%s)"):format(left_out) or ""
    lines[2] = ("%s  %s see it side by side%s"):format(lines[2], key("diff", ":Oh diff"), more)
  elseif approval.editable then
    lines[2] = ("%s  %s edit it first"):format(lines[2], key("edit", ":Oh edit"))
  end
  if n_together > 1 then
    local all = ("%s allow all %d once"):format(key("approve_all", ":Oh approve all"), n_together)
    table.insert(lines, all)
  end
  return lines
end

--- Tell in one line how a question is answered in the chat.
---@return string
function M.reply()
  local key = config.current().keys.chat.approve
  return ("[%s] answer, or write a message"):format(key or ":Oh answer")
end

--- Tell in one line how changes are decided in the diff tab.
---@param is_asked boolean The changes are not written yet.
---@param has_choice boolean There are hunks to decide one by one.
---@return string
function M.verdicts(is_asked, has_choice)
  local keys = config.current().keys.review
  local function pair(keep, undo, what)
    return ("%s/%s %s"):format(keys[keep] or "-", keys[undo] or "-", what)
  end
  local said = { pair("keep", "undo", is_asked and "allow/reject" or "keep/undo") }
  if has_choice then
    table.insert(said, pair("keep_file", "undo_file", "the file"))
  end
  table.insert(said, keys.help and keys.help .. " all keys" or nil)
  return table.concat(said, "  ")
end

--- Show the keys of a kind of buffer.
---@param where "chat"|"input"|"review"
function M.show(where)
  local keys, lines, row = config.current().keys[where], {}, "%-8s %s"
  local is_asked = where == "review" and require("oh.review").is_asked()
  for _, action in ipairs(actions) do
    local key, desc = keys[action.name], action.desc
    if key then
      desc = is_asked and desc:gsub("^keep", "allow"):gsub("^undo", "reject") or desc
      table.insert(lines, row:format(key, desc))
    end
  end
  if where == "review" then
    table.insert(lines, row:format("]c [c", "next and previous change"))
  end
  require("oh.tell").float(lines, "keys", "")
end

return M
