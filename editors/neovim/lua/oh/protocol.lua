-- luacheck: no max line length
-- What crosses the wire; written by `make schema`, explained in protocol.md.

---@alias oh.protocol.Part oh.protocol.TextPart | oh.protocol.ImagePart | oh.protocol.DocumentPart | oh.protocol.ResourceLinkPart | oh.protocol.ResourcePart | oh.protocol.SelectionPart | oh.protocol.DiagnosticsPart | oh.protocol.CommandPart | oh.protocol.SkillPart

---@alias oh.protocol.ConversationState "idle" | "running" | "waiting" | "pausing" | "paused" | "interrupting" | "error" | "finished" | "closed"

---@alias oh.protocol.PauseReason "user" | "budget" | "network" | "rateLimit" | "storage" | "daemonRestarted" | "stuck"

---@alias oh.protocol.Isolation "overlay" | "worktree"

---@alias oh.protocol.Risk "low" | "medium" | "high" | "unknown"

---@alias oh.protocol.ItemStatus "pending" | "awaitingApproval" | "running" | "completed" | "failed" | "rejected" | "cancelled"

---@alias oh.protocol.ToolKind "read" | "edit" | "delete" | "move" | "search" | "execute" | "think" | "fetch" | "other"

---@alias oh.protocol.Delivery "auto" | "queue" | "steer" | "interrupt"

---@alias oh.protocol.Purpose "condensation" | "title" | "ask" | "subagent"

---@alias oh.protocol.TurnCause "message" | "resume" | "condense" | "apply"

---@alias oh.protocol.StopReason "endTurn" | "finished" | "maxTokens" | "maxSteps" | "maxCostUsd" | "maxCostUsdPerConversation" | "maxCostUsdPerDay" | "maxMinutes" | "refusal" | "cancelled" | "noAnswer" | "toolErrors" | "stuck" | "hook" | "needsInput" | "error"

---@alias oh.protocol.Scope "once" | "turn" | "conversation" | "edits" | "folder" | "server" | "user"

---@alias oh.protocol.ToolItem oh.protocol.ToolCallItem | oh.protocol.CommandItem | oh.protocol.FileChangeItem | oh.protocol.PlanItem

---@alias oh.protocol.Item oh.protocol.UserMessageItem | oh.protocol.AgentMessageItem | oh.protocol.ReasoningItem | oh.protocol.ToolCallItem | oh.protocol.CommandItem | oh.protocol.FileChangeItem | oh.protocol.PlanItem | oh.protocol.SubagentItem | oh.protocol.NoticeItem | oh.protocol.CondensationItem

---@alias oh.protocol.RuleCode "askAlways" | "autoEdit" | "edited" | "gate" | "hook" | "lowRisk" | "neverAsks" | "outsideSandbox" | "planMode" | "protectedPlace" | "risk" | "ruling" | "sandbox" | "touchesNothing"

---@alias oh.protocol.Subject oh.protocol.CommandSubject | oh.protocol.FileChangeSubject | oh.protocol.ToolSubject | oh.protocol.PathSubject | oh.protocol.TrustSubject | oh.protocol.SaveDocumentsSubject | oh.protocol.HostSubject

---@alias oh.protocol.InputAction "accept" | "decline" | "cancel"

---@alias oh.protocol.StuckPattern "wrongCalls" | "identicalCalls" | "sameError" | "alternatingCalls" | "monologue"

---@alias oh.protocol.KnownEvent oh.protocol.ConversationCreated | oh.protocol.AgentChanged | oh.protocol.ConversationUpdated | oh.protocol.ConversationClosed | oh.protocol.StatusChanged | oh.protocol.MessageQueued | oh.protocol.MessageEdited | oh.protocol.MessageDequeued | oh.protocol.MessageRefused | oh.protocol.TurnStarted | oh.protocol.TurnPaused | oh.protocol.TurnResumed | oh.protocol.TurnCompleted | oh.protocol.PauseRequested | oh.protocol.InterruptRequested | oh.protocol.CondensationRequested | oh.protocol.ItemStarted | oh.protocol.ItemUpdated | oh.protocol.ItemCompleted | oh.protocol.ApprovalRequested | oh.protocol.ApprovalResolved | oh.protocol.InputRequested | oh.protocol.InputResolved | oh.protocol.ActionDecided | oh.protocol.ChangesPlanned | oh.protocol.ChangesUpdated | oh.protocol.ChangesReviewed | oh.protocol.CheckpointCreated | oh.protocol.ConversationRolledBack | oh.protocol.UsageUpdated | oh.protocol.OptionsChanged | oh.protocol.RetryScheduled | oh.protocol.ErrorRaised | oh.protocol.Notice | oh.protocol.StuckDetected

---@alias oh.protocol.Event oh.protocol.KnownEvent

---@alias oh.protocol.SandboxSetting "auto" | "overlay" | "landlock" | "off"

---@alias oh.protocol.Trust "full" | "readOnly" | "none"

---@alias oh.protocol.ContextKind "file" | "folder" | "symbol" | "conversation" | "changes" | "page" | "command" | "skill"

---@alias oh.protocol.SkillKind "agent" | "keyword" | "task" | "path" | "always"

---@alias oh.protocol.SkillSource "project" | "user"

---@alias oh.protocol.McpStatus "disabled" | "starting" | "running" | "authRequired" | "failed"

--- Create a conversation, subscribe to it and, with `content`, start its first turn.
---@class (exact) oh.protocol.StartParams
---@field folders? string[]
---@field title? string
---@field options? table<string, string>
---@field content? oh.protocol.Part[]
---@field clientMessageId? string
---@field tools? oh.protocol.ToolFilter
---@field clientTools? oh.protocol.ClientTool[]
---@field resultSchema? table<string, any>
---@field instructions? string
---@field maxSteps? integer
---@field maxCostUsd? number
---@field isolated? boolean
---@field ephemeral? boolean
---@field metadata? table<string, any>
---@field clientRequestId? string

---@class (exact) oh.protocol.TextPart
---@field type "text"
---@field text string

--- An image, given by one of three fields; in the log it has `data` or `outputRef`.
---@class (exact) oh.protocol.ImagePart
---@field type "image"
---@field mimeType string
---@field data? string
---@field attachmentId? string
---@field outputRef? string

--- A PDF, given by one of three fields; in the log it has `data` or `outputRef`.
---@class (exact) oh.protocol.DocumentPart
---@field type "document"
---@field mimeType "application/pdf"
---@field name? string
---@field data? string
---@field attachmentId? string
---@field outputRef? string

--- A file or conversation that the user refers to; the agent reads a file when it needs it.
---@class (exact) oh.protocol.ResourceLinkPart
---@field type "resourceLink"
---@field uri string
---@field name? string
---@field range? oh.protocol.Range
---@field text? string
---@field fetch? boolean

---@class (exact) oh.protocol.Range
---@field start oh.protocol.Position
---@field end oh.protocol.Position

--- A place in a text; `character` counts code units of the negotiated position encoding.
---@class (exact) oh.protocol.Position
---@field line integer
---@field character integer

--- A text given in full, for instance a web page or an email.
---@class (exact) oh.protocol.ResourcePart
---@field type "resource"
---@field uri string
---@field mimeType? string
---@field text string

--- The text that the user has selected in an editor, as the editor shows it.
---@class (exact) oh.protocol.SelectionPart
---@field type "selection"
---@field uri string
---@field range oh.protocol.Range
---@field text string
---@field version? integer

--- Problems of one document, in LSP's form.
---@class (exact) oh.protocol.DiagnosticsPart
---@field type "diagnostics"
---@field uri string
---@field items table<string, any>[]

--- A command by its name, from `command/list`, with the text that the user wrote after it.
---@class (exact) oh.protocol.CommandPart
---@field type "command"
---@field name string
---@field args? string
---@field prompt? string

--- A skill by its name, from `skill/list`, with the text that the user wrote after it.
---@class (exact) oh.protocol.SkillPart
---@field type "skill"
---@field name string
---@field args? string
---@field prompt? string

--- Tool names, in which `*` matches anything. Without `allow`, all are offered; `deny` wins.
---@class (exact) oh.protocol.ToolFilter
---@field allow? string[]
---@field deny? string[]

--- One tool, in MCP's form.
---@class (exact) oh.protocol.ClientTool
---@field name string
---@field description? string
---@field inputSchema? table<string, any>
---@field annotations? table<string, any>
---@field timeoutS? number

--- Open a conversation from its log, repair it after a crash, and subscribe to it.
---@class (exact) oh.protocol.OpenParams
---@field conversationId string
---@field afterSeq? integer
---@field replay? "none" | "items" | "events"
---@field limit? integer
---@field clientTools? oh.protocol.ClientTool[]

--- End the conversation's worker and unlock its log; the log is kept.
---@class (exact) oh.protocol.CloseParams
---@field conversationId string
---@field ifRunning? "error" | "interrupt" | "pause"

--- Rename, tag or archive a conversation, open or not.
---@class (exact) oh.protocol.UpdateParams
---@field conversationId string
---@field title? string
---@field archived? boolean
---@field tags? string[]
---@field metadata? table<string, any>

