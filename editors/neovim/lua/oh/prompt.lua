--- Choices among things, and prompts for pending approvals and questions. Such a prompt ends if its
--- request is decided meanwhile, for instance by a message, or because the turn ended.
local tell = require("oh.tell")

local M = {}

--- The result of `getcmdtype()` in Neovim's own `vim.ui.input` and `vim.ui.select`.
local OWN = { "@", "-" }

--- Let the user choose one of several things, or say that there are none.
---@generic T
---@param items T[]
---@param none string
---@param options { prompt: string, kind: string, format_item: fun(item: T): string }
---@param on_chosen fun(item: T)
function M.choose(items, none, options, on_chosen)
  if #items == 0 then
    tell.message(none)
    return
  end
  M.select(items, options, function(item)
    if item then
      on_chosen(item)
    end
  end)
end

--- `vim.ui.select`, which may be left with CTRL-C too: Neovim's own raises an error then.
---@generic T
---@param items T[]
---@param options { prompt: string, kind: string, format_item?: fun(item: T): string }
---@param on_choice fun(item?: T, index?: integer)
function M.select(items, options, on_choice)
  local is_done, problem = pcall(vim.ui.select, items, options, on_choice)
  if not is_done and not tostring(problem):find("Keyboard interrupt", 1, true) then
    error(problem, 0)
  end
end

--- Take an answer while the request is pending. When it no longer is, Neovim's own prompt is closed
--- and its text goes to the draft; a plugin's prompt stays, but its answer is ignored.
---@param conversation oh.Conversation
---@param id string The approval or question.
---@param on_answer fun(...)
---@return fun(...) on_answer For the prompt.
function M.about(conversation, id, on_answer)
  local is_settled, is_over = false, false
  -- Only the last prompt can still be open: one of a plugin may have been closed without an answer.
  local group = vim.api.nvim_create_augroup("oh.prompt", { clear = true })
  vim.api.nvim_create_autocmd("User", {
    group = group,
    pattern = { "OhApprovalResolved", "OhInputResolved" },
    desc = "oh: what is decided is not asked about any more",
    callback = function(args)
      local resolution = args.data.resolution
      if (resolution.approvalId or resolution.inputId) ~= id then
        return false
      end
      is_settled = true
      if not is_over then
        M.close(conversation)
      end
      return true
    end,
  })
  return function(...)
    is_over = true
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
