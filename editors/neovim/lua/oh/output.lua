--- Shows a whole output, of which the chat shows head and tail, in a tab of its own.
local tell = require("oh.tell")

local M = {}

---@param entry oh.Entry
---@return boolean
local function is_shortened(entry)
  return entry.item.outputRef ~= nil
end

--- Show the output of the tool call under the cursor, else of the last one that was shortened.
---@param conversation oh.Conversation
function M.show(conversation)
  local here = require("oh.chat").entry_here(conversation)
  local entry = here and is_shortened(here) and here
    or vim.iter(conversation.entries):rfind(is_shortened)
  if not entry then
    tell.message("no output was shortened")
    return
  end
  vim.cmd.tabedit(("oh-output:/%s/%s"):format(conversation.id, entry.item.outputRef))
  vim.bo.bufhidden = "wipe"
  vim.wo.winbar = entry.item.title:gsub("%%", "%%%%"):gsub("\n", " ")
end

return M
