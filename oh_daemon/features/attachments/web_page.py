"""A web page that the user mentions in a message, as text. It is asked for once, with no cookie.

The mention is the consent, for that host alone: a page that leads elsewhere is not followed, and
a name may not mean this machine, its link or a cloud's metadata: these are mentioned as such.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from html.parser import HTMLParser
from http import HTTPStatus
from http.client import HTTPException
from urllib.parse import SplitResult, urldefrag, urljoin, urlsplit

from oh_daemon.common.cancel import CancelToken
from oh_daemon.common.hosts import Host, reach_of
from oh_daemon.features.models.http import Response, request
from oh_daemon.features.models.sockets import Waiter
from oh_daemon.protocol.errors import InvalidParamsError

MAX_PAGE_BYTES = 2 << 20
_WITHIN_S = 15.0
_MAX_REDIRECTS = 5
_SLICE_CHARS = 1 << 16
_PORTS = {"http": 80, "https": 443}
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_HEADERS = {"accept": "text/html, text/*;q=0.9, application/json;q=0.8", "user-agent": "oh-daemon"}
_IS_TEXT = re.compile(r"text/|application/(?:[\w.-]+\+)?(?:json|xml)\b|application/xhtml")
_SPACE = re.compile(r"\s+")
_BLANKS = re.compile(r"\n{3,}")


def fetch_page(url: str, path: str, cancel: CancelToken, within_s: float = _WITHIN_S) -> str:
    """Return the text of the page. Blocks for 15 s at most.

    Raises `Cancelled`, or `InvalidParamsError` about the field at `path`.
    """
    end, at = time.monotonic() + min(within_s, _WITHIN_S), urldefrag(url).url

    def left_s() -> float:
        if (seconds := end - time.monotonic()) <= 0:
            raise TimeoutError
        return seconds

    try:
        for _ in range(_MAX_REDIRECTS):
            permit = partial(_require_elsewhere, _require_same_host(url, at, path), path)
            with (
                Waiter(cancel, left_s) as waiter,
                closing(request("GET", at, _HEADERS, None, waiter, permit)) as response,
            ):
                leads_to = response.headers.get("location")
                if not leads_to or response.status not in _REDIRECTS:
                    return _text_of(response, at, path, waiter.check)
                at = urldefrag(urljoin(at, leads_to)).url
    except (OSError, HTTPException, ValueError) as exc:
        why = "took too long" if isinstance(exc, TimeoutError) else f"cannot be read: {exc}"
        raise InvalidParamsError.at(path, f"{url} {why}") from exc
    raise InvalidParamsError.at(path, f"{url} leads from page to page")


def _require_same_host(url: str, at: str, path: str) -> Host:
    """Return the host, which is the same but that `http` may lead to `https`."""
    before, now = urlsplit(url), urlsplit(at)
    steps = {_place(before)}
    if _place(before) == ("http", before.hostname, 80):
        steps.add(("https", before.hostname, 443))
    if _place(now) not in steps:
        raise InvalidParamsError.at(path, f"{url} leads to {at}; mention that instead")
    return Host((now.hostname or "").rstrip("."), now.port or _PORTS[now.scheme])


def _place(parts: SplitResult) -> tuple[str, str | None, int | None]:
    return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme)


def _require_elsewhere(host: Host, path: str, addresses: Sequence[str]) -> None:
    """Refuse a name that means this machine or as near; `localhost` and addresses say so."""
    from oh_daemon.features.network.proxy import is_own  # noqa: PLC0415 - slow.

    if host.is_address or host.name == "localhost":
        return
    if reach_of(addresses) == "local" or any(is_own(each, host.port) for each in addresses):
        what = f"{host} leads to this machine or its link ({addresses[0]}); mention that address"
        raise InvalidParamsError.at(path, what)


def _text_of(response: Response, url: str, path: str, check: Callable[[], object]) -> str:
    kind = response.headers.get("content-type", "text/plain")
    if response.status != HTTPStatus.OK:
        what = f"{url} is not to be had: {response.status} {response.reason}"
        raise InvalidParamsError.at(path, what)
    if not _IS_TEXT.match(kind):
        raise InvalidParamsError.at(path, f"{url} is {kind.partition(';')[0]}, not text")
    body = bytearray()
    for piece in response.pieces():
        body += piece
        if len(body) > MAX_PAGE_BYTES:
            raise InvalidParamsError.at(path, f"{url} is larger than {MAX_PAGE_BYTES >> 20} MiB")
    charset = re.search(r"charset=\"?([\w-]+)", kind)
    try:
        text = body.decode(charset[1] if charset else "utf-8", "replace")
    except LookupError:
        text = body.decode("utf-8", "replace")
    return page_text(text, check) if "html" in kind else text


def page_text(html: str, check: Callable[[], object] = lambda: None) -> str:
    """Return the words of a page, a line for each block. `check` raises when it is to end."""
    parser = _PageText()
    for start in range(0, len(html), _SLICE_CHARS):
        check()
        parser.feed(html[start : start + _SLICE_CHARS])
    # What no tag ends is read again for each `<` in it.
    if len(parser.rawdata) <= _SLICE_CHARS:
        parser.close()
    lines = (line.rstrip() for line in "".join(parser.pieces).split("\n"))
    return _BLANKS.sub("\n\n", "\n".join(lines)).strip()


class _PageText(HTMLParser):
    """Collects what a reader sees."""

    _HIDDEN = frozenset(
        {"script", "style", "template", "noscript", "svg", "title", "nav", "footer"}
    )
    _INLINE = frozenset(
        {"a", "abbr", "b", "code", "em", "i", "kbd", "small", "span", "strong", "u"}
    )

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []
        self._hidden_texts: list[str] = []
        self._n_hidden = Counter[str]()
        self._n_pre = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        del attrs
        if tag == "body":
            self._hidden_texts.clear()
            self._n_hidden.clear()
        if tag in self._HIDDEN:
            self._hidden_texts.append(tag)
            self._n_hidden[tag] += 1
        self._n_pre += tag == "pre"
        self._break(tag)

    def handle_endtag(self, tag: str) -> None:
        # The count says it at once; a search for each of many tags would take too long.
        while self._n_hidden[tag] and self._hidden_texts:
            inner = self._hidden_texts.pop()
            self._n_hidden[inner] -= 1
            if inner == tag:
                break
        self._n_pre -= tag == "pre"
        self._break(tag)

    def handle_data(self, data: str) -> None:
        if not self._hidden_texts:
            self.pieces.append(data if self._n_pre > 0 else _SPACE.sub(" ", data))

    def _break(self, tag: str) -> None:
        if not self._hidden_texts and tag not in self._INLINE:
            self.pieces.append("\n")