--- Move the conversation's log to the trash, or remove it permanently.
---@class (exact) oh.protocol.DeleteParams
---@field conversationId string
---@field permanent? boolean

--- List the conversations of the open folders, or of one folder.
---@class (exact) oh.protocol.ListParams
---@field folder? string
---@field query? string
---@field texts? boolean
---@field archived? boolean
---@field parentId? string
---@field cursor? string
---@field limit? integer

--- Read items of a conversation without opening or locking it.
---@class (exact) oh.protocol.ReadParams
---@field conversationId string
---@field before? string
---@field limit? integer

--- Read a page of records as they are in the log.
---@class (exact) oh.protocol.EventsParams
---@field conversationId string
---@field afterSeq? integer
---@field beforeSeq? integer
---@field limit? integer
---@field types? string[]

--- Export a whole conversation as one text, without opening or locking it.
---@class (exact) oh.protocol.ExportParams
---@field conversationId string
---@field format? "jsonl" | "markdown" | "html" | "atif"

--- Start a new conversation with the first part of this one, which does not change.
---@class (exact) oh.protocol.ForkParams
---@field conversationId string
---@field atItemId? string
---@field title? string

--- Go back to before a message: it and everything after it no longer count.
---@class (exact) oh.protocol.RollbackParams
---@field conversationId string
---@field toItemId string
---@field files? "keep" | "restore"
---@field dryRun? boolean

--- Send a message: start a turn, steer the running one, queue, or interrupt and start.
---@class (exact) oh.protocol.SendMessageParams
---@field conversationId string
---@field clientRequestId? string
---@field content oh.protocol.Part[]
---@field overrides? oh.protocol.Overrides
---@field delivery? oh.protocol.Delivery
---@field clientMessageId? string
---@field expectedTurnId? string
---@field run? boolean
---@field wait? "accepted" | "completed"

---@class (exact) oh.protocol.Overrides
---@field options? table<string, string>

--- Pause the turn after the current step, or now.
---@class (exact) oh.protocol.PauseParams
---@field conversationId string
---@field clientRequestId? string
---@field when? "step" | "now"

--- Resume the paused turn, or continue after a turn that ended early.
---@class (exact) oh.protocol.ResumeParams
---@field conversationId string
---@field clientRequestId? string
---@field message? oh.protocol.Part[]

--- End the turn now, with its model call, any waiting, and the processes of its tools.
---@class (exact) oh.protocol.InterruptParams
---@field conversationId string
---@field turnId? string
---@field clearQueue? boolean

--- Replace older steps by a summary now, in the open turn or in a turn of its own.
---@class (exact) oh.protocol.CondenseParams
---@field conversationId string
---@field clientRequestId? string
---@field instructions? string

--- List, edit, remove or move waiting messages, or deliver one now.
---@class (exact) oh.protocol.QueueParams
---@field conversationId string
---@field op? "list" | "edit" | "remove" | "move" | "sendNow"
---@field messageId? string
---@field content? oh.protocol.Part[]
---@field position? integer

--- Ask the model about the conversation, leaving no trace in it except the cost.
---@class (exact) oh.protocol.AskParams
---@field conversationId string
---@field question string

--- Set the mode, approval policy, model or effort, from the next step on.
---@class (exact) oh.protocol.SetOptionParams
---@field conversationId string
---@field clientRequestId? string
---@field optionId string
---@field value string

--- Receive the events of an open conversation from now on.
---@class (exact) oh.protocol.SubscribeParams
---@field conversationId string

--- Receive no more events of this conversation.
---@class (exact) oh.protocol.UnsubscribeParams
---@field conversationId string

--- List the pending approvals.
---@class (exact) oh.protocol.ApprovalListParams
---@field conversationId? string

--- Allow or reject an action; the digest must be echoed, and the first answer wins.
---@class (exact) oh.protocol.ApprovalRespondParams
---@field approvalId string
---@field digest string
---@field optionId? string
---@field decision? oh.protocol.Decision
---@field feedback? string
---@field editedSubject? oh.protocol.Subject

---@class (exact) oh.protocol.Decision
---@field effect "allow" | "reject"
---@field scope? oh.protocol.Scope

---@class (exact) oh.protocol.CommandSubject
---@field kind "command"
---@field command string
---@field cwd string
---@field outside? string
---@field files? oh.protocol.ProgramFile[]
---@field runsOtherFiles? boolean

--- A file that a command runs: a program, or the script of an interpreter.
---@class (exact) oh.protocol.ProgramFile
---@field uri string
---@field sha256 string

---@class (exact) oh.protocol.FileChangeSubject
---@field kind "fileChange"
---@field changes oh.protocol.FileChange[]
---@field hunks? oh.protocol.NamedHunk[]
---@field origin? "command"
---@field git? oh.protocol.GitChange[]

--- One file before and after a change; the texts themselves are stored as blobs, by hash.
---@class (exact) oh.protocol.FileChange
---@field uri string
---@field op "add" | "modify" | "delete"
---@field added integer
---@field removed integer
---@field patch? string
---@field sha256Before? string
---@field sha256After? string
---@field unsaved? boolean
---@field form? oh.protocol.FileForm
---@field raw? "bytes" | "link" | "folder"
---@field modeBefore? integer
---@field modeAfter? integer

--- How a text is stored on disk.
---@class (exact) oh.protocol.FileForm
---@field encoding? string
---@field bom? boolean
---@field mode? integer

--- A hunk together with the file that it is in.
---@class (exact) oh.protocol.NamedHunk
---@field oldStart integer
---@field oldLines integer
---@field newStart integer
---@field newLines integer
---@field uri string

--- A branch, a tag, the stash, HEAD, or what is staged, of one repository.
---@class (exact) oh.protocol.GitChange
---@field repository string
---@field title string
---@field ref? string
---@field before? string
---@field after? string

---@class (exact) oh.protocol.ToolSubject
---@field kind "tool"
---@field tool string
---@field args table<string, any>
---@field definition? string

---@class (exact) oh.protocol.PathSubject
---@field kind "path"
---@field uri string
---@field access "read" | "write"

--- A folder that is not trusted yet or, if `isTrusted`, what is new in one that is.
---@class (exact) oh.protocol.TrustSubject
---@field kind "trust"
---@field folder string
---@field runs? oh.protocol.ProjectProgram[]
---@field isTrusted? boolean

--- Something that a trusted folder runs without asking.
---@class (exact) oh.protocol.ProjectProgram
---@field kind "hook" | "skillCommand" | "server"
---@field command string
---@field uri string
---@field sha256 string
---@field runsOtherFiles? boolean

--- Buffers that the agent edited; a command does not see the edits until they are saved.
---@class (exact) oh.protocol.SaveDocumentsSubject
---@field kind "saveDocuments"
---@field uris string[]

--- A host that programs in the sandbox may connect to, or a group of hosts.
---@class (exact) oh.protocol.HostSubject
---@field kind "host"
---@field host string
---@field port integer
---@field isPrivate? boolean
---@field group? string
---@field hosts? string[]

--- Answer a question of the agent; the first answer wins.
---@class (exact) oh.protocol.InputRespondParams
---@field inputId string
---@field action oh.protocol.InputAction
---@field content? string

--- List the files that the agent changed, with the changes that wait for review.
---@class (exact) oh.protocol.ChangesListParams
---@field conversationId string
---@field turnId? string

--- Show the changes to a file that wait for review, with their hunks.
---@class (exact) oh.protocol.ChangesDiffParams
---@field conversationId string
---@field uri string
---@field turnId? string

--- Keep changes, which ends their review; the conversation is not isolated.
---@class (exact) oh.protocol.KeepParams
---@field conversationId string
---@field uris? string[]
---@field hunks? oh.protocol.NamedHunk[]

--- Undo changes through the editor, leaving later changes of the user in place.
---@class (exact) oh.protocol.UndoParams
---@field conversationId string
---@field uris? string[]
---@field hunks? oh.protocol.NamedHunk[]

--- Apply changes of an isolated conversation to its folders, merged with the user's own.
---@class (exact) oh.protocol.ApplyParams
---@field conversationId string
---@field uris? string[]
---@field hunks? oh.protocol.NamedHunk[]

--- Discard changes of an isolated conversation: it sees the files of its folders again.
---@class (exact) oh.protocol.DiscardParams
---@field conversationId string
---@field uris? string[]
---@field hunks? oh.protocol.NamedHunk[]

--- List the points just before the agent changed files, oldest first.
---@class (exact) oh.protocol.CheckpointListParams
---@field conversationId string

--- Undo the agent's changes to files since a checkpoint; the model is told.
---@class (exact) oh.protocol.CheckpointRestoreParams
---@field conversationId string
---@field checkpointId string
---@field dryRun? boolean

--- Upload an image or a PDF in pieces, to be used in a message; kept until the daemon exits.
---@class (exact) oh.protocol.AttachmentPutParams
---@field attachmentId? string
---@field mimeType string
---@field index integer
---@field total integer
---@field data string
---@field sha256? string

--- Read more of an output of which the item only shows the beginning and the end.
---@class (exact) oh.protocol.OutputReadParams
---@field conversationId string
---@field outputRef string
---@field offset? integer
---@field limit? integer
---@field encoding? "utf-8" | "base64"

