"""The answer to `initialize`, as it is written; `make schema` generates it."""

PROTOCOL_MAJOR = 1
FEATURES = (
    "applyEdit2",
    "saveDocument",
    "readDocument",
    "diagnostics",
    "languageRequests",
    "openDiff",
    "approvalRequests",
    "inputRequests",
    "modelRequests",
)
SETTINGS = (
    "model",
    "models",
    "llm",
    "profiles",
    "routers",
    "keyStore",
    "approval",
    "mode",
    "sandbox",
    "sandboxReads",
    "hosts",
    "rules",
    "hooks",
    "maxSteps",
    "maxCostUsd",
    "maxCostUsdPerConversation",
    "maxCostUsdPerDay",
    "maxMinutes",
    "condenser",
    "instructions",
    "memory",
    "titles",
    "logCompletions",
    "mcpServers",
    "browser",
    "shareTools",
    "loginShell",
    "maxOpenConversations",
    "maxRunningTurns",
    "logLevel",
)
ANSWER = """\
{"capabilities": {"positionEncoding": "%(encoding)s", "textDocumentSync": {"openClose": true,
"change": 2, "save": true}, "codeActionProvider": true, "workspace": {"workspaceFolders":
{"supported": true, "changeNotifications": true}, "textDocumentContent": {"schemes": ["oh-log",
"oh-diff", "oh-output"]}}, "codeLensProvider": {}, "executeCommandProvider": {"commands":
["ohDaemon.start", "ohDaemon.send", "ohDaemon.pause", "ohDaemon.resume", "ohDaemon.interrupt",
"ohDaemon.approve", "ohDaemon.list", "ohDaemon.options", "ohDaemon.keep", "ohDaemon.undo",
"ohDaemon.apply", "ohDaemon.discard", "ohDaemon.rollback", "ohDaemon.codeAction",
"ohDaemon.showChanges", "ohDaemon.chat", "ohDaemon.sendChat", "ohDaemon.history",
"ohDaemon.review"]}, "experimental": {"ohDaemon": {"protocolVersion": {"major": 1, "minor": 0},
"daemon": {"name": "oh-daemon", "version": "1.0.0", "pid": %(pid)d}, "methods":
["conversation/start", "conversation/open", "conversation/close", "conversation/update",
"conversation/delete", "conversation/list", "conversation/read", "conversation/events",
"conversation/export", "conversation/fork", "conversation/rollback", "conversation/sendMessage",
"conversation/pause", "conversation/resume", "conversation/interrupt", "conversation/condense",
"conversation/queue", "conversation/ask", "conversation/setOption", "conversation/subscribe",
"conversation/unsubscribe", "approval/list", "approval/respond", "input/respond", "changes/list",
"changes/diff", "changes/keep", "changes/undo", "changes/apply", "changes/discard",
"checkpoint/list", "checkpoint/restore", "attachment/put", "output/read", "terminal/list",
"terminal/read", "terminal/write", "terminal/kill", "port/list", "port/open", "tool/list",
"agent/list", "context/search", "command/list", "skill/list", "model/list", "model/check",
"model/discover", "usage/read", "config/read", "config/validate", "secret/set", "secret/remove",
"secret/list", "mcp/list", "mcp/setEnabled", "mcp/restart", "mcp/authenticate", "daemon/status",
"workspace/setTrust"], "notifications": ["conversation/event", "conversation/delta",
"conversation/changed", "conversation/gap", "daemon/statusChanged", "mcp/statusChanged",
"port/changed"], "limits": {"maxMessageBytes": 16777216, "textPartBytes": 1048576,
"partsPerMessage": 64, "imageBytes": 5242880, "imagesPerMessage": 20, "attachmentBytes": 20971520,
"attachmentPieceBytes": 524288, "outputPreviewBytes": 32768, "outputKeptBytes": 104857600,
"eventsPerPage": 500, "conversationsPerPage": 100, "queuedMessages": 32, "syncedDocumentBytes":
5242880, "requestsInFlight": 64}%(more)s}}}, "serverInfo": {"name": "oh-daemon", "version":
"1.0.0"}}
""".replace("\n", " ")
