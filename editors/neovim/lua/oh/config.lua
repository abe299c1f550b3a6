--- The plugin's options: `vim.g.oh` (a table or a function that returns one) over the defaults.
--- They are read when needed, so a changed `vim.g.oh` takes effect at the next use.
local M = {}

---@class oh.Config
---@field cmd string[] The command that starts the daemon.
---@field attach "never"|"auto" Whether `oh-daemon serve` is used, if it runs.
---@field env table<string, string> Added to the daemon's environment.
---@field root? fun(buf: integer): string? The folder that the agent works in.
---@field trust? boolean|fun(folder: string): boolean? Without it the daemon asks, once per folder.
---@field settings table<string, any> Settings of the daemon, such as `model`; see its README.
---@field inline boolean Whether the agent's changes are shown in the files themselves.
---@field chat oh.Config.Chat
---@field input oh.Config.Input
---@field keys oh.Config.Keys

---@class oh.Config.Chat
---@field width number Columns, or a fraction of the screen when it is below 1.
---@field folded integer Output with more lines than this is folded when its tool call has ended.
---@field inert_ms integer How long no key allows a request that has just appeared.

---@class oh.Config.Input
---@field height integer

--- A key for each action, or false for none.
---@class oh.Config.Keys
---@field chat table<string, string|false>
---@field input table<string, string|false>
---@field review table<string, string|false>

---@type oh.Config
local defaults = {
  cmd = { "oh-daemon", "--stdio" },
  attach = "never",
  env = {},
  settings = {},
  inline = true,
  chat = { width = 0.4, folded = 12, inert_ms = 400 },
  input = { height = 6 },
  keys = {
    chat = {
      approve = "a",
      approve_for = "A",
      approve_all = "ga",
      reject = "r",
      edit = "c",
      diff = "d",
      stop = "<C-c>",
      output = "gO",
      open_file = "gf",
      next = "]]",
      previous = "[[",
      input = "i",
      hide = "q",
      help = "g?",
    },
    input = {
      send = "<CR>",
      send_insert = "<C-s>",
      stop = "<C-c>",
      older = "<Up>",
      newer = "<Down>",
      open_file = "gf",
      hide = "q",
      help = "g?",
    },
    review = {
      keep = "a",
      undo = "r",
      keep_file = "A",
      undo_file = "R",
      next_file = "]f",
      previous_file = "[f",
      open_file = "gf",
      close = "q",
      help = "g?",
    },
  },
}

--- The type of each option that has no default to compare with.
local optional = { root = { "function" }, trust = { "boolean", "function" } }

--- What a value of the right type must be.
---@type table<string, { [1]: string, [2]: fun(value: any): boolean }>
local checks = {
  cmd = {
    "name a program",
    function(words)
      return type(words[1]) == "string" and words[1] ~= ""
    end,
  },
  attach = {
    'be "never" or "auto"',
    function(how)
      return how == "never" or how == "auto"
    end,
  },
  ["chat.width"] = {
    "be a whole number above 1, or a fraction",
    function(width)
      return width < 1 or width % 1 == 0
    end,
  },
  ["input.height"] = {
    "be a whole number above 0",
    function(height)
      return height > 0 and height % 1 == 0
    end,
  },
}

local key = {
  "be a key, or false",
  function(lhs)
    return lhs ~= ""
  end,
}

---@return oh.Config
function M.current()
  local given = M.given()
  return vim.tbl_deep_extend("force", defaults, #M.problems(given) == 0 and given or {})
end

--- The user's options, unchecked.
---@return any
function M.given()
  local given = vim.g.oh
  if type(given) == "function" then
    given = given()
  end
  return given == nil and {} or given
end

--- The problems of the options, one sentence each.
---@param given any
---@return string[]
function M.problems(given)
  if type(given) ~= "table" then
    return { ("vim.g.oh must be a table or a function giving one, not a %s"):format(type(given)) }
  end
  local found = {}
  M.compare(given, defaults, "", found)
  table.sort(found)
  return found
end

---@param given table
---@param default table
---@param path string
---@param found string[]
function M.compare(given, default, path, found)
  for name, value in pairs(given) do
    local where = path .. tostring(name)
    local types = optional[where] or { type(default[name]) }
    local is_key = path:find("^keys%.%w+%.$") ~= nil
    local check = is_key and key or checks[where]
    if is_key and value == false then
      types = { "boolean" }
    end
    if default[name] == nil and not optional[where] then
      table.insert(found, ("unknown option %q"):format(where))
    elseif not vim.list_contains(types, type(value)) then
      local names = table.concat(types, " or ")
      local message = "option %q must be of type %s, not %s"
      table.insert(found, message:format(where, names, type(value)))
    elseif check and not check[2](value) then
      table.insert(found, ("option %q must %s"):format(where, check[1]))
    elseif M.is_group(default[name]) then
      M.compare(value, default[name], where .. ".", found)
    end
  end
end

--- A table of named options, as opposed to a list or to a table that the user fills freely.
---@param default any
---@return boolean
function M.is_group(default)
  return type(default) == "table" and next(default) ~= nil and not vim.islist(default)
end

return M
