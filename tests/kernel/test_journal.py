"""An append is written, folded and announced, in this order; some things never reach the disk."""

from __future__ import annotations

import orjson
import pytest
from core_world import SECRET, Heard, new_conversation, records, text

from oh_daemon.kernel.folding import fold
from oh_daemon.kernel.journal import TextStream
from oh_daemon.kernel.turns import turn_end
from oh_daemon.protocol import events as e
from oh_daemon.protocol.errors import StorageError
from oh_daemon.protocol.items import AgentMessageItem
from oh_daemon.storage.memory_log import MemoryLog


class FullLog(MemoryLog):
    """A log whose disk is full after the first line."""

    def append(self, lines: bytes) -> None:
        if self.read_range(1, 1):
            raise StorageError("no space left")
        super().append(lines)


def test_the_log_folds_to_the_state_that_is_live():
    conversation = new_conversation()
    conversation.send(text("go"))
    conversation.turns.pause("user")
    assert fold("c1", records(conversation)) == conversation.state


def test_events_of_one_append_are_numbered_and_the_cause_is_the_last_ones():
    conversation = new_conversation()
    cause = e.Cause(method="m", client_request_id="r", body_hash="h", result={"n": 1})
    conversation.journal.append(
        e.Notice(severity="info", title="one"), e.Notice(severity="info", title="two"), cause=cause
    )
    one, two = records(conversation)[1:]
    assert (one["v"], one["seq"], two["seq"]) == (2, 2, 3)
    assert "cause" not in one
    assert two["cause"]["result"] == {"n": 1}


def test_nothing_changes_when_the_log_takes_nothing():
    conversation = new_conversation(FullLog())
    heard = Heard()
    conversation.journal.listeners.append(heard)
    with pytest.raises(StorageError):
        conversation.send(text("go"))
    assert (conversation.state.seq, conversation.state.turn, heard.events) == (1, None, [])


def test_events_of_a_turn_carry_its_id_and_the_status_does_not():
    conversation = new_conversation()
    turn_id = conversation.send(text("go"))["turnId"]
    by_type = {record["event"]["type"]: record for record in records(conversation)}
    assert by_type["turn.started"]["turnId"] == turn_id
    assert by_type["item.completed"]["turnId"] == turn_id
    assert by_type["item.completed"]["itemId"] == conversation.state.items[0]["id"]
    assert "turnId" not in by_type["status.changed"]


def test_a_secret_reaches_neither_the_log_nor_a_listener():
    conversation = new_conversation()
    heard = Heard()
    conversation.journal.listeners.append(heard)
    conversation.send(text(f"use {SECRET} now"))
    running_item = AgentMessageItem(id="i1", message_id="i1", batch="b1", status="running")
    conversation.journal.append(e.ItemStarted(item=running_item))
    text_stream = TextStream(conversation.journal, "i1", "text")
    for piece in ("say hu", "sh-0123", "456789 aloud", ""):
        text_stream.write(piece)
    text_stream.close()
    assert SECRET not in str(records(conversation)) + str(heard.events)
    full_text = "".join(piece for _, _, piece in heard.deltas)
    assert full_text == "say <secret hidden> aloud"
    assert [offset for _, offset, _ in heard.deltas] == [
        len("".join(piece for _, _, piece in heard.deltas[:n])) for n in range(len(heard.deltas))
    ]


def test_what_streams_after_the_end_of_its_item_is_dropped():
    conversation = new_conversation()
    heard = Heard()
    conversation.journal.listeners.append(heard)
    item_ended = AgentMessageItem(id="i1", message_id="i1", batch="b1", status="completed")
    conversation.journal.append(e.ItemCompleted(item=item_ended))
    TextStream(conversation.journal, "i1", "text").write("late")
    assert heard.deltas == []


def test_half_a_surrogate_pair_does_not_break_a_line():
    conversation = new_conversation()
    conversation.journal.append(e.Notice.model_construct(severity="info", title="\u00e9\u2028"))
    [line] = conversation.journal.log.read_range(2, 2)
    assert orjson.loads(line)["event"]["title"] == "\u00e9\u2028"
    assert b"\n" not in line


def test_one_who_waits_may_ask_again_while_being_told():
    conversation = new_conversation()
    conversation.send(text("go"))
    turn_id = conversation.state.turn_id
    first = turn_end(conversation.journal, "none", turn_id)
    values: list[object] = []
    first.add_done_callback(
        lambda _done: values.append(turn_end(conversation.journal, "none", turn_id))
    )
    conversation.turns.pause("user")
    assert first.done()
    [second] = values
    conversation.resume()
    conversation.turns.pause("user")
    assert second.done()  # type: ignore[attr-defined]