--- List the agent's terminals; there are none while the conversation is not open.
---@class (exact) oh.protocol.TerminalListParams
---@field conversationId string

--- Read what a terminal showed, as text; at least the last MiB is kept.
---@class (exact) oh.protocol.TerminalReadParams
---@field conversationId string
---@field terminalId string
---@field offset? integer
---@field limit? integer

--- Type into the program that runs in a terminal; the agent is told.
---@class (exact) oh.protocol.TerminalWriteParams
---@field conversationId string
---@field terminalId string
---@field data string

--- End everything that runs in a terminal, background jobs included; its shell stays.
---@class (exact) oh.protocol.TerminalKillParams
---@field conversationId string
---@field terminalId string

--- List the ports on which the conversation's commands listen in the sandbox.
---@class (exact) oh.protocol.PortListParams
---@field conversationId string

--- Let the user reach a port of the sandbox; that ends with what listens there.
---@class (exact) oh.protocol.PortOpenParams
---@field conversationId string
---@field port integer

--- List the tools that the agent is offered.
---@class (exact) oh.protocol.ToolListParams
---@field conversationId? string

--- List the agents to delegate to, for a conversation, a folder or the open folders.
---@class (exact) oh.protocol.AgentListParams
---@field conversationId? string
---@field folder? string

--- Find what a message can mention, by a few letters of its name.
---@class (exact) oh.protocol.ContextSearchParams
---@field query string
---@field kinds? oh.protocol.ContextKind[]
---@field limit? integer
---@field conversationId? string

--- List the commands that a message can contain as a part of type `command`.
---@class (exact) oh.protocol.CommandListParams
---@field conversationId? string

--- List the skills of the project and the user; one that is not used says why.
---@class (exact) oh.protocol.SkillListParams
---@field conversationId? string
---@field folder? string

--- List the models that can be chosen by name.
---@class (exact) oh.protocol.ModelListParams

--- Ask a model for one word, which tells whether its key and address are right.
---@class (exact) oh.protocol.ModelCheckParams
---@field model? string
---@field baseUrl? string

--- List the models that a server offers which speaks OpenAI's API, such as Ollama.
---@class (exact) oh.protocol.ModelDiscoverParams
---@field baseUrl string

--- Sum the tokens and costs of one conversation, or of all in the open folders.
---@class (exact) oh.protocol.UsageReadParams
---@field conversationId? string
---@field since? string

--- Read the settings in force, and the source of each.
---@class (exact) oh.protocol.ConfigReadParams
---@field section? string

--- Check settings that are not in force yet, and report their problems.
---@class (exact) oh.protocol.ConfigValidateParams
---@field settings table<string, any>
---@field source? "client" | "project" | "user"

--- Lend the daemon a key, or a secret for commands, from the editor's store until it exits.
---@class (exact) oh.protocol.SecretSetParams
---@field name string
---@field value string
---@field forCommands? boolean

--- Forget a key or a secret; its value is still masked everywhere.
---@class (exact) oh.protocol.SecretRemoveParams
---@field name string

--- List the names of the keys and secrets that the editor has exposed.
---@class (exact) oh.protocol.SecretListParams

--- List MCP servers of the settings, skills in use and the browser, each with its state.
---@class (exact) oh.protocol.McpListParams

--- Start or stop a server; the settings do not change.
---@class (exact) oh.protocol.McpSetEnabledParams
---@field server string
---@field enabled boolean

--- Restart a server and accept its tools as they are now.
---@class (exact) oh.protocol.McpRestartParams
---@field server string

--- Sign in to a server with a `url`; an earlier sign-in is forgotten.
---@class (exact) oh.protocol.McpAuthenticateParams
---@field server string

--- Read the state of the daemon: its load, and warnings.
---@class (exact) oh.protocol.DaemonStatusParams

--- Set what agents may do in a folder.
---@class (exact) oh.protocol.SetTrustParams
---@field folder string
---@field trusted oh.protocol.Trust

--- Report everything that the user now sees; the agent is told with the next message.
---@class (exact) oh.protocol.ContextChangedParams
---@field activeUri? string
---@field selection? oh.protocol.ShownSelection
---@field visibleRanges? oh.protocol.Range[]
---@field openUris? string[]
---@field diagnosticsSummary? oh.protocol.ProblemCounts

--- The selection in the active document; an empty range is the cursor.
---@class (exact) oh.protocol.ShownSelection
---@field uri string
---@field range oh.protocol.Range
---@field text? string

---@class (exact) oh.protocol.ProblemCounts
---@field errors? integer
---@field warnings? integer

--- Says how a `model/complete` under way goes on.
---@class (exact) oh.protocol.ModelProgressParams
---@field callId string
---@field delta? oh.protocol.ModelDeltaPart
---@field retry? oh.protocol.ModelRetryPart

---@class (exact) oh.protocol.ModelDeltaPart
---@field channel "text" | "reasoning"
---@field text string

--- Another attempt is coming; all deltas so far are void.
---@class (exact) oh.protocol.ModelRetryPart
---@field attempt integer
---@field maxAttempts integer
---@field delayS number
---@field error table<string, any>
---@field model? string

--- What the client says of itself: `ohDaemon` in `initializationOptions`.
---@class (exact) oh.protocol.ClientBlock
---@field protocolVersion? oh.protocol.ProtocolVersion
---@field client? oh.protocol.ClientInfo
---@field features? oh.protocol.Features
---@field events? oh.protocol.EventChoice
---@field trust? oh.protocol.FolderVerdict[]
---@field settings? table<string, any>
---@field models? oh.protocol.ModelOffer
---@field plain? boolean
---@field experimental? string[]

--- A version of this protocol.
---@class (exact) oh.protocol.ProtocolVersion
---@field major integer
---@field minor? integer

--- Who the client is.
---@class (exact) oh.protocol.ClientInfo
---@field name? string
---@field kind? "panel" | "buffer" | "script" | "unattended"

--- The requests that the client answers; one that is missing counts as `false`.
---@class (exact) oh.protocol.Features
---@field applyEdit2? boolean
---@field saveDocument? boolean
---@field readDocument? boolean
---@field diagnostics? boolean
---@field languageRequests? boolean
---@field openDiff? boolean
---@field approvalRequests? boolean
---@field inputRequests? boolean
---@field modelRequests? boolean

--- What the client does not want to receive.
---@class (exact) oh.protocol.EventChoice
---@field deltas? boolean
---@field optOut? string[]

--- Whether the editor trusts a folder, for this connection.
---@class (exact) oh.protocol.FolderVerdict
---@field folder string
---@field trusted? boolean

--- All models that the client can reach, as `models` in the block of `initialize`.
---@class (exact) oh.protocol.ModelOffer
---@field default? string
---@field listed? oh.protocol.OfferedModel[]

--- A model that the client can reach.
---@class (exact) oh.protocol.OfferedModel
---@field id string
---@field label string
---@field kind? "model" | "profile" | "router"
---@field contextWindow? integer
---@field available boolean
---@field reason? string
---@field efforts? string[]
---@field editsByPatch? boolean

---@class (exact) oh.protocol.ApplyEditResult
---@field applied boolean
---@field saved? boolean
---@field failureReason? string

---@class (exact) oh.protocol.ReadDocumentResult
---@field text string
---@field version? integer

---@class (exact) oh.protocol.SaveDocumentResult
---@field saved? string[]

---@class (exact) oh.protocol.DiagnosticsResult
---@field items oh.protocol.DocumentDiagnostics[]
---@field loading? string[]

---@class (exact) oh.protocol.DocumentDiagnostics
---@field uri string
---@field diagnostics oh.protocol.Diagnostic[]

--- A problem in a document, in LSP's form.
---@class (exact) oh.protocol.Diagnostic
---@field range oh.protocol.Range
---@field message string
---@field severity? integer
---@field source? string
---@field code? integer | string

--- No fields.
---@class (exact) oh.protocol.Empty

--- LSP's result; with several servers, that of the first server that has one.
---@class (exact) oh.protocol.LanguageRequestResult
---@field result any

--- Without an option, nothing is decided: the approval stays pending.
---@class (exact) oh.protocol.ApprovalAnswer
---@field optionId? string
---@field feedback? string
---@field editedSubject? oh.protocol.Subject

--- Without an action, nothing is decided: the question stays open.
---@class (exact) oh.protocol.InputAnswer
---@field action? oh.protocol.InputAction
---@field content? string

--- A tool result in MCP's form.
---@class (exact) oh.protocol.ToolCallResult
---@field content? table<string, any>[]
---@field structuredContent? any
---@field isError? boolean

---@class (exact) oh.protocol.ModelDescribeResult
---@field contextWindow? integer
---@field mayBeWider? boolean
---@field seesImages? boolean
---@field readsPdfs? boolean
---@field caveats? oh.protocol.ModelCaveat[]
---@field inputPrice? number

---@class (exact) oh.protocol.ModelCaveat
---@field code "demoModel" | "noFunctionCalls" | "unknownPrice"
---@field title string
---@field description? string
---@field about? string

