"""The user's own language server for `*.py`, started by Neovim; it does what the tests need.

It counts columns in UTF-16, knows every `def`, and calls `oops` an error.
"""

import re

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
    found = [
        lsp.Diagnostic(_range(text, match), f"{match[0]!r} is not defined", source="toy")
        for match in re.finditer(r"\boops\b", text)
    ]
    server.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, found))


@server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
def on_open(params: lsp.DidOpenTextDocumentParams) -> None:
    _publish(params.text_document.uri)


@server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
def on_change(params: lsp.DidChangeTextDocumentParams) -> None:
    _publish(params.text_document.uri)


@server.feature(lsp.TEXT_DOCUMENT_REFERENCES)
def references(params: lsp.ReferenceParams) -> list[lsp.Location]:
    """Return every place in the open documents, as Neovim opened them."""
    documents = server.workspace.text_documents
    word = _word_at(documents[params.text_document.uri].source, params.position)
    return [
        lsp.Location(uri, _range(document.source, match))
        for uri, document in sorted(documents.items())
        for match in re.finditer(rf"\b{word}\b", document.source)
    ]


@server.feature(lsp.TEXT_DOCUMENT_HOVER)
def hover(params: lsp.HoverParams) -> lsp.Hover:
    text = server.workspace.text_documents[params.text_document.uri].source
    return lsp.Hover(f"`{_word_at(text, params.position)}`, a name")


if __name__ == "__main__":
    server.start_io()
