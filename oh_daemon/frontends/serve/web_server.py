"""The door for browsers, on 127.0.0.1: a page, and a WebSocket of which each text is one message.

`web_gate` decides who may come in. Nothing of a request is logged: it has the token in it.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from msgspec import Struct

from oh_daemon.frontends.serve.multi_client_server import MultiClientServer
from oh_daemon.frontends.serve.web_gate import (
    PageGate,
    PageResponse,
    RequestHead,
    is_page_built,
    page_for,
)
from oh_daemon.jsonrpc.framing import MAX_MESSAGE_BYTES, ContentLength, read_frames
from oh_daemon.protocol.errors import InvalidParamsError, OverloadedError, UserError
from oh_daemon.workspace.paths import uri_from_path

if TYPE_CHECKING:
    from websockets.datastructures import Headers
    from websockets.http11 import Request, Response
    from websockets.sync.server import Server, ServerConnection

_PAUSE_S = 1.0
_NO_TEXT, _TRY_AGAIN = 1003, 1013
"""Codes of https://www.iana.org/assignments/websocket for a connection that is closed."""

log = logging.getLogger(__name__)
_SILENT = logging.getLogger(f"{__name__}.silent")
_SILENT.disabled = True


class PageOptions(Struct, frozen=True):
    """What the user wants of the page."""

    folder: Path
    """Its conversations are on the page, beside those of folders that editors open."""
    port: int = 0
    """0 takes a free one."""
    public_url: str = ""
    """As `parse_public_url` returns it."""


class WebServer:
    """Listens until the process ends."""

    def __init__(self, server: MultiClientServer, page: PageOptions) -> None:
        """Take the port. Raises `UserError` if it is taken, or if there is no page."""
        from websockets.sync.server import serve  # noqa: PLC0415 - only for this door.

        if not is_page_built():
            raise InvalidParamsError(
                "--web: this installation lacks the page; `make page` builds it"
            )
        self._server = server
        # A home folder is where things are started that are about no project.
        self._folders = {} if page.folder == Path.home().resolve() else {page.folder: None}
        try:
            self._socket = socket.create_server(("127.0.0.1", page.port))
        except OSError as exc:
            raise UserError(f"no page can be served at port {page.port}: {exc.strerror}") from exc
        self._gate = PageGate(self._socket.getsockname()[1], page.public_url)
        make_server = partial(
            serve,
            self._serve,
            sock=self._socket,
            process_request=self._answer,
            server_header=None,
            compression=None,
            max_size=MAX_MESSAGE_BYTES,
            logger=_SILENT,
        )
        # Its threads are as this one: they do not keep the process from ending.
        threading.Thread(
            target=self._listen, args=(make_server,), name="web-door", daemon=True
        ).start()

    def _listen(self, make_server: Callable[[], Server]) -> NoReturn:
        while True:
            # A server ends when it cannot take a connection: see EMFILE in accept(2).
            with suppress(OSError):
                make_server().serve_forever()
            log.warning("no connection of a browser can be taken")
            time.sleep(_PAUSE_S)

    @property
    def link(self) -> str:
        """What the user opens first, and gives to nobody."""
        return self._gate.link

    def _answer(self, _connection: ServerConnection, request: Request) -> Response | None:
        """Return the answer to a request, or None for a WebSocket that may be opened."""
        goal = self._gate.admit(_head_of(request))
        if goal == "socket":
            return None
        return _response(self._page() if goal == "page" else goal)

    def _page(self) -> PageResponse:
        """Return a page for all folders that were open so far, also of editors that have left."""
        for window in self._server.windows():
            self._folders |= dict.fromkeys(window.documents.folders())
        return page_for([uri_from_path(folder) for folder in self._folders])

    def _serve(self, browser: ServerConnection) -> None:
        """Give the daemon what a browser writes, until one of them is gone."""
        from websockets.exceptions import ConnectionClosed  # noqa: PLC0415 - as above.

        near_end, far_end = socket.socketpair()
        with near_end:
            try:
                self._server.connect(far_end, "the web")
            except OverloadedError as exc:
                far_end.close()
                browser.close(_TRY_AGAIN, str(exc))
                return
            answers = threading.Thread(
                target=_pass_back, args=(near_end, browser), name="web-answers"
            )
            answers.start()
            framing = ContentLength()
            with suppress(ConnectionClosed, OSError):
                for text in browser:
                    if not isinstance(text, str):
                        browser.close(_NO_TEXT)
                        break
                    near_end.sendall(framing.frame(text.encode()))
            with suppress(OSError):
                near_end.shutdown(socket.SHUT_RDWR)
            answers.join()


def _pass_back(client_socket: socket.socket, browser: ServerConnection) -> None:
    """Give the browser what the daemon writes, until one of them is gone."""
    from websockets.exceptions import ConnectionClosed  # noqa: PLC0415 - as above.

    with suppress(ConnectionClosed, OSError):
        for _frame in read_frames(
            client_socket.fileno(),
            ContentLength(),
            lambda body, _why: browser.send(body, text=True),
        ):
            pass
    browser.close()


def _head_of(request: Request) -> RequestHead:
    headers = request.headers
    return RequestHead(
        method=request.method,
        target=request.path,
        host=_only(headers, "Host"),
        origin=_only(headers, "Origin"),
        cookies=";".join(headers.get_all("Cookie")),
    )


def _only(headers: Headers, name: str) -> str | None:
    values = headers.get_all(name)
    return values[0] if len(values) == 1 else None


def _response(answer: PageResponse) -> Response:
    from websockets.datastructures import Headers  # noqa: PLC0415 - as above.
    from websockets.http11 import Response  # noqa: PLC0415 - as above.

    body = answer.body.encode()
    lengths = {"Content-Length": str(len(body)), "Connection": "close"}
    return Response(answer.status, "", Headers(answer.all_headers() | lengths), body)