---@class (exact) oh.protocol.ModelCompleteResult
---@field text? string
---@field reasoning? string
---@field thinkingBlocks? table<string, any>[]
---@field toolCalls? oh.protocol.AnsweredCall[]
---@field finishReason? "stop" | "tool_calls" | "length" | "content_filter" | ""
---@field usage? oh.protocol.CallUsage
---@field responseId? string
---@field model? string

---@class (exact) oh.protocol.AnsweredCall
---@field id string
---@field name string
---@field arguments string

--- What a client says of one call, where each field may be missing.
---@class (exact) oh.protocol.CallUsage
---@field inputTokens? integer
---@field outputTokens? integer
---@field cacheReadTokens? integer
---@field cacheWriteTokens? integer
---@field reasoningTokens? integer
---@field cost? oh.protocol.Cost
---@field requests? integer

---@class (exact) oh.protocol.Cost
---@field amount number
---@field currency "USD"

---@class (exact) oh.protocol.StartResult
---@field conversation oh.protocol.ConversationInfo
---@field options oh.protocol.Option[]
---@field messageId? string
---@field turnId? string
---@field duplicate? boolean

--- A conversation at a glance.
---@class (exact) oh.protocol.ConversationInfo
---@field id string
---@field title string
---@field folders string[]
---@field status oh.protocol.ConversationState
---@field statusReason? oh.protocol.PauseReason
---@field model string
---@field modelLabel string
---@field createdAt string
---@field updatedAt string
---@field lastSeq integer
---@field epoch? string
---@field turnId? string
---@field messageCount integer
---@field fileCount? integer
---@field usage? oh.protocol.Usage
---@field context oh.protocol.ContextInfo
---@field options table<string, string>
---@field archived boolean
---@field tags string[]
---@field metadata table<string, any>
---@field queueLength integer
---@field pendingCount integer
---@field lock oh.protocol.LockInfo
---@field forkedFrom? oh.protocol.ForkOrigin
---@field parentId? string
---@field isolated? oh.protocol.Isolation

--- Tokens and cost of model calls. `cost` is absent when any call had no known price.
---@class (exact) oh.protocol.Usage
---@field inputTokens integer
---@field outputTokens integer
---@field cacheReadTokens integer
---@field cacheWriteTokens integer
---@field reasoningTokens integer
---@field cost? oh.protocol.Cost
---@field requests integer

--- How full the model's context is, in tokens; `size` is absent when unknown.
---@class (exact) oh.protocol.ContextInfo
---@field used integer
---@field size? integer

---@class (exact) oh.protocol.LockInfo
---@field mine boolean
---@field pid? integer

--- The conversation that another one was forked from, and the last event that both share.
---@class (exact) oh.protocol.ForkOrigin
---@field id string
---@field seq integer

--- A setting of one conversation that a client may show as a picker.
---@class (exact) oh.protocol.Option
---@field id string
---@field name string
---@field category "mode" | "approval" | "model" | "effort"
---@field type "select"
---@field value string
---@field choices oh.protocol.Choice[]

---@class (exact) oh.protocol.Choice
---@field value string
---@field label string

--- The conversation up to `lastSeq`; live events continue at `lastSeq + 1` after this answer.
---@class (exact) oh.protocol.OpenResult
---@field conversation oh.protocol.ConversationInfo
---@field options oh.protocol.Option[]
---@field items? oh.protocol.Item[]
---@field plan? oh.protocol.PlanItem
---@field events? oh.protocol.LogRecord[]
---@field firstSeq integer
---@field lastSeq integer
---@field hasMore boolean
---@field pending (oh.protocol.Approval | oh.protocol.InputRequest)[]
---@field queue oh.protocol.QueuedMessage[]
---@field repaired string[]

---@class (exact) oh.protocol.UserMessageItem
---@field id string
---@field status oh.protocol.ItemStatus
---@field reason? string
---@field startedAt? string
---@field endedAt? string
---@field kind "userMessage"
---@field messageId string
---@field clientMessageId? string
---@field content oh.protocol.Part[]
---@field delivery oh.protocol.Delivery
---@field editor? table<string, string>
---@field environment? table<string, string>

---@class (exact) oh.protocol.AgentMessageItem
---@field id string
---@field status oh.protocol.ItemStatus
---@field reason? string
---@field startedAt? string
---@field endedAt? string
---@field kind "agentMessage"
---@field messageId string
---@field text string
---@field batch? string

---@class (exact) oh.protocol.ReasoningItem
---@field id string
---@field status oh.protocol.ItemStatus
---@field reason? string
---@field startedAt? string
---@field endedAt? string
---@field kind "reasoning"
---@field text string
---@field batch? string
---@field blocks table<string, any>[]
---@field model? string

---@class (exact) oh.protocol.ToolCallItem
---@field id string
---@field status oh.protocol.ItemStatus
---@field reason? string
---@field startedAt? string
---@field endedAt? string
---@field tool string
---@field toolKind oh.protocol.ToolKind
---@field title string
---@field args table<string, any>
---@field risk oh.protocol.Risk
---@field selfRating? oh.protocol.Risk
---@field summary? string
---@field locations oh.protocol.Location[]
---@field content table<string, any>[]
---@field meta? table<string, any>
---@field outputRef? string
---@field durationMs? integer
---@field call oh.protocol.ModelCall
---@field kind "toolCall"

---@class (exact) oh.protocol.Location
---@field uri string
---@field range? oh.protocol.Range

--- The model's tool call, as it must be sent back to the model; clients ignore it.
---@class (exact) oh.protocol.ModelCall
---@field id string
---@field name string
---@field arguments string
---@field batch string

---@class (exact) oh.protocol.CommandItem
---@field id string
---@field status oh.protocol.ItemStatus
---@field reason? string
---@field startedAt? string
---@field endedAt? string
---@field tool string
---@field toolKind oh.protocol.ToolKind
---@field title string
---@field args table<string, any>
---@field risk oh.protocol.Risk
---@field selfRating? oh.protocol.Risk
---@field summary? string
---@field locations oh.protocol.Location[]
---@field content table<string, any>[]
---@field meta? table<string, any>
---@field outputRef? string
---@field durationMs? integer
---@field call oh.protocol.ModelCall
---@field kind "command"
---@field command string
---@field cwd string
---@field terminalId string
---@field exitCode? integer
---@field signal? integer
---@field truncated? boolean
---@field changes? oh.protocol.FileChange[]
---@field git? oh.protocol.GitChange[]

---@class (exact) oh.protocol.FileChangeItem
---@field id string
---@field status oh.protocol.ItemStatus
---@field reason? string
---@field startedAt? string
---@field endedAt? string
---@field tool string
---@field toolKind oh.protocol.ToolKind
---@field title string
---@field args table<string, any>
---@field risk oh.protocol.Risk
---@field selfRating? oh.protocol.Risk
---@field summary? string
---@field locations oh.protocol.Location[]
---@field content table<string, any>[]
---@field meta? table<string, any>
---@field outputRef? string
---@field durationMs? integer
---@field call oh.protocol.ModelCall
---@field kind "fileChange"
---@field changes oh.protocol.FileChange[]
---@field route? "editor" | "disk"
---@field undoLabel? string
---@field git? oh.protocol.GitChange[]
---@field origin? "command"

---@class (exact) oh.protocol.PlanItem
---@field id string
---@field status oh.protocol.ItemStatus
---@field reason? string
---@field startedAt? string
---@field endedAt? string
---@field tool string
---@field toolKind oh.protocol.ToolKind
---@field title string
---@field args table<string, any>
---@field risk oh.protocol.Risk
---@field selfRating? oh.protocol.Risk
---@field summary? string
---@field locations oh.protocol.Location[]
---@field content table<string, any>[]
---@field meta? table<string, any>
---@field outputRef? string
---@field durationMs? integer
---@field call oh.protocol.ModelCall
---@field kind "plan"
---@field entries oh.protocol.PlanEntry[]

---@class (exact) oh.protocol.PlanEntry
---@field id string
---@field text string
---@field status "pending" | "inProgress" | "completed"
---@field priority "high" | "medium" | "low"

--- A sub-agent; what it does is in the log of its own conversation.
---@class (exact) oh.protocol.SubagentItem
---@field id string
---@field status oh.protocol.ItemStatus
---@field reason? string
---@field startedAt? string
---@field endedAt? string
---@field kind "subagent"
---@field conversationId string
---@field agent string
---@field title string

---@class (exact) oh.protocol.NoticeItem
---@field id string
---@field status oh.protocol.ItemStatus
---@field reason? string
---@field startedAt? string
---@field endedAt? string
---@field kind "notice"
---@field severity "info" | "warning" | "error"
---@field code? string
---@field about? string
---@field title string
---@field description? string
---@field note? string
---@field skill? string
---@field skills? string[]
---@field environment? table<string, string>
---@field settles? string

--- From here on, the model gets `summary` in place of everything before `keepFrom`.
---@class (exact) oh.protocol.CondensationItem
---@field id string
---@field status oh.protocol.ItemStatus
---@field reason? string
---@field startedAt? string
---@field endedAt? string
---@field kind "condensation"
---@field keepFrom? string
---@field pruned string[]
---@field limits? table<string, integer>
---@field contextSize? integer
---@field summary? string
---@field tokensBefore integer
---@field tokensAfter integer

