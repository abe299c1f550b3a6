--- Prompts about what waits for the user. One that is decided meanwhile, for instance by a message
--- or because the turn ended, is not asked about any more.
local tell = require("oh.tell")

local M = {}

--- What `getcmdtype()` says in Neovim's own `vim.ui.input` and `vim.ui.select`.
local OWN = { "@", "-" }

--- Take an answer as long as this waits. A prompt of Neovim's own is closed when it does not; what
--- was written in it goes to the draft. That of a plugin stays, and its answer counts no more.
---@param conversation oh.Conversation
---@param id string Of the approval or the question.
---@param on_answer fun(...)
---@return fun(...) on_answer For the prompt.
function M.about(conversation, id, on_answer)
  local is_settled, is_over = false, false
  local autocmd = vim.api.nvim_create_autocmd("User", {
    pattern = { "OhApprovalResolved", "OhInputResolved" },
    desc = "oh: what is decided is not asked about any more",
    callback = function(args)
      local resolution = args.data.resolution
      if (resolution.approvalId or resolution.inputId) ~= id then
        return
      end
      is_settled = true
      if not is_over then
        M.close(conversation)
      end
    end,
  })
  return function(...)
    is_over = true
    vim.api.nvim_del_autocmd(autocmd)
    if is_settled then
      tell.message("that was decided meanwhile")
    else
      on_answer(...)
    end
  end
end

---@param conversation oh.Conversation
function M.close(conversation)
  local kind = vim.fn.getcmdtype()
  if not vim.list_contains(OWN, kind) then
    return
  end
  local written = vim.fn.getcmdline()
  if kind == "@" and written ~= "" then
    require("oh.input").append(conversation.daemon.root, written)
  end
  vim.api.nvim_input("<Esc>")
end

return M
