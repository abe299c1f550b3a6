-- Defines `:Oh` and the <Plug> maps. Nothing else is loaded before the first of them is used.
if vim.g.loaded_oh then
  return
end
vim.g.loaded_oh = true

vim.api.nvim_create_user_command("Oh", function(call)
  if vim.fn.has("nvim-0.11") == 0 then
    vim.notify("oh: Neovim 0.11 or newer is needed (`:checkhealth oh`)", vim.log.levels.ERROR)
    return
  end
  require("oh.command").run(call)
end, {
  nargs = "*",
  bang = true,
  range = true,
  desc = "Talk to the agent: :Oh {message} or :Oh {sub-command}",
  complete = function(_, line, column)
    return require("oh.command").complete(line:sub(1, column))
  end,
})

vim.api.nvim_create_autocmd("SessionLoadPost", {
  desc = "oh: chat and input are no files",
  callback = function()
    if vim.fn.bufexists("oh://message") == 1 then
      require("oh.windows").forget_restored()
    end
  end,
})

local plugs = {
  toggle = "Oh toggle",
  new = "Oh new",
  add = "Oh add",
  edit = "Oh edit",
  approve = "Oh approve",
  reject = "Oh reject",
  diff = "Oh diff",
  stop = "Oh stop",
  conversations = "Oh conversations",
}
for name, command in pairs(plugs) do
  local desc = "oh: " .. name
  vim.keymap.set("n", ("<Plug>(oh-%s)"):format(name), "<Cmd>" .. command .. "<CR>", { desc = desc })
  -- `:` in visual mode gives the command the range of the selected lines.
  vim.keymap.set("x", ("<Plug>(oh-%s)"):format(name), ":" .. command .. "<CR>", {
    desc = desc,
    silent = true,
  })
end

--- For the agent's changes in the files themselves; `]h` and `[h` are good keys for the first two.
local changes = {
  ["next-change"] = { "go", 1 },
  ["previous-change"] = { "go", -1 },
  keep = { "decide", "keep", false },
  undo = { "decide", "undo", false },
  ["keep-file"] = { "decide", "keep", true },
  ["undo-file"] = { "decide", "undo", true },
}
for name, call in pairs(changes) do
  vim.keymap.set("n", ("<Plug>(oh-%s)"):format(name), function()
    require("oh.inline")[call[1]](call[2], call[3])
  end, { desc = "oh: " .. name:gsub("%-", " ") })
end