--- One line of the log.
---@class (exact) oh.protocol.LogRecord
---@field v 2
---@field seq integer
---@field ts string
---@field turnId? string
---@field itemId? string
---@field cause? oh.protocol.Cause
---@field event oh.protocol.Event

--- The client request that caused an event, kept so that a repeated request is recognised.
---@class (exact) oh.protocol.Cause
---@field method string
---@field clientRequestId string
---@field bodyHash string
---@field result table<string, any>

--- The first event: everything that later behaviour depends on or that a reader needs.
---@class (exact) oh.protocol.ConversationCreated
---@field type "conversation.created"
---@field title string
---@field folders string[]
---@field agent oh.protocol.AgentInfo
---@field options table<string, string>
---@field maxSteps integer
---@field maxCostUsd? number
---@field resultSchema? table<string, any>
---@field metadata table<string, any>
---@field forkedFrom? oh.protocol.ForkOrigin
---@field parentId? string
---@field isolated? oh.protocol.Isolation

--- The model, prompt and tools of a conversation, exactly as they are sent to the model.
---@class (exact) oh.protocol.AgentInfo
---@field model string
---@field label string
---@field systemPrompt string
---@field contextFiles? string[]
---@field skills? table<string, string>
---@field environment? table<string, string>
---@field tools table<string, any>[]

--- The conversation continues with another model, prompt or set of tools.
---@class (exact) oh.protocol.AgentChanged
---@field type "agent.changed"
---@field agent oh.protocol.AgentInfo

--- The title, tags, metadata or folders changed, or it was archived or unarchived.
---@class (exact) oh.protocol.ConversationUpdated
---@field type "conversation.updated"
---@field title? string
---@field archived? boolean
---@field tags? string[]
---@field metadata? table<string, any>
---@field folders? string[]

--- The conversation was closed cleanly by `conversation/close`; it can be opened again.
---@class (exact) oh.protocol.ConversationClosed
---@field type "conversation.closed"

--- The status changed; `reason` says why the conversation is paused.
---@class (exact) oh.protocol.StatusChanged
---@field type "status.changed"
---@field from oh.protocol.ConversationState
---@field to oh.protocol.ConversationState
---@field reason? oh.protocol.PauseReason

--- A message waits: for the next step if it steers, else for a turn of its own.
---@class (exact) oh.protocol.MessageQueued
---@field type "message.queued"
---@field message oh.protocol.QueuedMessage

---@class (exact) oh.protocol.QueuedMessage
---@field messageId string
---@field clientMessageId? string
---@field content oh.protocol.Part[]
---@field delivery oh.protocol.Delivery
---@field held? boolean
---@field options? table<string, string>
---@field createdAt string

--- The content, position or delivery of a waiting message changed.
---@class (exact) oh.protocol.MessageEdited
---@field type "message.edited"
---@field message oh.protocol.QueuedMessage
---@field position integer

--- A message left the queue: it starts a turn, steers the running one, or was removed.
---@class (exact) oh.protocol.MessageDequeued
---@field type "message.dequeued"
---@field messageId string
---@field outcome "started" | "steered" | "removed"

--- A hook refused the message that this item shows; the model never gets it.
---@class (exact) oh.protocol.MessageRefused
---@field type "message.refused"
---@field reason string

--- The agent starts to work on a message, a resume, a condensation, or what a job changed.
---@class (exact) oh.protocol.TurnStarted
---@field type "turn.started"
---@field cause oh.protocol.TurnCause
---@field options? table<string, string>

--- The turn is paused; `conversation/resume` or a message resumes it.
---@class (exact) oh.protocol.TurnPaused
---@field type "turn.paused"
---@field reason oh.protocol.PauseReason

--- The paused turn continues.
---@class (exact) oh.protocol.TurnResumed
---@field type "turn.resumed"

--- The turn ended; this is its last event.
---@class (exact) oh.protocol.TurnCompleted
---@field type "turn.completed"
---@field turn oh.protocol.Turn

--- The agent's work from a user message (or a resume) until it rests.
---@class (exact) oh.protocol.Turn
---@field id string
---@field status "running" | "completed" | "interrupted" | "paused" | "failed"
---@field stopReason? oh.protocol.StopReason
---@field startedAt string
---@field endedAt? string
---@field nSteps integer
---@field usage? oh.protocol.Usage
---@field error? oh.protocol.ErrorInfo
---@field finalText? string
---@field result? any

--- A failure as clients show it: what happened and what to do, never a traceback.
---@class (exact) oh.protocol.ErrorInfo
---@field code integer
---@field kind string
---@field message string
---@field retryable boolean
---@field hint? string

--- A client asked to pause, after the current step or now.
---@class (exact) oh.protocol.PauseRequested
---@field type "pause.requested"
---@field when "step" | "now"

--- A client asked to end the turn now.
---@class (exact) oh.protocol.InterruptRequested
---@field type "interrupt.requested"

--- A client asked to condense the part of the conversation that is sent to the model.
---@class (exact) oh.protocol.CondensationRequested
---@field type "condensation.requested"
---@field instructions? string

--- An item started. For a tool item, this is the action, logged durably before the tool runs.
---@class (exact) oh.protocol.ItemStarted
---@field type "item.started"
---@field item oh.protocol.Item

--- The status changed; the other fields are set if the user edited the action to allow it.
---@class (exact) oh.protocol.ItemUpdated
---@field type "item.updated"
---@field status oh.protocol.ItemStatus
---@field args? table<string, any>
---@field title? string
---@field command? string
---@field risk? oh.protocol.Risk
---@field summary? string

--- The item in its final state. For a tool item, this is the observation.
---@class (exact) oh.protocol.ItemCompleted
---@field type "item.completed"
---@field item oh.protocol.Item

--- An action is held until the user decides.
---@class (exact) oh.protocol.ApprovalRequested
---@field type "approval.requested"
---@field approval oh.protocol.Approval

--- An action held until the user decides, across restarts. `digest` covers all that is shown.
---@class (exact) oh.protocol.Approval
---@field id string
---@field digest string
---@field conversationId string
---@field turnId string
---@field itemId string
---@field title string
---@field description? string
---@field subject oh.protocol.Subject
---@field risk oh.protocol.Risk
---@field reason? string
---@field options oh.protocol.ApprovalOption[]
---@field editable boolean
---@field createdAt string

---@class (exact) oh.protocol.ApprovalOption
---@field id string
---@field label string
---@field effect "allow" | "reject"
---@field scope oh.protocol.Scope

--- An approval was decided, and by whom; `editedSubject` is what runs instead.
---@class (exact) oh.protocol.ApprovalResolved
---@field type "approval.resolved"
---@field approvalId string
---@field decision oh.protocol.Decision
---@field by "user" | "policy" | "superseded" | "interrupted" | "noClient" | "changed"
---@field feedback? string
---@field editedSubject? oh.protocol.Subject

--- The agent asks the user something and waits.
---@class (exact) oh.protocol.InputRequested
---@field type "input.requested"
---@field input oh.protocol.InputRequest

--- A question of the agent, kept until the user answers. The model wrote it: untrusted.
---@class (exact) oh.protocol.InputRequest
---@field id string
---@field conversationId string
---@field turnId string
---@field itemId string
---@field kind "text" | "choice"
---@field prompt string
---@field choices? string[]
---@field createdAt string

--- A question was answered, by a `message` if the user typed into the chat instead.
---@class (exact) oh.protocol.InputResolved
---@field type "input.resolved"
---@field inputId string
---@field action oh.protocol.InputAction
---@field content? string
---@field by "user" | "message" | "interrupted" | "changed"

--- An action was allowed or rejected without asking: the rule, and the action's digest.
---@class (exact) oh.protocol.ActionDecided
---@field type "action.decided"
---@field effect "allow" | "reject"
---@field code? oh.protocol.RuleCode
---@field rule string
---@field risk oh.protocol.Risk
---@field reasons string[]
---@field digest string

--- A command ended, and its changes wait to be applied to the open folders.
---@class (exact) oh.protocol.ChangesPlanned
---@field type "changes.planned"
---@field changes oh.protocol.FileChange[]
---@field omitted table<string, string>
---@field git oh.protocol.RepositoryChanges[]
---@field notes string[]
---@field refusals string[]
---@field itemFields table<string, any>

--- The pending changes to one repository, which are applied as a whole.
---@class (exact) oh.protocol.RepositoryChanges
---@field gitDir string
---@field workTree? string
---@field isNew? boolean
---@field refs oh.protocol.RefMove[]
---@field stash? oh.protocol.StashMove
---@field index? string
---@field pack? string
---@field ends string[]
---@field protectedNames string[]
---@field signing? oh.protocol.Signing
---@field unsigned? boolean
---@field conflict? string
---@field summary oh.protocol.GitChange[]

--- A branch, a tag or HEAD that moves, if it is still where it was.
---@class (exact) oh.protocol.RefMove
---@field ref string
---@field before? string
---@field after? string

--- All entries of the stash, the newest first.
---@class (exact) oh.protocol.StashMove
---@field before oh.protocol.StashEntry[]
---@field after oh.protocol.StashEntry[]

---@class (exact) oh.protocol.StashEntry
---@field commit string
---@field message string

