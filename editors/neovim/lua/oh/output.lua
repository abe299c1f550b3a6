--- Shows a whole output, of which the chat shows head and tail, in a buffer of its own.
local tell = require("oh.tell")

local M = {}

--- Show the output of the tool call under the cursor, else of the last one that was shortened.
---@param conversation oh.Conversation
function M.show(conversation)
  local chat = require("oh.chat").at()
  local entry = chat and chat:entry_at(vim.api.nvim_win_get_cursor(0)[1])
  local item = entry and entry.item.outputRef and entry.item
  for index = #conversation.entries, 1, -1 do
    item = item or conversation.entries[index].item
    if item.outputRef then
      break
    end
    item = nil
  end
  if not item then
    tell.message("no output was shortened")
    return
  end
  M.read(conversation, item, 0, {})
end

---@param conversation oh.Conversation
---@param item table
---@param offset integer
---@param pieces string[]
function M.read(conversation, item, offset, pieces)
  conversation.daemon:request("output/read", {
    conversationId = conversation.id,
    outputRef = item.outputRef,
    offset = offset,
  }, function(page)
    table.insert(pieces, page.text)
    if page.nextOffset < page.total and page.nextOffset > offset then
      M.read(conversation, item, page.nextOffset, pieces)
    else
      M.open(item.title, table.concat(pieces))
    end
  end)
end

---@param title string
---@param text string
function M.open(title, text)
  local buf = vim.api.nvim_create_buf(false, true)
  vim.api.nvim_buf_set_lines(buf, 0, -1, false, vim.split(text, "\n", { plain = true }))
  vim.bo[buf].modifiable = false
  vim.bo[buf].bufhidden = "wipe"
  vim.cmd.tabnew()
  vim.api.nvim_win_set_buf(0, buf)
  vim.wo.winbar = title:gsub("%%", "%%%%"):gsub("\n", " ")
end

return M
