--- Renders approvals and questions for the chat: exactly what would happen, and how to answer.
local blocks = require("oh.block")

local M = {}

--- Shown in place of the keys when nothing can be answered.
local WAITING = {
  stopped = "waiting for `:Oh restart`",
  followed = "waiting for an answer in the window that runs it",
}

--- How many of the things that run without asking are shown.
local MAX_RUNS = 8
local RUNS = {
  hook = "hook",
  skillCommand = "command of a skill",
  server = "MCP server of a skill",
}

---@param to oh.Block
---@param approval table
---@param view oh.View
function M.approval(to, approval, view)
  to:line(("? Allow: %s"):format(blocks.escaped(approval.title)), "OhApproval")
  if approval.description then
    to:line(blocks.escaped(approval.description))
  end
  local why = approval.reason and ", " .. blocks.escaped(approval.reason) or ""
  to:line(("risk: %s%s"):format(approval.risk, why), "OhDim")
  M.subject(to, approval.subject, view)
  local why_not = WAITING[view.state]
  for _, line in ipairs(why_not and { why_not } or view.answers(approval)) do
    to:line(line, "OhApproval")
  end
end

---@param to oh.Block
---@param question oh.protocol.InputRequest
---@param view oh.View
function M.question(to, question, view)
  to:text("? " .. question.prompt, "OhApproval")
  for _, choice in ipairs(question.choices or {}) do
    to:line("- " .. blocks.escaped(choice))
  end
  to:line(WAITING[view.state] or view.reply, "OhApproval")
end

--- Show exactly what would happen.
---@param to oh.Block
---@param subject table
---@param view oh.View
function M.subject(to, subject, view)
  if subject.kind == "command" then
    to:code("sh", vim.split(subject.command, "\n", { plain = true }))
    if subject.outside then
      to:line(("outside the sandbox: %s"):format(blocks.escaped(subject.outside)), "OhNotice")
    end
    if vim.fs.normalize(subject.cwd) ~= view.root then
      to:line(("in %s"):format(subject.cwd), "OhDim")
    end
  elseif subject.kind == "fileChange" then
    for _, change in ipairs(subject.git or {}) do
      to:line(("git: %s"):format(blocks.escaped(change.title)), "OhNotice")
    end
    for _, change in ipairs(subject.changes) do
      if #subject.changes > 1 then
        to:line(("%s %s"):format(change.op, blocks.path(change.uri)), "OhDim")
      end
      to:diff(change)
    end
  elseif subject.kind == "tool" then
    local args = vim.json.encode(subject.args, { indent = "  " })
    to:code("json", vim.split(args, "\n", { plain = true }))
  elseif subject.kind == "path" then
    to:line(("%s %s"):format(subject.access, blocks.path(subject.uri)))
  elseif subject.kind == "saveDocuments" then
    for _, uri in ipairs(subject.uris) do
      to:line("save " .. blocks.path(uri))
    end
  elseif subject.kind == "host" then
    for _, host in ipairs(subject.hosts or { ("%s:%d"):format(subject.host, subject.port) }) do
      to:line(blocks.escaped(host))
    end
  elseif subject.kind == "trust" then
    M.runs(to, subject.runs or {})
  else
    to:line(blocks.unknown(subject.kind), "OhDim")
  end
end

--- Show what will run without asking; of many, the first.
---@param to oh.Block
---@param runs oh.protocol.ProjectProgram[]
function M.runs(to, runs)
  local before
  for index, run in ipairs(runs) do
    if index > MAX_RUNS then
      to:line(("and %d more"):format(#runs - MAX_RUNS), "OhDim")
      return
    end
    local place = ("%s, in %s:"):format(RUNS[run.kind] or run.kind, blocks.path(run.uri))
    if place ~= before then
      to:line(place, "OhDim")
      before = place
    end
    to:code("sh", vim.split(run.command, "\n", { plain = true }))
  end
end

return M