--- The program and the key that sign new commits and tags, from the user's own settings.
---@class (exact) oh.protocol.Signing
---@field format "openpgp" | "ssh" | "x509"
---@field program string
---@field key string
---@field problem? string

--- All files that differ from before the turn, each with its first and last hash.
---@class (exact) oh.protocol.ChangesUpdated
---@field type "changes.updated"
---@field files oh.protocol.FileChange[]
---@field bySubagent? oh.protocol.FileChange[]

--- The user settled changes to a file; a hash is absent if there is no file.
---@class (exact) oh.protocol.ChangesReviewed
---@field type "changes.reviewed"
---@field uri string
---@field decision "kept" | "undone" | "applied" | "discarded"
---@field base? string
---@field now? string

--- A command or tool changed files; the store has the folders before and after it.
---@class (exact) oh.protocol.CheckpointCreated
---@field type "checkpoint.created"
---@field before table<string, string>
---@field after table<string, string>
---@field nFiles integer
---@field saved? table<string, string>
---@field changes? oh.protocol.FileChange[]

--- This item and all later ones no longer count, nor do the events after `toSeq`.
---@class (exact) oh.protocol.ConversationRolledBack
---@field type "conversation.rolledBack"
---@field toSeq integer
---@field toItemId string
---@field files "keep" | "restore"

--- Usage of one model call; the totals are sums of these.
---@class (exact) oh.protocol.UsageUpdated
---@field type "usage.updated"
---@field usage oh.protocol.Usage
---@field model string
---@field latencyMs integer
---@field contextUsed integer
---@field contextSize? integer
---@field purpose? oh.protocol.Purpose

--- The options that changed, with their values from the next step on.
---@class (exact) oh.protocol.OptionsChanged
---@field type "options.changed"
---@field values table<string, string>

--- A model call failed and is retried; deltas of the items in `dropItemIds` no longer count.
---@class (exact) oh.protocol.RetryScheduled
---@field type "retry.scheduled"
---@field attempt integer
---@field maxAttempts integer
---@field delayMs integer
---@field error oh.protocol.ErrorInfo
---@field dropItemIds string[]
---@field model? string

--- A failure that the turn could not recover from.
---@class (exact) oh.protocol.ErrorRaised
---@field type "error.raised"
---@field error oh.protocol.ErrorInfo

--- Something worth knowing, for instance that the log can be written again.
---@class (exact) oh.protocol.Notice
---@field type "notice"
---@field severity "info" | "warning" | "error"
---@field title string
---@field description? string

--- The agent repeats itself: it was told to try another way, or its turn was ended.
---@class (exact) oh.protocol.StuckDetected
---@field type "stuck.detected"
---@field pattern oh.protocol.StuckPattern
---@field outcome "nudged" | "stopped"

---@class (exact) oh.protocol.ConversationResult
---@field conversation oh.protocol.ConversationInfo

--- Newest first.
---@class (exact) oh.protocol.ListResult
---@field conversations oh.protocol.ConversationInfo[]
---@field matches? table<string, string>
---@field nextCursor? string

---@class (exact) oh.protocol.ReadResult
---@field conversation oh.protocol.ConversationInfo
---@field items oh.protocol.Item[]
---@field nextBefore? string

--- Records as they are in the log; `truncated` says that there are more in that direction.
---@class (exact) oh.protocol.EventsResult
---@field events oh.protocol.LogRecord[]
---@field firstSeq integer
---@field lastSeq integer
---@field epoch string
---@field truncated boolean

---@class (exact) oh.protocol.ExportResult
---@field text string

---@class (exact) oh.protocol.RollbackResult
---@field restored string[]
---@field conflicts oh.protocol.Conflict[]
---@field conversation oh.protocol.ConversationInfo

--- A file that was left unchanged, and why.
---@class (exact) oh.protocol.Conflict
---@field uri string
---@field reason string

---@class (exact) oh.protocol.SendMessageResult
---@field messageId string
---@field disposition "started" | "steered" | "queued" | "interruptedAndStarted"
---@field turnId? string
---@field queuePosition? integer
---@field turn? oh.protocol.Turn
---@field finalText? string
---@field duplicate? boolean

---@class (exact) oh.protocol.PauseResult
---@field status oh.protocol.ConversationState
---@field turnId string
---@field duplicate? boolean

---@class (exact) oh.protocol.ResumeResult
---@field turnId? string
---@field duplicate? boolean

--- Sent when the turn has really ended, or after 10 s with status `interrupting`.
---@class (exact) oh.protocol.InterruptResult
---@field turnId? string
---@field status oh.protocol.ConversationState | "interrupted"

---@class (exact) oh.protocol.CondenseResult
---@field turnId string
---@field duplicate? boolean

---@class (exact) oh.protocol.QueueResult
---@field queue oh.protocol.QueuedMessage[]

---@class (exact) oh.protocol.AskResult
---@field text string
---@field usage oh.protocol.Usage

---@class (exact) oh.protocol.SetOptionResult
---@field options oh.protocol.Option[]
---@field duplicate? boolean

---@class (exact) oh.protocol.SubscribeResult
---@field lastSeq integer

---@class (exact) oh.protocol.ApprovalListResult
---@field pending oh.protocol.Approval[]

--- Whether this answer to an approval or a question took effect, or which one came first.
---@class (exact) oh.protocol.RespondResult
---@field resolved boolean
---@field alreadyResolved? oh.protocol.EarlierAnswer
---@field needsResume? boolean

--- The answer that counts.
---@class (exact) oh.protocol.EarlierAnswer
---@field by "user" | "policy" | "message" | "superseded" | "interrupted" | "noClient" | "changed"
---@field decision? oh.protocol.Decision
---@field action? oh.protocol.InputAction

---@class (exact) oh.protocol.ChangesListResult
---@field files oh.protocol.ReviewedFile[]
---@field omitted? table<string, string>
---@field git? oh.protocol.GitChange[]

--- All pending changes to a file, as one change.
---@class (exact) oh.protocol.ReviewedFile
---@field uri string
---@field op "add" | "modify" | "delete"
---@field added integer
---@field removed integer
---@field patch? string
---@field sha256Before? string
---@field sha256After? string
---@field unsaved? boolean
---@field form? oh.protocol.FileForm
---@field raw? "bytes" | "link" | "folder"
---@field modeBefore? integer
---@field modeAfter? integer
---@field state "pending" | "kept" | "undone" | "applied" | "discarded" | "conflict"
---@field byCommand? boolean

--- Both texts use LF as line ending; a text is absent when there was no file.
---@class (exact) oh.protocol.ChangesDiffResult
---@field oldText? string
---@field newText? string
---@field patch string
---@field hunks oh.protocol.Hunk[]

--- Lines that differ, counted from 0; `old` is the accepted text, `new` the agent's.
---@class (exact) oh.protocol.Hunk
---@field oldStart integer
---@field oldLines integer
---@field newStart integer
---@field newLines integer

--- The files that were changed or settled, and those left unchanged, with the reason.
---@class (exact) oh.protocol.ReviewResult
---@field done string[]
---@field conflicts oh.protocol.Conflict[]

---@class (exact) oh.protocol.CheckpointListResult
---@field checkpoints oh.protocol.Checkpoint[]
---@field problem? string

---@class (exact) oh.protocol.Checkpoint
---@field id string
---@field createdAt string
---@field title string
---@field nFiles integer

--- URIs of the files that were restored or, with `dryRun`, would be; others do not change.
---@class (exact) oh.protocol.RestoreResult
---@field restored string[]
---@field conflicts oh.protocol.Conflict[]

---@class (exact) oh.protocol.AttachmentPutResult
---@field attachmentId string
---@field received integer
---@field complete boolean

--- Bytes `offset` to `nextOffset` of the whole output, as text.
---@class (exact) oh.protocol.OutputReadResult
---@field text string
---@field nextOffset integer
---@field total integer

---@class (exact) oh.protocol.TerminalListResult
---@field terminals oh.protocol.TerminalInfo[]

---@class (exact) oh.protocol.TerminalInfo
---@field terminalId string
---@field command? string
---@field cwd string
---@field running boolean
---@field exitCode? integer
---@field sizeBytes integer

---@class (exact) oh.protocol.TerminalReadResult
---@field data string
---@field nextOffset integer
---@field eof boolean

---@class (exact) oh.protocol.PortListResult
---@field ports oh.protocol.OpenPort[]

--- A port of the sandbox, which is not one of this machine.
---@class (exact) oh.protocol.OpenPort
---@field port integer
---@field address? string

---@class (exact) oh.protocol.PortOpenResult
---@field address string

---@class (exact) oh.protocol.ToolListResult
---@field tools oh.protocol.ToolInfo[]

---@class (exact) oh.protocol.ToolInfo
---@field name string
---@field description string
---@field inputSchema table<string, any>
---@field annotations table<string, any>

--- Sorted by name; a project's agent replaces a user's agent of the same name.
---@class (exact) oh.protocol.AgentListResult
---@field agents oh.protocol.AgentSummary[]

---@class (exact) oh.protocol.AgentSummary
---@field name string
---@field description string
---@field source "builtin" | "project" | "user"
---@field path? string

--- Best match first.
---@class (exact) oh.protocol.ContextSearchResult
---@field items oh.protocol.ContextItem[]

