"""The language server of the test editor, which knows every `def` of the project's Python files.

Honest by default, also about columns in the negotiated encoding; tests replace single answers.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from editor import OURS, Editor
from world import World

Json = dict[str, Any]
FEATURES: Json = {**OURS, "diagnostics": True, "languageRequests": True}


class LanguageServer:
    """Reports `oops` as an error and `hmm` as a warning."""

    def __init__(self, world: World, editor: Editor) -> None:
        self._project = world.project
        self._editor = editor
        self.requests: list[Json] = []
        self.loading: list[str] = []
        """Names of servers that report work in progress."""
        self.answers: dict[str, Callable[[Json], Any]] = {
            "textDocument/definition": self._definition,
            "textDocument/references": lambda p: list(self._places(self._word_at(p))),
            "textDocument/hover": self._hover,
            "textDocument/documentSymbol": self._outline,
            "workspace/symbol": self._symbols,
            "textDocument/rename": self._rename,
        }
        editor.client.answer("editor/diagnostics", self._on_diagnostics)
        editor.client.answer("editor/languageRequest", self._on_request)

    def _on_request(self, params: Json) -> Json:
        self.requests.append(params)
        return {"result": self.answers[params["method"]](params["params"])}

    def _on_diagnostics(self, params: Json) -> Json:
        self.requests.append(params)
        texts_known = self.texts()
        uris = params.get("uris", texts_known)
        items = [{"uri": uri, "diagnostics": self._problems(texts_known[uri])} for uri in uris]
        return {"items": items, **({"loading": self.loading} if self.loading else {})}

    def _problems(self, text: str) -> list[Json]:
        severities = {"oops": 1, "hmm": 2, "meh": 4}
        return [
            {
                "range": self._range(text, match),
                "severity": severities[match[0]],
                "message": f"{match[0]!r} is not defined\nin this file",
                "source": "Toy",
                "code": "undefined",
            }
            for match in re.finditer(r"\b(oops|hmm|meh)\b", text)
        ]

    def texts(self) -> dict[str, str]:
        """Return what the user sees: the text of a buffer takes precedence over the file's."""
        paths = sorted(self._project.rglob("*.py"))
        on_disk = {path.as_uri(): path.read_bytes().decode() for path in paths}
        return on_disk | {uri: buffer.text for uri, buffer in self._editor.buffers.items()}

    def _places(self, word: str, before: str = "") -> Iterator[Json]:
        for uri, text in self.texts().items():
            for match in re.finditer(rf"(?<={before})\b{word}\b", text):
                yield {"uri": uri, "range": self._range(text, match)}

    def _word_at(self, params: Json) -> str:
        text = self.texts()[params["textDocument"]["uri"]]
        offset = self._editor.offset(text, params["position"])
        return next(m[0] for m in re.finditer(r"\w+", text) if m.start() <= offset <= m.end())

    def _definition(self, params: Json) -> list[Json]:
        return list(self._places(self._word_at(params), before="def "))

    def _hover(self, params: Json) -> Json:
        return {"contents": {"kind": "markdown", "value": f"`{self._word_at(params)}`, a name"}}

    def _outline(self, params: Json) -> list[Json]:
        text = self.texts()[params["textDocument"]["uri"]]
        defs = re.finditer(r"(?<=def )\w+", text)
        spans = [(match[0], self._range(text, match)) for match in defs]
        methods = [{"name": n, "kind": 6, "range": s, "selectionRange": s} for n, s in spans]
        full_range = {"start": {"line": 0, "character": 0}, "end": {"line": 9, "character": 0}}
        top = {"name": "Top", "kind": 5, "range": full_range, "selectionRange": full_range}
        return [{**top, "children": methods}]

    def _symbols(self, params: Json) -> list[Json]:
        return [
            {"name": match[0], "kind": 12, "location": {"uri": uri, "range": self._range(t, match)}}
            for uri, t in self.texts().items()
            for match in re.finditer(r"(?<=def )\w+", t)
            if params["query"] in match[0]
        ]

    def _rename(self, params: Json) -> Json:
        changes: dict[str, list[Json]] = {}
        for place in self._places(self._word_at(params)):
            edit = {"range": place["range"], "newText": params["newName"]}
            changes.setdefault(place["uri"], []).append(edit)
        buffers = self._editor.buffers
        versions = {uri: buffers[uri].version if uri in buffers else None for uri in changes}
        return {
            "documentChanges": [
                {"textDocument": {"uri": uri, "version": versions[uri]}, "edits": edits}
                for uri, edits in changes.items()
            ]
        }

    def _range(self, text: str, match: re.Match[str]) -> Json:
        ends = (self._editor.position(text, offset) for offset in match.span())
        return dict(zip(("start", "end"), ends, strict=True))


def python_file(world: World, name: str, text: str) -> Path:
    path = world.project / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return path
