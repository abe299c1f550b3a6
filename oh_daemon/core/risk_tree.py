"""Parses bash scripts, and finds code that the grammar leaves as mere text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

_QUOTING = ("raw_string", "ansi_c_string", "comment", "heredoc_body", "heredoc_content")
"""Text in which nothing runs, except in heredocs, which are checked as a whole."""


def parse_script(code: str) -> Node | None:
    """Return the tree's root, or None if this is no script or bash would read it differently."""
    root = Parser(_language()).parse(code.encode("utf-8", "surrogatepass")).root_node
    # The grammar joins a line that is only a backslash with the wrong line.
    return None if root.has_error or re.search(r"(^|\n)\s*\\\n", code) else root


@cache
def _language() -> Language:
    return Language(tree_sitter_bash.language())


def every_node(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from every_node(child)


def enclosing(node: Node, kind: str) -> Node | None:
    """Return the next node of this type that is above."""
    above = node.parent
    while above is not None and above.type != kind:
        above = above.parent
    return above


def unread_texts(root: Node) -> Iterator[str]:
    """Yield texts with a substitution that the grammar may not parse: `${name#$(command)}`."""
    nodes, code = list(every_node(root)), root.text or b""
    starts = [text_of(node) for node in nodes if node.type == "heredoc_start"]
    # The grammar mixes up the texts of two heredocs on one line.
    is_expanded = not all(re.search(r"['\"\\]", start) for start in starts)
    for node in nodes:
        pattern = _pattern_for(node, is_expanded=is_expanded)
        if pattern is not None and pattern.search(text_of(node)):
            yield text_of(node)
        elif node.type in ("<", ">") and code[node.end_byte - root.start_byte :][:1] == b"(":
            # A comparison for the grammar; bash runs what follows.
            yield text_of(node.parent or node)


def _pattern_for(node: Node, *, is_expanded: bool) -> re.Pattern[str] | None:
    """Return what must not occur in this node; None when nothing can hide in its text."""
    if node.type == "heredoc_redirect":
        return _HIDDEN_IN_QUOTES if is_expanded else None
    if node.type == "command_substitution":
        return _NESTED_BACKQUOTES
    if node.child_count > 0 or node.type in _QUOTING:
        return None
    if not node.is_named:
        return _TWO_AT_ONCE
    return _HIDDEN_IN_QUOTES if node.type == "string_content" else _HIDDEN


_NESTED_BACKQUOTES = re.compile(r"^`[^\\]*\\")
"""Between backquotes a backslash quotes for the outer command only."""
_TWO_AT_ONCE = re.compile(r"`\s*`")
_HIDDEN_IN_QUOTES = re.compile(r"(?<!\\)(\\\\)*(`|\$[({[])")
_HIDDEN = re.compile(r"(?<!\\)(\\\\)*(`|\$[({[]|[<>]\()")


def text_of(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")