---@class (exact) oh.protocol.ContextItem
---@field kind oh.protocol.ContextKind
---@field label string
---@field detail? string
---@field part oh.protocol.Part

---@class (exact) oh.protocol.CommandListResult
---@field commands oh.protocol.CommandInfo[]

---@class (exact) oh.protocol.CommandInfo
---@field name string
---@field description string
---@field argumentHint? string

--- Nearest folder first.
---@class (exact) oh.protocol.SkillListResult
---@field skills oh.protocol.SkillInfo[]

---@class (exact) oh.protocol.SkillInfo
---@field name string
---@field description string
---@field kind oh.protocol.SkillKind
---@field source oh.protocol.SkillSource
---@field path string
---@field argumentHint? string
---@field problem? string

---@class (exact) oh.protocol.ModelListResult
---@field models oh.protocol.ModelInfo[]
---@field default? string

---@class (exact) oh.protocol.ModelInfo
---@field id string
---@field label string
---@field kind "model" | "profile" | "router"
---@field contextWindow? integer
---@field available boolean
---@field reason? string
---@field efforts? string[]

---@class (exact) oh.protocol.ModelCheckResult
---@field model string

---@class (exact) oh.protocol.ModelDiscoverResult
---@field baseUrl string
---@field models string[]

--- Sums over all calls, including titles and summaries, but not deleted conversations.
---@class (exact) oh.protocol.UsageReadResult
---@field usage oh.protocol.Usage
---@field byModel oh.protocol.ModelUsage[]
---@field byDay oh.protocol.DayUsage[]

---@class (exact) oh.protocol.ModelUsage
---@field model string
---@field usage oh.protocol.Usage

---@class (exact) oh.protocol.DayUsage
---@field day string
---@field usage oh.protocol.Usage

--- The settings in force; `sources` names the source of each. Keys are shown as `***`.
---@class (exact) oh.protocol.ConfigReadResult
---@field value table<string, any>
---@field sources table<string, string>
---@field problems string[]

---@class (exact) oh.protocol.ConfigValidateResult
---@field problems string[]

--- The names of exposed keys and secrets, never their values.
---@class (exact) oh.protocol.SecretNames
---@field names string[]
---@field forCommands string[]

--- All MCP servers with their current state, by name.
---@class (exact) oh.protocol.McpServers
---@field servers oh.protocol.McpServerInfo[]

--- The current state of one server.
---@class (exact) oh.protocol.McpServerInfo
---@field name string
---@field status oh.protocol.McpStatus
---@field tools string[]
---@field omitted string[]
---@field error? string

--- Where the user signs in; the server's status becomes `running` once they have.
---@class (exact) oh.protocol.McpAuthenticateResult
---@field url? string
---@field opened boolean
---@field servers oh.protocol.McpServerInfo[]

---@class (exact) oh.protocol.DaemonStatusResult
---@field version string
---@field pid integer
---@field uptimeS number
---@field rssBytes integer
---@field conversations oh.protocol.ConversationLoad[]
---@field writerQueueBytes integer
---@field sandbox oh.protocol.SandboxInfo
---@field warnings string[]

---@class (exact) oh.protocol.ConversationLoad
---@field id string
---@field status oh.protocol.ConversationState

--- What holds the commands that run unasked, as `initialize` reports it, too.
---@class (exact) oh.protocol.SandboxInfo
---@field level "overlay" | "landlock" | "off"
---@field setting oh.protocol.SandboxSetting
---@field cause? string
---@field cure? string

---@class (exact) oh.protocol.SetTrustResult
---@field folders oh.protocol.FolderTrust[]

---@class (exact) oh.protocol.FolderTrust
---@field folder string
---@field trusted oh.protocol.Trust

--- A durable event: a record of the log, byte for byte, with two more fields in front.
---@class (exact) oh.protocol.EventParams
---@field v 2
---@field seq integer
---@field ts string
---@field turnId? string
---@field itemId? string
---@field cause? oh.protocol.Cause
---@field event oh.protocol.Event
---@field conversationId string
---@field epoch string

--- A piece of streamed text; the log has the whole text once the item has ended.
---@class (exact) oh.protocol.DeltaParams
---@field conversationId string
---@field turnId string
---@field itemId string
---@field channel "text" | "reasoning" | "output"
---@field offset integer
---@field text string

--- A conversation was created, updated or deleted; for lists of conversations.
---@class (exact) oh.protocol.ChangedParams
---@field conversation oh.protocol.ConversationInfo
---@field change "created" | "updated" | "deleted"

--- This client was too slow and missed events; `conversation/events` has them.
---@class (exact) oh.protocol.GapParams
---@field conversationId string
---@field fromSeq integer
---@field toSeq integer

--- Something that the user should know about the daemon itself.
---@class (exact) oh.protocol.DaemonStatusChangedParams
---@field kind "normal" | "warning" | "error"
---@field message string
---@field conversationId? string
---@field error? oh.protocol.ErrorInfo

--- All ports on which the conversation's commands listen in the sandbox.
---@class (exact) oh.protocol.PortChangedParams
---@field conversationId string
---@field ports oh.protocol.OpenPort[]

--- Apply an edit as one undo step; feature `applyEdit2`, else `workspace/applyEdit`.
---@class (exact) oh.protocol.ApplyEditParams
---@field label string
---@field edit table<string, any>
---@field save "ifWasClean" | "never"

--- Return a document's text, asked when the daemon lost track of it; feature `readDocument`.
---@class (exact) oh.protocol.ReadDocumentParams
---@field uri string

--- Save documents; feature `saveDocument`, else the agent is told that they are unsaved.
---@class (exact) oh.protocol.SaveDocumentParams
---@field uris string[]

--- Return the diagnostics of `uris`, or all that are known; feature `diagnostics`.
---@class (exact) oh.protocol.DiagnosticsParams
---@field uris? string[]
---@field minSeverity integer

--- Show a file's changes; feature `openDiff`, else `window/showDocument` of the patch.
---@class (exact) oh.protocol.OpenDiffParams
---@field conversationId string
---@field uri string
---@field oldUri string
---@field newUri string
---@field title string

--- Ask the user's language servers, with LSP's `params`; feature `languageRequests`.
---@class (exact) oh.protocol.LanguageRequestParams
---@field method "textDocument/definition" | "textDocument/references" | "textDocument/hover" | "textDocument/documentSymbol" | "textDocument/rename" | "workspace/symbol"
---@field params table<string, any>

--- Ask the user to approve an action; `approvalRequests`, else `window/showMessageRequest`.
---@class (exact) oh.protocol.ApprovalRequestParams
---@field id string
---@field digest string
---@field conversationId string
---@field turnId string
---@field itemId string
---@field title string
---@field description? string
---@field subject oh.protocol.Subject
---@field risk oh.protocol.Risk
---@field reason? string
---@field options oh.protocol.ApprovalOption[]
---@field editable boolean
---@field createdAt string

--- Ask the user a question; `inputRequests`, else `window/showMessageRequest` for choices.
---@class (exact) oh.protocol.InputRequestParams
---@field id string
---@field conversationId string
---@field turnId string
---@field itemId string
---@field kind "text" | "choice"
---@field prompt string
---@field choices? string[]
---@field createdAt string

--- Run a tool that this client provided in `clientTools`.
---@class (exact) oh.protocol.ToolCallParams
---@field conversationId string
---@field itemId string
---@field name string
---@field arguments table<string, any>

--- Say what is known of a model before it is called. Fallback: nothing is known.
---@class (exact) oh.protocol.ModelDescribeParams
---@field model string

--- Ask a model, with the client's key. Fallback: the call fails, and the turn pauses.
---@class (exact) oh.protocol.ModelCompleteParams
---@field callId string
---@field model string
---@field messages table<string, any>[]
---@field tools table<string, any>[]
---@field toolChoice "auto" | "required" | "none"
---@field cacheKey? string
---@field purpose? oh.protocol.Purpose

--- What the server says of itself: `ohDaemon` in `capabilities.experimental` of its answer.
---@class (exact) oh.protocol.ServerBlock
---@field protocolVersion oh.protocol.ProtocolVersion
---@field daemon oh.protocol.DaemonInfo
---@field methods string[]
---@field notifications string[]
---@field limits table<string, integer>
---@field sandbox? oh.protocol.SandboxInfo
---@field understood? oh.protocol.Understood
---@field experimental string[]

--- The process at the other end.
---@class (exact) oh.protocol.DaemonInfo
---@field name string
---@field version string
---@field pid integer

--- What the server has made of the client's block.
---@class (exact) oh.protocol.Understood
---@field features string[]
---@field unknown string[]

--- `error.data` of every error.
---@class (exact) oh.protocol.ErrorData
---@field kind string
---@field retryable boolean
---@field hint? string
---@field retryAfterMs? integer
---@field httpStatus? integer
---@field reference? string
---@field errors? oh.protocol.FieldError[]

--- What is wrong with one field.
---@class (exact) oh.protocol.FieldError
---@field path string
---@field code string
---@field message string

local M = {}

