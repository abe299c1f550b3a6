--- The keys of our own buffers. Other buffers get none; there are <Plug> maps for them.
local config = require("oh.config")

local M = {}

---@class oh.Key
---@field modes string[]
---@field desc string
---@field run fun(): any

---@param name string
local function command(name)
  return function()
    vim.cmd("Oh " .. name)
  end
end

---@type table<string, oh.Key>
local chat_keys = {
  approve = { modes = { "n" }, desc = "allow what is asked, once", run = command("approve") },
  approve_for = {
    modes = { "n" },
    desc = "choose for how long to allow it",
    run = command("approve ?"),
  },
  reject = {
    modes = { "n" },
    desc = "reject it, with a note",
    run = function()
      require("oh.approval").reject_with_note()
    end,
  },
  stop = { modes = { "n" }, desc = "stop the turn", run = command("stop") },
  output = { modes = { "n" }, desc = "show a whole output", run = command("output") },
  next = {
    modes = { "n", "x" },
    desc = "next message",
    run = function()
      vim.fn.search([[^## \(You\|Oh\)]], "W")
    end,
  },
  previous = {
    modes = { "n", "x" },
    desc = "previous message",
    run = function()
      vim.fn.search([[^## \(You\|Oh\)]], "bW")
    end,
  },
  input = {
    modes = { "n" },
    desc = "write a message",
    run = function()
      require("oh.windows").focus_input()
    end,
  },
  hide = { modes = { "n" }, desc = "hide chat and input", run = command("toggle") },
  help = {
    modes = { "n" },
    desc = "show these keys",
    run = function()
      M.show("chat")
    end,
  },
}

---@type table<string, oh.Key>
local input_keys = {
  send = {
    modes = { "n" },
    desc = "send the message",
    run = function()
      require("oh.input").send()
    end,
  },
  send_insert = {
    modes = { "i" },
    desc = "send the message",
    run = function()
      require("oh.input").send()
    end,
  },
  stop = { modes = { "n" }, desc = "stop the turn", run = command("stop") },
  older = {
    modes = { "n", "i" },
    desc = "older message, on the first line",
    run = function()
      require("oh.input").older()
    end,
  },
  newer = {
    modes = { "n", "i" },
    desc = "newer message, on the last line",
    run = function()
      require("oh.input").newer()
    end,
  },
  hide = { modes = { "n" }, desc = "hide chat and input", run = command("toggle") },
  help = {
    modes = { "n" },
    desc = "show these keys",
    run = function()
      M.show("input")
    end,
  },
}

---@param buf integer
function M.map_chat(buf)
  M.map(buf, chat_keys, config.current().keys.chat)
end

---@param buf integer
function M.map_input(buf)
  M.map(buf, input_keys, config.current().keys.input)
  vim.keymap.set("i", "@", "@<C-x><C-o>", { buffer = buf, desc = "oh: mention a file" })
end

---@param buf integer
---@param keys table<string, oh.Key>
---@param chosen table<string, string|false>
function M.map(buf, keys, chosen)
  for name, key in pairs(keys) do
    if chosen[name] then
      local options = { buffer = buf, desc = "oh: " .. key.desc, nowait = true }
      vim.keymap.set(key.modes, chosen[name], key.run, options)
    end
  end
end

--- How an approval is answered in the chat, in a line.
---@return string
function M.answers()
  local keys = config.current().keys.chat
  local function key(name, command_line)
    return ("[%s]"):format(keys[name] or command_line)
  end
  return table.concat({
    key("approve", ":Oh approve") .. " allow once",
    key("approve_for", ":Oh approve ?") .. " longer",
    key("reject", ":Oh reject {note}") .. " reject",
  }, "  ")
end

--- Say which keys there are.
---@param where "chat"|"input"
function M.show(where)
  local chosen = config.current().keys[where]
  local lines = {}
  for name, key in pairs(where == "chat" and chat_keys or input_keys) do
    if chosen[name] then
      table.insert(lines, ("%-8s %s"):format(chosen[name], key.desc))
    end
  end
  table.sort(lines)
  vim.api.nvim_echo({ { table.concat(lines, "\n") } }, false, {})
end

return M
