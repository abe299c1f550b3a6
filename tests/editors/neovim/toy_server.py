"""The user's own language server for `*.py`, started by Neovim; it does what the tests need.

It counts columns in UTF-16, knows every `def` of the open documents, and calls `oops` an error.
"""

import re
from typing import Any

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer

server = LanguageServer("toy", "1.0")


def _position(text: str, offset: int) -> lsp.Position:
    line, start = text.count("\n", 0, offset), text.rfind("\n", 0, offset) + 1
    return lsp.Position(line, len(text[start:offset].encode("utf-16-le")) // 2)


def _range(text: str, match: re.Match[str]) -> lsp.Range:
    return lsp.Range(_position(text, match.start()), _position(text, match.end()))


def _word_at(text: str, position: lsp.Position) -> str:
    return next(
        match[0]
        for match in re.finditer(r"\w+", text)
        if _range(text, match).start <= position <= _range(text, match).end
    )


def _publish(uri: str) -> None:
    text = server.workspace.get_text_document(uri).source
    diagnostics = [
        lsp.Diagnostic(_range(text, match), f"{match[0]!r} is not defined", source="toy")
        for match in re.finditer(r"\boops\b", text)
    ]
    server.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, diagnostics))


@server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
def on_open(params: lsp.DidOpenTextDocumentParams) -> None:
    _publish(params.text_document.uri)


@server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
def on_change(params: lsp.DidChangeTextDocumentParams) -> None:
    _publish(params.text_document.uri)


@server.feature("toy/beginIndexing")
def begin_indexing(_params: Any) -> None:
    token = "indexing"
    server.work_done_progress.create(token)
    server.work_done_progress.begin(token, lsp.WorkDoneProgressBegin("Indexing"))


@server.feature("toy/endIndexing")
def end_indexing(_params: Any) -> None:
    server.work_done_progress.end("indexing", lsp.WorkDoneProgressEnd())


def _places(pattern: str) -> list[tuple[str, lsp.Location]]:
    """Return each match in the open documents, as Neovim opened them: its text and its place."""
    return [
        (match[0], lsp.Location(uri, _range(document.source, match)))
        for uri, document in sorted(server.workspace.text_documents.items())
        for match in re.finditer(pattern, document.source)
    ]


def _word(document: lsp.TextDocumentIdentifier, position: lsp.Position) -> str:
    return _word_at(server.workspace.text_documents[document.uri].source, position)


@server.feature(lsp.TEXT_DOCUMENT_REFERENCES)
def references(params: lsp.ReferenceParams) -> list[lsp.Location]:
    return [place for _, place in _places(rf"\b{_word(params.text_document, params.position)}\b")]


@server.feature(lsp.TEXT_DOCUMENT_DEFINITION)
def definition(params: lsp.DefinitionParams) -> list[lsp.Location]:
    return [
        place for _, place in _places(rf"(?<=def ){_word(params.text_document, params.position)}\b")
    ]


@server.feature(lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
def document_symbols(params: lsp.DocumentSymbolParams) -> list[lsp.SymbolInformation]:
    return [each for each in _functions() if each.location.uri == params.text_document.uri]


@server.feature(lsp.WORKSPACE_SYMBOL)
def workspace_symbols(params: lsp.WorkspaceSymbolParams) -> list[lsp.SymbolInformation]:
    return [each for each in _functions() if params.query in each.name]


def _functions() -> list[lsp.SymbolInformation]:
    return [
        lsp.SymbolInformation(place, name, lsp.SymbolKind.Function)
        for name, place in _places(r"(?<=def )\w+")
    ]


@server.feature(lsp.TEXT_DOCUMENT_RENAME)
def rename(params: lsp.RenameParams) -> lsp.WorkspaceEdit:
    changes: dict[str, list[lsp.TextEdit]] = {}
    for _, place in _places(rf"\b{_word(params.text_document, params.position)}\b"):
        changes.setdefault(place.uri, []).append(lsp.TextEdit(place.range, params.new_name))
    return lsp.WorkspaceEdit(changes)


@server.feature(lsp.TEXT_DOCUMENT_HOVER)
def hover(params: lsp.HoverParams) -> lsp.Hover:
    return lsp.Hover(f"`{_word(params.text_document, params.position)}`, a name")


if __name__ == "__main__":
    server.start_io()
