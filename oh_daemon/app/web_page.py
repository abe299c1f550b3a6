"""A web page that the user mentions in a message, as text. It is asked for once, with no cookie.

The mention is the consent, for that host alone: a page that leads elsewhere is not followed.
"""

from __future__ import annotations

import re
import time
from contextlib import closing
from html.parser import HTMLParser
from http import HTTPStatus
from http.client import HTTPException
from urllib.parse import urldefrag, urljoin, urlsplit

from oh_daemon.contract.errors import InvalidParamsError
from oh_daemon.core.cancel import CancelToken
from oh_daemon.model.http import Response, request
from oh_daemon.model.sockets import Waiter

MAX_PAGE_BYTES = 2 << 20
_WITHIN_S = 15.0
_MAX_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_HEADERS = {"accept": "text/html, text/*;q=0.9, application/json;q=0.8", "user-agent": "oh-daemon"}
_IS_TEXT = re.compile(r"text/|application/(?:[\w.-]+\+)?(?:json|xml)\b|application/xhtml")
_SPACE = re.compile(r"\s+")
_BLANKS = re.compile(r"\n{3,}")


def fetch_page(url: str, path: str) -> str:
    """Return the text of the page. Blocks for 15 s at most.

    Raises `InvalidParamsError` about the field at `path`.
    """
    end, at = time.monotonic() + _WITHIN_S, urldefrag(url).url

    def left_s() -> float:
        if (left := end - time.monotonic()) <= 0:
            raise TimeoutError
        return left

    try:
        for _ in range(_MAX_REDIRECTS):
            _require_same_host(url, at, path)
            with (
                Waiter(CancelToken(), left_s) as waiter,
                closing(request("GET", at, _HEADERS, None, waiter)) as response,
            ):
                leads_to = response.headers.get("location")
                if not leads_to or response.status not in _REDIRECTS:
                    return _text_of(response, at, path)
                at = urldefrag(urljoin(at, leads_to)).url
    except (OSError, HTTPException, ValueError) as exc:
        why = "took too long" if isinstance(exc, TimeoutError) else f"cannot be read: {exc}"
        raise InvalidParamsError.at(path, f"{url} {why}") from exc
    raise InvalidParamsError.at(path, f"{url} leads from page to page")


def _require_same_host(url: str, at: str, path: str) -> None:
    before, now = urlsplit(url), urlsplit(at)
    safe = {"https"} if before.scheme == "https" else {"http", "https"}
    if now.hostname != before.hostname or now.scheme not in safe:
        raise InvalidParamsError.at(path, f"{url} leads to {at}; mention that instead")


def _text_of(response: Response, url: str, path: str) -> str:
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
    return page_text(text) if "html" in kind else text


def page_text(html: str) -> str:
    """Return the words of a page, a line for each block."""
    parser = _Words()
    parser.feed(html)
    parser.close()
    lines = (line.rstrip() for line in "".join(parser.pieces).split("\n"))
    return _BLANKS.sub("\n\n", "\n".join(lines)).strip()


class _Words(HTMLParser):
    """Collects what a reader sees."""

    _HIDDEN = frozenset({"script", "style", "template", "noscript", "svg", "head", "nav", "footer"})
    _INLINE = frozenset(
        {"a", "abbr", "b", "code", "em", "i", "kbd", "small", "span", "strong", "u"}
    )

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []
        self._hidden: list[str] = []
        self._n_pre = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        del attrs
        if tag in self._HIDDEN:
            self._hidden.append(tag)
        self._n_pre += tag == "pre"
        self._break(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self._hidden:
            del self._hidden[self._hidden.index(tag) :]
        self._n_pre -= tag == "pre"
        self._break(tag)

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.pieces.append(data if self._n_pre > 0 else _SPACE.sub(" ", data))

    def _break(self, tag: str) -> None:
        if not self._hidden and tag not in self._INLINE:
            self.pieces.append("\n")