M.Requests = {
  ["conversation/start"] = true, -- oh.protocol.StartParams -> oh.protocol.StartResult
  ["conversation/open"] = true, -- oh.protocol.OpenParams -> oh.protocol.OpenResult
  ["conversation/close"] = true, -- oh.protocol.CloseParams -> oh.protocol.Empty
  ["conversation/update"] = true, -- oh.protocol.UpdateParams -> oh.protocol.ConversationResult
  ["conversation/delete"] = true, -- oh.protocol.DeleteParams -> oh.protocol.Empty
  ["conversation/list"] = true, -- oh.protocol.ListParams -> oh.protocol.ListResult
  ["conversation/read"] = true, -- oh.protocol.ReadParams -> oh.protocol.ReadResult
  ["conversation/events"] = true, -- oh.protocol.EventsParams -> oh.protocol.EventsResult
  ["conversation/export"] = true, -- oh.protocol.ExportParams -> oh.protocol.ExportResult
  ["conversation/fork"] = true, -- oh.protocol.ForkParams -> oh.protocol.ConversationResult
  ["conversation/rollback"] = true, -- oh.protocol.RollbackParams -> oh.protocol.RollbackResult
  ["conversation/sendMessage"] = true, -- oh.protocol.SendMessageParams -> oh.protocol.SendMessageResult
  ["conversation/pause"] = true, -- oh.protocol.PauseParams -> oh.protocol.PauseResult
  ["conversation/resume"] = true, -- oh.protocol.ResumeParams -> oh.protocol.ResumeResult
  ["conversation/interrupt"] = true, -- oh.protocol.InterruptParams -> oh.protocol.InterruptResult
  ["conversation/condense"] = true, -- oh.protocol.CondenseParams -> oh.protocol.CondenseResult
  ["conversation/queue"] = true, -- oh.protocol.QueueParams -> oh.protocol.QueueResult
  ["conversation/ask"] = true, -- oh.protocol.AskParams -> oh.protocol.AskResult
  ["conversation/setOption"] = true, -- oh.protocol.SetOptionParams -> oh.protocol.SetOptionResult
  ["conversation/subscribe"] = true, -- oh.protocol.SubscribeParams -> oh.protocol.SubscribeResult
  ["conversation/unsubscribe"] = true, -- oh.protocol.UnsubscribeParams -> oh.protocol.Empty
  ["approval/list"] = true, -- oh.protocol.ApprovalListParams -> oh.protocol.ApprovalListResult
  ["approval/respond"] = true, -- oh.protocol.ApprovalRespondParams -> oh.protocol.RespondResult
  ["input/respond"] = true, -- oh.protocol.InputRespondParams -> oh.protocol.RespondResult
  ["changes/list"] = true, -- oh.protocol.ChangesListParams -> oh.protocol.ChangesListResult
  ["changes/diff"] = true, -- oh.protocol.ChangesDiffParams -> oh.protocol.ChangesDiffResult
  ["changes/keep"] = true, -- oh.protocol.KeepParams -> oh.protocol.ReviewResult
  ["changes/undo"] = true, -- oh.protocol.UndoParams -> oh.protocol.ReviewResult
  ["changes/apply"] = true, -- oh.protocol.ApplyParams -> oh.protocol.ReviewResult
  ["changes/discard"] = true, -- oh.protocol.DiscardParams -> oh.protocol.ReviewResult
  ["checkpoint/list"] = true, -- oh.protocol.CheckpointListParams -> oh.protocol.CheckpointListResult
  ["checkpoint/restore"] = true, -- oh.protocol.CheckpointRestoreParams -> oh.protocol.RestoreResult
  ["attachment/put"] = true, -- oh.protocol.AttachmentPutParams -> oh.protocol.AttachmentPutResult
  ["output/read"] = true, -- oh.protocol.OutputReadParams -> oh.protocol.OutputReadResult
  ["terminal/list"] = true, -- oh.protocol.TerminalListParams -> oh.protocol.TerminalListResult
  ["terminal/read"] = true, -- oh.protocol.TerminalReadParams -> oh.protocol.TerminalReadResult
  ["terminal/write"] = true, -- oh.protocol.TerminalWriteParams -> oh.protocol.Empty
  ["terminal/kill"] = true, -- oh.protocol.TerminalKillParams -> oh.protocol.Empty
  ["port/list"] = true, -- oh.protocol.PortListParams -> oh.protocol.PortListResult
  ["port/open"] = true, -- oh.protocol.PortOpenParams -> oh.protocol.PortOpenResult
  ["tool/list"] = true, -- oh.protocol.ToolListParams -> oh.protocol.ToolListResult
  ["agent/list"] = true, -- oh.protocol.AgentListParams -> oh.protocol.AgentListResult
  ["context/search"] = true, -- oh.protocol.ContextSearchParams -> oh.protocol.ContextSearchResult
  ["command/list"] = true, -- oh.protocol.CommandListParams -> oh.protocol.CommandListResult
  ["skill/list"] = true, -- oh.protocol.SkillListParams -> oh.protocol.SkillListResult
  ["model/list"] = true, -- oh.protocol.ModelListParams -> oh.protocol.ModelListResult
  ["model/check"] = true, -- oh.protocol.ModelCheckParams -> oh.protocol.ModelCheckResult
  ["model/discover"] = true, -- oh.protocol.ModelDiscoverParams -> oh.protocol.ModelDiscoverResult
  ["usage/read"] = true, -- oh.protocol.UsageReadParams -> oh.protocol.UsageReadResult
  ["config/read"] = true, -- oh.protocol.ConfigReadParams -> oh.protocol.ConfigReadResult
  ["config/validate"] = true, -- oh.protocol.ConfigValidateParams -> oh.protocol.ConfigValidateResult
  ["secret/set"] = true, -- oh.protocol.SecretSetParams -> oh.protocol.SecretNames
  ["secret/remove"] = true, -- oh.protocol.SecretRemoveParams -> oh.protocol.SecretNames
  ["secret/list"] = true, -- oh.protocol.SecretListParams -> oh.protocol.SecretNames
  ["mcp/list"] = true, -- oh.protocol.McpListParams -> oh.protocol.McpServers
  ["mcp/setEnabled"] = true, -- oh.protocol.McpSetEnabledParams -> oh.protocol.McpServers
  ["mcp/restart"] = true, -- oh.protocol.McpRestartParams -> oh.protocol.McpServers
  ["mcp/authenticate"] = true, -- oh.protocol.McpAuthenticateParams -> oh.protocol.McpAuthenticateResult
  ["daemon/status"] = true, -- oh.protocol.DaemonStatusParams -> oh.protocol.DaemonStatusResult
  ["workspace/setTrust"] = true, -- oh.protocol.SetTrustParams -> oh.protocol.SetTrustResult
}

M.ClientNotifications = {
  ["editor/contextChanged"] = true, -- oh.protocol.ContextChangedParams
  ["model/progress"] = true, -- oh.protocol.ModelProgressParams
}

M.Notifications = {
  ["conversation/event"] = true, -- oh.protocol.EventParams
  ["conversation/delta"] = true, -- oh.protocol.DeltaParams
  ["conversation/changed"] = true, -- oh.protocol.ChangedParams
  ["conversation/gap"] = true, -- oh.protocol.GapParams
  ["daemon/statusChanged"] = true, -- oh.protocol.DaemonStatusChangedParams
  ["mcp/statusChanged"] = true, -- oh.protocol.McpServers
  ["port/changed"] = true, -- oh.protocol.PortChangedParams
}

M.ClientRequests = {
  ["editor/applyEdit"] = true, -- oh.protocol.ApplyEditParams -> oh.protocol.ApplyEditResult
  ["editor/readDocument"] = true, -- oh.protocol.ReadDocumentParams -> oh.protocol.ReadDocumentResult
  ["editor/saveDocument"] = true, -- oh.protocol.SaveDocumentParams -> oh.protocol.SaveDocumentResult
  ["editor/diagnostics"] = true, -- oh.protocol.DiagnosticsParams -> oh.protocol.DiagnosticsResult
  ["editor/openDiff"] = true, -- oh.protocol.OpenDiffParams -> oh.protocol.Empty
  ["editor/languageRequest"] = true, -- oh.protocol.LanguageRequestParams -> oh.protocol.LanguageRequestResult
  ["approval/request"] = true, -- oh.protocol.ApprovalRequestParams -> oh.protocol.ApprovalAnswer
  ["input/request"] = true, -- oh.protocol.InputRequestParams -> oh.protocol.InputAnswer
  ["tool/call"] = true, -- oh.protocol.ToolCallParams -> oh.protocol.ToolCallResult
  ["model/describe"] = true, -- oh.protocol.ModelDescribeParams -> oh.protocol.ModelDescribeResult
  ["model/complete"] = true, -- oh.protocol.ModelCompleteParams -> oh.protocol.ModelCompleteResult
}

--- Values of the options, for pickers; an open conversation brings its own.
M.CHOICES = {
  mode = {
    { value = "plan", label = "Plan: read only" },
    { value = "ask", label = "Ask" },
    { value = "autoEdit", label = "Edit freely" },
    { value = "full", label = "Full: never ask" },
  },
  approval = {
    { value = "askAlways", label = "Ask always" },
    { value = "askRisky", label = "Ask if risky" },
    { value = "askNever", label = "Never ask" },
  },
}

return M
