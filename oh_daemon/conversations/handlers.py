"""Handlers that list and read conversations, their tools and agents. Most read the disk."""

from __future__ import annotations

from base64 import b64encode
from bisect import bisect_left, bisect_right
from codecs import getincrementaldecoder
from collections.abc import Iterable, Sequence
from pathlib import Path

import orjson

from oh_daemon.common.cancel import CancelToken
from oh_daemon.conversations.conversation_runtime import ConversationRuntime, render_tool_info
from oh_daemon.conversations.conversations import Conversations
from oh_daemon.conversations.description import describe, describe_state
from oh_daemon.conversations.history_pages import page_of_events
from oh_daemon.conversations.listing import describe_closed, line_in, page_of
from oh_daemon.conversations.services import AgentConfig
from oh_daemon.conversations.sub_agents import agents_in
from oh_daemon.features.skills.prompts import Skill
from oh_daemon.features.skills.skills import SkillFolders
from oh_daemon.features.subagents.delegate import DelegateTool
from oh_daemon.jsonrpc.framing import encode
from oh_daemon.kernel.journal import History
from oh_daemon.kernel.ports import Json
from oh_daemon.kernel.state import State
from oh_daemon.kernel.usage import Bill
from oh_daemon.protocol import daemon_messages as d
from oh_daemon.protocol import messages as m
from oh_daemon.protocol import plain
from oh_daemon.protocol.composing import AgentListParams, AgentListResult, AgentSummary
from oh_daemon.protocol.errors import CursorInvalidError
from oh_daemon.protocol.side_questions import UsageReadParams, UsageReadResult
from oh_daemon.protocol.summaries import ConversationInfo, ListParams, ListResult
from oh_daemon.storage.memory_log import MemoryLog
from oh_daemon.workspace.paths import parse_folder


def conversation_list(
    conversations: Conversations, params: ListParams, folders: Sequence[Path], cancel: CancelToken
) -> ListResult:
    only = None if params.folder is None else parse_folder(params.folder, "folder")
    homes = folders if only is None else [only]
    catalogs = conversations.catalogs(homes)

    def describe_listed(summary: Json) -> ConversationInfo:
        if (open_conversation := conversations.find_open(summary["id"])) is not None:
            return describe(open_conversation.conversation.journal)
        return describe_closed(summary, catalogs)

    def line_of(conversation_id: str, words: tuple[str, ...]) -> str | None:
        cancel.raise_if_cancelled()
        return line_in(catalogs, conversation_id, words)

    summaries = conversations.summaries(homes, params.parent_id)
    return page_of(summaries, params, only, describe_listed, line_of)


def conversation_read(
    conversations: Conversations, params: m.ReadParams, folders: Sequence[Path]
) -> bytes:
    history = conversations.find_history(params.conversation_id)
    if history is None:
        state, _, epoch = conversations.read(params.conversation_id, folders)
        info = describe_state(state, lock={"mine": False}, epoch=epoch)
        return _items_before(params, state, info)
    # Folding the log again for each page would take as long as all of the pages together.
    with history.condition:
        return _items_before(params, history.state, describe(history))


def _items_before(params: m.ReadParams, state: State, info: ConversationInfo) -> bytes:
    end = len(state.items)
    if params.before is not None:
        if params.before not in state.positions:
            raise CursorInvalidError(f"no item {params.before!r} in this conversation")
        end = state.positions[params.before]
    items = state.items[max(end - params.limit, 0) : end]
    more = {"nextBefore": items[0]["id"]} if items and end > len(items) else {}
    return encode({"conversation": info, "items": items, **more})


def conversation_events(
    conversations: Conversations, params: m.EventsParams, folders: Sequence[Path]
) -> Json:
    history = conversations.find_history(params.conversation_id)
    if history is not None:
        with history.condition:
            last, epoch = history.state.seq, history.epoch
        read_range = history.log.read_range
    else:
        state, records, epoch = conversations.read(params.conversation_id, folders)
        last, seqs = state.seq, [record["seq"] for record in records]

        def read_range(first_seq: int, last_seq: int) -> list[bytes]:
            span = slice(bisect_left(seqs, first_seq), bisect_right(seqs, last_seq))
            return [orjson.dumps(record) for record in records[span]]

    end = min((params.before_seq or last + 1) - 1, last)
    page = page_of_events(read_range, params, end, params.types)
    edges = {"firstSeq": page.first, "lastSeq": page.last, "truncated": page.is_cut}
    return {"events": page.events, "epoch": epoch, **edges}


def output_read(history: History, params: d.OutputReadParams) -> d.OutputReadResult:
    log = history.log
    total, offset = log.blob_size(params.output_ref), params.offset
    # No character is longer than four bytes, so a piece is never empty before the end.
    data = log.read_blob(params.output_ref, offset, max(params.limit, 4))
    end = min(offset + len(data), total)
    if params.encoding == "base64":
        text = b64encode(data).decode()
        return d.OutputReadResult(text=text, next_offset=end, total=total)
    decoder = getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(data, final=end == total)
    # A character that the limit cuts in two comes with the next piece.
    end -= len(decoder.getstate()[0])
    return d.OutputReadResult(text=text, next_offset=end, total=total)


def usage_read(
    conversations: Conversations, params: UsageReadParams, folders: Sequence[Path]
) -> UsageReadResult:
    bill = Bill(params.since or "")
    records: Iterable[plain.Record]
    if params.conversation_id is None:
        records = (r for each in conversations.catalogs(folders) for r in each.usage_records())
    else:
        records = conversations.read(params.conversation_id, folders)[1]
    for record in records:
        bill.add(record)
    return UsageReadResult.model_validate(bill.render())


def tool_list(
    runtime: ConversationRuntime | None, conversations: Conversations, folders: Sequence[Path]
) -> d.ToolListResult:
    """List the tools of an open conversation, otherwise of one that would start now."""
    runtime = runtime or _runtime_of_new(conversations, folders)
    tools = tuple(render_tool_info(tool.spec) for tool in runtime.tools.values())
    return d.ToolListResult.model_validate({"tools": tools})


def _runtime_of_new(conversations: Conversations, folders: Sequence[Path]) -> ConversationRuntime:
    context = conversations.context
    delegate = DelegateTool(lambda: agents_in(context, folders), lambda _tasks, _context: ())
    config = AgentConfig(more_tools=(delegate,) if folders else ())
    return ConversationRuntime(context, MemoryLog(), folders, config)


def agent_list(
    conversations: Conversations, params: AgentListParams, folders: Sequence[Path]
) -> AgentListResult:
    if params.conversation_id is not None:
        folders = conversations.require_open(params.conversation_id).runtime.folders.folders
    elif params.folder is not None:
        folders = [parse_folder(params.folder, "folder")]
    agents = agents_in(conversations.context, folders).values()
    return AgentListResult(
        agents=tuple(AgentSummary.model_validate(a, from_attributes=True) for a in agents)
    )


def find_skills(
    conversations: Conversations, conversation_id: str | None, folders: Sequence[Path]
) -> tuple[Skill, ...]:
    """Return the current skills of an open conversation, otherwise those of the folders.

    See `features.skills.handlers.FindSkills`.
    """
    open_conversation = conversations.find_open(conversation_id or "")
    if open_conversation is None:
        context = conversations.context
        return SkillFolders(folders, context.services.home, lambda: context.user.trust).find()
    open_conversation.runtime.skills.refresh()
    return open_conversation.runtime.skills.all
