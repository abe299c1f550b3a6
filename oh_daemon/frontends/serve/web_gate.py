"""Who may come in by the web door, decided from the head of a request; and what the page is.

All need the token: the link has it, later a cookie. Other sites, and names that only lead here by
DNS, are kept out by `Host` and `Origin`, whatever they know.
"""

from __future__ import annotations

import html
import json
import secrets
from collections.abc import Mapping, Sequence
from hmac import compare_digest
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qs, urlsplit

from msgspec import Struct, field

from oh_daemon.protocol.errors import InvalidParamsError

_PAGE = Path(__file__).with_name("page")
"""What `make page` builds of the panel's own code."""
_COOKIE = "oh"
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Type": "text/html; charset=utf-8",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_CLOSED = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


class PageResponse(Struct, frozen=True):
    """What a request for a page gets."""

    status: int
    body: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    policy: str = _CLOSED

    def all_headers(self) -> dict[str, str]:
        return {**_HEADERS, "Content-Security-Policy": self.policy, **self.headers}


class RequestHead(Struct, frozen=True):
    """What is looked at of a request; a header that came several times is as none."""

    method: str
    target: str
    host: str | None
    origin: str | None
    cookies: str


class PageGate(Struct, frozen=True):
    """Its secrets are of this process: links and cookies of an earlier one are stale."""

    port: int
    public_url: str = ""
    """Where the user's own tunnel makes the page reachable, without a path."""
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    room: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    """The first part of all paths. Cookies know no ports: a server that the agent has started on
    this machine would be sent one for `/`, and cannot guess this."""

    def __repr__(self) -> str:
        return f"PageGate(port={self.port})"

    @property
    def link(self) -> str:
        """What leads to the page, on one's own device or through one's own tunnel."""
        return f"{self.public_url or self._origins()[0]}/?token={self.token}"

    def admit(self, head: RequestHead) -> PageResponse | Literal["page", "socket"]:
        """Return what is asked for, or the answer to a request that has come to its end."""
        url = urlsplit(head.target)
        if head.host not in {urlsplit(origin).netloc for origin in self._origins()}:
            return _refusal(403, "Nothing is served under this name.")
        if head.method != "GET":
            return _refusal(405, "There are only pages to be read.")
        if url.path == "/":
            tokens = parse_qs(url.query).get("token", [""])
            return self._first(head.host) if self._is_token(tokens[0]) else _without_token()
        if not self._is_token(_cookie_in(head.cookies)):
            return _without_token()
        if url.path == f"/{self.room}/":
            return "page"
        if url.path != f"/{self.room}/socket":
            return _refusal(404, "There is nothing here.")
        if head.origin not in self._origins():
            return _refusal(403, "Another page may not connect.")
        return "socket"

    def _first(self, host: str) -> PageResponse:
        """Answer the link: the page is opened by a page of ours, which is sent a strict cookie."""
        goal = f"/{self.room}/"
        is_public = self.public_url != "" and host == urlsplit(self.public_url).netloc
        strict = "HttpOnly; SameSite=Strict" + ("; Secure" if is_public else "")
        cookie = f"{_COOKIE}={self.token}; Path={goal}; {strict}"
        refresh = f'<meta http-equiv="refresh" content="0;url={goal}">'
        return PageResponse(200, _document(refresh, "oh"), {"Set-Cookie": cookie})

    def _is_token(self, candidate: str) -> bool:
        return compare_digest(candidate.encode(), self.token.encode())

    def _origins(self) -> tuple[str, ...]:
        local = (f"http://127.0.0.1:{self.port}", f"http://localhost:{self.port}")
        return (*local, self.public_url) if self.public_url else local


def parse_public_url(text: str) -> str:
    """Return the origin of a tunnel, as browsers send it. Raises `InvalidParamsError`."""
    try:
        url = urlsplit(text)
        is_origin = url.port != 0 and url.geturl().rstrip("/") == f"https://{url.netloc}"
    except ValueError:
        is_origin = False
    # Without encryption others on the way could read the token, and browsers offer pages less.
    if not is_origin or "@" in text or text == "https://":
        raise InvalidParamsError(f"--public-url {text}: it is written as https://HOST[:PORT]")
    return text.rstrip("/").lower().removesuffix(":443")


def is_page_built() -> bool:
    return (_PAGE / "main.js").exists()


def page_for(folders: Sequence[str]) -> PageResponse:
    """Return the page, which shows conversations of these folders (URIs).

    Script and style are in it, so it may load nothing.
    """
    nonce = secrets.token_urlsafe(16)
    script, style = ((_PAGE / name).read_text() for name in ("main.js", "page.css"))
    sources = f"script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'"
    head = (
        '<meta name="viewport" content="width=device-width, initial-scale=1, viewport-fit=cover">'
        f'<link rel="icon" href="data:,"><style nonce="{nonce}">{style}</style>'
    )
    data = html.escape(json.dumps(list(folders)))
    body = f'<body data-folders="{data}"><script nonce="{nonce}">{script}</script></body>'
    policy = f"{_CLOSED}; {sources}; img-src data:; connect-src 'self'"
    return PageResponse(200, _document(head, "oh", body), policy=policy)


def _cookie_in(header: str) -> str:
    pairs = (pair.strip().partition("=") for pair in header.split(";"))
    return next((value for name, _, value in pairs if name == _COOKIE), "")


def _without_token() -> PageResponse:
    return _refusal(403, "Open the link that <code>oh-daemon serve --web</code> has printed.")


def _refusal(status: int, sentence: str) -> PageResponse:
    return PageResponse(status, _document("", "oh", f"<body><p>{sentence}</p></body>"))


def _document(head: str, title: str, body: str = "<body></body>") -> str:
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        f"<title>{title}</title>{head}</head>{body}</html>"
    )
