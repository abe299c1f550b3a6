--- The content of the chat window until the daemon has taken the first message.
local blocks = require("oh.block")

local M = {}

local namespace = vim.api.nvim_create_namespace("oh.welcome")

local TEXT = {
  "Write what you want done below.",
  "",
  "`@path` mentions a file,",
  "`:'<,'>Oh` the lines you selected",
  "`:Oh conversations` for earlier ones",
  "`:Oh mode` for when you are asked",
  "",
  "Nothing runs and no file changes",
  "without your consent. `:help oh`",
}

---@type table<string, integer>
local buffers = {}

---@param root string
---@return integer
function M.buffer(root)
  local buf = buffers[root]
  if not (buf and vim.api.nvim_buf_is_loaded(buf)) then
    buf = vim.api.nvim_create_buf(false, true)
    buffers[root] = buf
    vim.api.nvim_buf_set_name(buf, require("oh.names").free("oh://start"))
    vim.b[buf].oh_root = root
    vim.bo[buf].bufhidden = "hide"
    M.draw(root, { drafts = {} })
    vim.bo[buf].filetype = "oh-chat"
  end
  return buf
end

--- Show the messages being sent; else why the last one was refused, and what the user can do here.
---@param root string
---@param untaken oh.Untaken
function M.draw(root, untaken)
  local buf = buffers[root]
  if not (buf and vim.api.nvim_buf_is_loaded(buf)) then
    return
  end
  local to = blocks.new()
  for _, draft in ipairs(untaken.drafts) do
    to:speaker("You (sending)", "OhDim")
    to:text(draft)
    to:line("")
  end
  if #to.lines == 0 then
    to:speaker("Oh", "OhAgent")
    for _, line in ipairs(M.problem(untaken.problem)) do
      to:line(line, "OhFailed")
    end
    to:markdown(TEXT, 0)
  end
  vim.bo[buf].modifiable = true
  vim.api.nvim_buf_set_lines(buf, 0, -1, false, to.lines)
  vim.bo[buf].modifiable = false
  vim.api.nvim_buf_clear_namespace(buf, namespace, 0, -1)
  to:paint(buf, namespace, 0)
  require("oh.prose").set(buf, to.prose)
end

---@param problem? oh.Error
---@return string[]
function M.problem(problem)
  if not problem then
    return {}
  end
  local hint = problem.data and problem.data.hint
  local said = hint and ("%s\n%s"):format(problem.message, hint) or problem.message
  local lines = vim.tbl_map(function(line)
    return "> " .. line
  end, vim.split(said, "\n", { plain = true, trimempty = true }))
  if problem.data and problem.data.kind == "authRequired" then
    table.insert(lines, "> `:Oh model demo` looks around without a key.")
  end
  table.insert(lines, "")
  return lines
end

return M
