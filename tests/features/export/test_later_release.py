"""Readers show an item, a part or a subject of a later release by its title and say so."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from places import TESTS
from rich.console import Console

from oh_daemon.features.export.event_lines import EventPrinter
from oh_daemon.features.export.export import render_markdown
from oh_daemon.features.export.page import render_page
from oh_daemon.frontends.acp.updates import SupportedUpdates, replay_updates
from oh_daemon.frontends.lsp.plain.chat_items import block_of
from oh_daemon.kernel.context import ModelContext
from oh_daemon.kernel.folding import apply, fold
from oh_daemon.kernel.state import State
from oh_daemon.storage.log_scan import read_log


def render_lines(records: list[Any]) -> str:
    out = io.StringIO()
    printer = EventPrinter(Console(file=out, width=200))
    for record in records:
        printer.print(record)
    return out.getvalue()


def render_chat(records: list[Any]) -> str:
    state, blocks = State("later"), list[str]()
    for record in records:
        apply(state, record)
        blocks.append(block_of(record, state, Path("/home")))
    return "\n".join(blocks)


def render_acp(records: list[Any]) -> str:
    items = fold("later", records).items
    return str([list(replay_updates(item, SupportedUpdates(), lambda _: "")) for item in items])


RENDERERS: dict[str, Callable[[list[Any]], str]] = {
    "lines": render_lines,
    "markdown": lambda records: render_markdown(fold("later", records), records),
    "page": lambda records: render_page(fold("later", records), records, lambda _: b""),
    "chat": render_chat,
    "acp": render_acp,
}


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    folder = tmp_path_factory.mktemp("later")
    (folder / "events.jsonl").write_bytes((TESTS / "golden/later/approvals.jsonl").read_bytes())
    return read_log(folder)


@pytest.mark.parametrize("form", RENDERERS)
def test_item_and_part_of_a_later_release_are_named(form: str, records: list[Any]) -> None:
    text = RENDERERS[form](records)
    assert "Rehearse the deployment (rehearsal: this version cannot show it)" in text
    assert "(hologram: this version cannot show it)" in text
    assert "There is one file." in text, "the rest is shown"


def test_model_reads_what_it_can_of_a_later_release(records: list[Any]) -> None:
    messages = ModelContext("").messages(fold("later", records).items)
    assert "(hologram: this version cannot show it)" in str(messages)
