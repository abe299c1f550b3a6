"""Issues as files, as texts and from GitHub, and GitHub's API.

That is where `GITHUB_API_URL` says, as on GitHub's own runners. The token is in `GH_TOKEN` or
`GITHUB_TOKEN`, or what `gh` is logged in with.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from msgspec import Struct

from oh_daemon.common.plain_text import first_line, well_formed
from oh_daemon.frontends.cli.process import read_all
from oh_daemon.kernel.ports import Json
from oh_daemon.protocol.errors import InvalidParamsError, ToolError, UserError
from oh_daemon.system.private_files import parse_object
from oh_daemon.system.spawner import Spawner

_PAGE = re.compile(r"https?://[^/\s]+/([\w.-]+/[\w.-]+)/issues/(\d+)/?(?:[?#].*)?")
_REMOTE = re.compile(r"[/:]([\w.-]+/[\w.-]+?)(?:\.git)?/?$")
_TIMEOUT_S = 30.0
_MAX_BYTES = 4 << 20


class Issue(Struct, frozen=True):
    """What is to be solved; somebody wrote it who need not be trusted."""

    title: str
    body: str
    number: int | None = None
    url: str | None = None


def read_issue(source: str, spawner: Spawner) -> Issue:
    """Read a file of JSON or Markdown, stdin (`-`), or the page of an issue of GitHub.

    Raises `UserError`.
    """
    if page := _PAGE.fullmatch(source):
        return parse_issue(json.dumps(call_api(f"repos/{page[1]}/issues/{page[2]}", spawner)))
    if source == "-":
        return parse_issue(read_all())
    try:
        return parse_issue(Path(source).read_bytes().decode("utf-8-sig", "replace"))
    except OSError as exc:
        raise InvalidParamsError(f"{source!r} cannot be read: {exc.strerror}") from exc


def parse_issue(text: str) -> Issue:
    """Parse an issue of GitHub's API, of `gh --json`, or in an event of Actions; else Markdown."""
    if not text.lstrip().startswith("{"):
        heading = first_line(text)
        body = text[text.find(heading) + len(heading) :] if heading else ""
        return _check_issue(Issue(heading.lstrip("# "), body))
    data = parse_object(text.encode("utf-8", "replace"))
    fields: Json = data["issue"] if isinstance(data.get("issue"), dict) else data
    number, url = fields.get("number"), fields.get("html_url") or fields.get("url")
    title, body = (str(fields.get(name) or "") for name in ("title", "body"))
    number = number if isinstance(number, int) else None
    return _check_issue(Issue(title, body, number, url if isinstance(url, str) else None))


def _check_issue(issue: Issue) -> Issue:
    title = " ".join(well_formed(issue.title).split())
    if not title:
        raise InvalidParamsError(
            "the issue has no title: a JSON object has `title`, Markdown a line"
        )
    return Issue(title, well_formed(issue.body).strip(), issue.number, issue.url)


def repository_of(remote: str) -> str:
    """Return the "owner/name" of a remote's address. Raises `InvalidParamsError`."""
    match = _REMOTE.search(remote.strip())
    if match is None:
        raise InvalidParamsError(f"{remote.strip()!r} is no address of a repository of GitHub")
    return match[1]


class _NoRedirects(HTTPRedirectHandler):
    """The token goes only where it was meant to go."""

    def redirect_request(self, *args: Any, **more: Any) -> None:
        del args, more


def call_api(path: str, spawner: Spawner, body: Mapping[str, Any] | None = None) -> Json:
    """Get from GitHub's API, or post a body to it. Raises `UserError`."""
    base = os.environ.get("GITHUB_API_URL") or "https://api.github.com"
    if not re.match(r"https://|http://(127\.0\.0\.1|\[::1\]|localhost)[:/]", f"{base}/"):
        raise InvalidParamsError(f"GITHUB_API_URL is {base!r}; a token goes over https only")
    headers = {"accept": "application/vnd.github+json", "user-agent": "oh-daemon"}
    if token := _token(spawner):
        headers["authorization"] = f"Bearer {token}"
    data = None if body is None else json.dumps(body).encode()
    request = Request(f"{base.rstrip('/')}/{path}", data, headers)  # noqa: S310 - see above.
    try:
        with build_opener(_NoRedirects).open(request, timeout=_TIMEOUT_S) as answer:
            return parse_object(answer.read(_MAX_BYTES))
    except HTTPError as exc:
        way = "; set GH_TOKEN, or run `gh auth login`" if not token else ""
        raise UserError(f"GitHub answers {exc.code} to {path!r}{way}") from exc
    except (OSError, HTTPException, ValueError) as exc:
        raise UserError(f"{base} does not answer: {exc}") from exc


def _token(spawner: Spawner) -> str | None:
    if token := os.environ.get("GH_TOKEN") or os.environ.get("GITHUB_TOKEN"):
        return token
    try:
        result = spawner.run(["gh", "auth", "token"], cwd=Path("/"), timeout_s=_TIMEOUT_S)
    except ToolError:
        return None
    return result.stdout.decode().strip() or None
