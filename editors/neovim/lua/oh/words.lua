--- What people call the reasons that the protocol names. A reason without words here is
--- shown as it is.
local M = {}

--- Why an item ended as it did.
M.ENDS = {
  outcomeUnknown = "the daemon ended; the outcome is unknown",
  superseded = "your message came instead",
  notStarted = "not started",
  retried = "tried again",
  unknownTool = "no such tool",
  invalidArguments = "wrong arguments",
  cutOff = "cut off",
  answeredByMessage = "answered by your message",
}

--- Why a turn ended early.
M.STOPS = {
  maxTokens = "The answer was cut; the model writes no more at once",
  maxSteps = "Stopped at the limit of steps; `:Oh resume` allows as many again",
  maxCostUsd = "Stopped at the limit of cost; `:Oh resume` allows as much again",
  maxCostUsdPerConversation = "Stopped at the limit of cost for this conversation",
  maxCostUsdPerDay = "Stopped at the limit of cost for today",
  maxMinutes = "Stopped at the limit of time; `:Oh resume` allows as much again",
  refusal = "The model refused to answer",
  noAnswer = "The model gave no answer",
  toolErrors = "Stopped after many failed tool calls",
  stuck = "Stopped: the agent went in circles",
  hook = "Stopped by a hook",
  needsInput = "Stopped: it needs your answer",
}

--- An amount in US dollars; "$0" only when nothing is paid, as for a model on this machine.
---@param amount number
---@param n_digits integer
---@return string
function M.cost(amount, n_digits)
  if amount == 0 then
    return "$0"
  end
  local least = 10 ^ -n_digits
  local text = ("$%." .. n_digits .. "f"):format(math.max(amount, least))
  return amount < least and "<" .. text or text
end

--- Why a conversation is paused; without words where the user paused it.
M.PAUSES = {
  user = "",
  budget = ": the limit of steps, cost or time is reached",
  network = ": the model cannot be reached",
  rateLimit = ": the provider asks to wait",
  storage = ": the log cannot be written",
  daemonRestarted = ": the daemon was restarted",
  stuck = ": the agent went in circles",
}

return M
