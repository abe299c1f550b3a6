"""Commands with `--attach`: they are clients of `oh-daemon serve`, as editors are."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console

from oh_daemon.common.plain_text import display_escaped
from oh_daemon.features.settings.places import Places
from oh_daemon.frontends.cli.logs import find_id, print_records
from oh_daemon.frontends.cli.status_line import status_line
from oh_daemon.frontends.client.connection import DaemonClient, hello
from oh_daemon.frontends.client.line import Descriptors
from oh_daemon.frontends.serve.address import connect
from oh_daemon.kernel.ports import Json
from oh_daemon.protocol.errors import UserError


def attach_to(folder: Path, name: str, kind: str = "script", **block: Any) -> DaemonClient:
    """Connect to the daemon with this folder open and trusted. Raises `UserError` if none runs."""
    path = Places(os.environ).serve_socket
    peer = connect(path)
    if peer is None:
        hint = "start it with `oh-daemon serve`, or leave out --attach"
        raise UserError(f"no daemon serves at {str(path)!r}", hint=hint)
    descriptor = peer.detach()
    daemon = DaemonClient(Descriptors(descriptor, descriptor))
    client_block = {
        "client": {"name": name, "kind": kind},
        "trust": [{"folder": folder.as_uri(), "trusted": True}],
        **block,
    }
    daemon.greet(hello([folder], client_block))
    return daemon


def ids_of(daemon: DaemonClient, folder: Path) -> Iterator[str]:
    """Yield the ids of the folder's conversations, newest first."""
    page: Json = {"nextCursor": None}
    while "nextCursor" in page:
        cursor = {"cursor": page["nextCursor"]} if page["nextCursor"] else {}
        page = daemon.request("conversation/list", {"folder": folder.as_uri(), **cursor})
        yield from (each["id"] for each in page["conversations"])


def print_answer_there(folder: Path, start_of_id: str, question: str) -> None:
    """Ask a conversation of the daemon, also amid a turn; print the answer. Raises `UserError`."""
    with (
        attach_to(folder, "oh-daemon ask", events={"deltas": False}) as daemon,
        status_line("asking; Ctrl-C stops it", Console(stderr=True, highlight=False)),
    ):
        params = _open_conversation(daemon, folder, start_of_id)
        answer = daemon.request("conversation/ask", {**params, "question": question})
    sys.stdout.write(f"{display_escaped(answer['text'])}\n")


def print_log_there(folder: Path, start_of_id: str, *, as_json: bool) -> None:
    """Print the log of a conversation of the daemon, and all that is added, until Ctrl-C."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with attach_to(folder, "oh-daemon log", events={"deltas": False}) as daemon:
        params = _open_conversation(daemon, folder, start_of_id)
        last_seq = daemon.request("conversation/subscribe", params)["lastSeq"]
        print_records(_records(daemon, params["conversationId"], last_seq), as_json=as_json)


def _open_conversation(daemon: DaemonClient, folder: Path, start_of_id: str) -> Json:
    params = {"conversationId": find_id([*ids_of(daemon, folder)], start_of_id, folder)}
    daemon.request("conversation/open", {**params, "replay": "none"})
    return params


def _records(daemon: DaemonClient, conversation_id: str, last_seq: int) -> Iterator[Any]:
    yield from daemon.read(conversation_id, 1, last_seq)
    for record in daemon.events():
        if record["conversationId"] == conversation_id and record["seq"] > last_seq:
            last_seq = record["seq"]
            yield record
