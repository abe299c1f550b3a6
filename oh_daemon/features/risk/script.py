"""Walks the syntax tree of a bash script and rates every command, redirect and assignment.

Invariant: what the grammar may read differently from bash, and what evaluates text that only the
shell knows, is high; a word, or the part of one, that only the shell knows is `UNKNOWN`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from oh_daemon.features.risk.commands import Finding, Inner, rate_path, rate_variable, rate_words
from oh_daemon.features.risk.effects import is_known
from oh_daemon.workspace.path_classes import UNKNOWN, RatingScope

_UNDERSTOOD = frozenset(
    """program list compound_statement do_group if_statement elif_clause else_clause case_statement
    case_item negated_command while_statement for_statement test_command binary_expression string
    unary_expression test_operator parenthesized_expression heredoc_redirect herestring_redirect
    pipeline subshell command_substitution process_substitution arithmetic_expansion command_name
    brace_expression array concatenation expansion simple_expansion word ansi_c_string raw_string
    number redirected_statement comment heredoc_start heredoc_body heredoc_content heredoc_end
    file_descriptor special_variable_name variable_name string_content subscript regex
    extglob_pattern""".split()  # noqa: SIM905 - reads like the grammar.
)
"""Syntax that does nothing by itself: only what it contains counts."""
_INERT = ("raw_string", "ansi_c_string", "comment", "heredoc_body", "heredoc_content")
"""Text in which nothing runs; that of heredocs is looked at as a whole."""
_EVALUATES = {
    "arithmetic_expansion": r"[^\d\s()+*/%<>=!&|^~?:.$\[\]-]|.\$",
    "compound_statement": r"^\(\(",
    "subshell": r"^\(\(",
    "command_substitution": r"^(\$\(\(|`)",
    "test_command": r"\s-v\s|[<>]\s*\(|^\[\[.*\s-(eq|ne|lt|le|gt|ge)\s",
    "subscript": r"\[(?!\d+\]|[@*]\])",
    "array": r"\[(?!\d+\]=)",
    "expansion": r"^\$\{!|@\w\}$|\$'|^\$\{[\w@*#]+(\[[^]]*\])?:(?![-+=?]|\s*-?\d+(:\s*\d+)?\})"
    r"|'[^']*(`|\$[({[])[^']*'",
    "heredoc_redirect": r"(?<!\\)(\\\\)*(`|\$[({[])",
    "": r"(?<!\\)(\\\\)*(`|\$[({[]|[<>]\()",
}
"""By the type of a node, or "" for the end of a branch: what in its text bash may evaluate.

As a number or name, where it runs commands in the index of an array, or as code that the grammar
takes for text: `$((x))`, `[[ $x -eq 1 ]]`, `${name#$(command)}`, `"${name+'$(command)'}"`, where
single quotes are text (bash(1), Parameter Expansion). Only plain numbers are sure."""
_REPLACED = {
    "arithmetic_expansion": "0",
    "process_substitution": "/dev/fd/63",
    **dict.fromkeys(("command_substitution", "expansion", "simple_expansion"), UNKNOWN),
    **dict.fromkeys(("ansi_c_string", "brace_expression"), UNKNOWN),
}
"""Parts of words that the shell replaces, and what stands for them here."""
_MOVE = re.compile(r"\b(cd|pushd|popd)\b")
_MOVES = re.compile(rf"\s*cd +([\w./~-]+) *(?:&&(?:(?!{_MOVE.pattern})(?:[^;&|\n]|&&|\|(?!\|)))*)?")
"""`cd FOLDER && …`, where all that follows runs in the folder; else nobody knows who is where."""
_MAX_DEPTH = 16
_SECRET = r"\$\{?[A-Z_\d]*(?i:key\b|keys\b|_key_|token|secret|passw|credential|_pat\b|auth)"  # noqa: S105


def rate_code(code: str, scope: RatingScope, depth: int = 0) -> Iterator[Finding]:
    """Yield a finding for everything that the code does when a shell runs it.

    `depth` is the number of commands that it stands in.
    """
    root = Parser(_language()).parse(code.encode("utf-8", "surrogatepass")).root_node
    # The grammar joins a line that is only a backslash with the wrong line.
    if root.has_error or re.search(r"(^|\n)\s*\\\n", code):
        yield Finding("high", "it cannot be understood as a shell command", words=(UNKNOWN,))
        return
    script = _Script(code, scope, depth)
    script.walk(root)
    yield from script.findings
    for text in _evaluated_texts(root):
        yield Finding("high", f"it evaluates {text}, which may hold a command", words=(UNKNOWN,))


@cache
def _language() -> Language:
    return Language(tree_sitter_bash.language())


def _evaluated_texts(root: Node) -> Iterator[str]:
    nodes = list(_every(root))
    starts = [text_of(node) for node in nodes if node.type == "heredoc_start"]
    # The grammar mixes up the texts of two heredocs on one line.
    is_quoted = all(re.search(r"['\"\\]", start) for start in starts)
    for node in nodes:
        is_end = node.is_named and node.child_count == 0 and node.type not in _INERT
        pattern = _EVALUATES.get("" if is_end else node.type)
        if pattern is None or (node.type == "heredoc_redirect" and is_quoted):
            continue
        # A test that is the argument of a command is text for bash.
        is_argument = node.type == "test_command" and node.parent and node.parent.type == "command"
        if is_argument or re.search(pattern, text_of(node), re.DOTALL):
            yield text_of(node)


def _every(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from _every(child)


def _rate_inner(inner: Inner, depth: int) -> Iterator[Finding]:
    """Yield findings for a command, and for those that it runs in their turn."""
    code, scope, is_guess = inner
    if depth > _MAX_DEPTH:
        yield Finding("high", "too many commands stand in each other", words=(UNKNOWN,))
    elif isinstance(code, str):
        yield from rate_code(code, scope, depth)
    else:
        for n, finding in enumerate(rate_words(code, scope)):
            if isinstance(finding, Inner):
                yield from _rate_inner(finding, depth + 1)
            else:
                yield finding._replace(words=()) if is_guess and n == 0 else finding


class _Script:
    """The findings so far, and where relative paths start at this point."""

    def __init__(self, code: str, scope: RatingScope, depth: int) -> None:
        self.findings: list[Finding] = []
        self._depth = depth
        self._start = scope
        moves = _MOVES.fullmatch(code)
        if moves or _MOVE.search(code):
            scope = scope.moved_to(moves[1] if moves else "-")
        self._scope = scope

    def walk(self, node: Node) -> None:
        visit = _VISITS.get(node.type)
        if visit is not None:
            visit(self, node)
            return
        if node.type not in _UNDERSTOOD:
            self._high(f"it holds shell syntax without a rule ({node.type})")
        for child in node.children:
            if child.type == "&":
                self.findings.append(Finding("medium", "it runs in the background", words=("&",)))
            elif child.is_named:
                self.walk(child)

    def visit_command(self, node: Node) -> None:
        words: list[str] = []
        for part in _parts(node):
            if part.type == "file_redirect":
                words += self.visit_redirect(part)
            elif part.type in _BESIDE or (part.type == "variable_assignment" and not words):
                self.walk(part)
            else:
                words.append(self._word(part))
        scope = self._start if words[:1] == ["cd"] else self._scope
        self.findings += _rate_inner(Inner(words, scope), self._depth)

    def visit_redirected(self, node: Node) -> None:
        body = node.child_by_field_name("body")
        if body is not None and body.type == "command":
            self.visit_command(node)
            return
        for child in node.named_children:
            if child.type == "file_redirect" and self.visit_redirect(child):
                self._high("it has words after a redirect")
            elif child.type != "file_redirect":
                self.walk(child)

    def visit_redirect(self, node: Node) -> list[str]:
        """Rate the target; return the words after it, which the grammar takes for targets too."""
        operator = next((child.type for child in node.children if not child.is_named), "")
        nodes = node.children_by_field_name("destination")
        targets = [self._word(each) for each in nodes]
        if not targets:
            self._high("it redirects to a place that is not known")
        elif not (operator.endswith("&") and re.fullmatch(r"\d+-?|-", targets[0])):
            finding = rate_path(targets[0], self._scope, "read" if operator == "<" else "write")
            if finding.risk != "low":
                reason = finding.reason or f"it changes {targets[0]}"
                finding = finding._replace(reason=reason, words=(operator, targets[0]))
            self.findings.append(finding)
        return targets[1:]

    def visit_function(self, node: Node) -> None:
        name_node = node.child_by_field_name("name")
        name, body = text_of(name_node or node), node.children[-1]
        self.findings.append(Finding("medium", f"it defines the function {name}"))
        if is_known(name):
            self._high(f"it gives {name} another meaning")
        if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text_of(body)):
            self._high("it defines a function that calls itself")
        self.walk(body)

    def visit_assignment(self, node: Node) -> None:
        name, value = node.children[0], node.child_by_field_name("value")
        # Before `read` it holds for this one command, and says only how that splits a line.
        reader = node.parent and node.parent.child_by_field_name("name")
        value_text = self._word(value) if value else ""
        if text_of(name) != "IFS" or reader is None or text_of(reader) != "read":
            self.findings.append(rate_variable(text_of(name), value_text))

    def visit_loop(self, node: Node) -> None:
        self.findings.append(rate_variable(text_of(node.named_children[0]), UNKNOWN))
        for value in node.children_by_field_name("value"):
            self.findings.append(rate_path(self._word(value), self._scope, "read"))
        self.walk(node.children[-1])

    def visit_expansion(self, node: Node) -> None:
        text = text_of(node)
        if match := re.match(r"\$\{(\w+)(\[.*\])?:?=", text):
            self.findings.append(rate_variable(match[1], UNKNOWN))
        if re.match(_SECRET, text):
            self._high(f"it uses {text}, which may hold a secret")
        for child in node.named_children:
            self.walk(child)

    def _high(self, reason: str) -> None:
        self.findings.append(Finding("high", reason, words=(UNKNOWN,)))

    def _word(self, node: Node) -> str:
        """Return what the shell makes of a word, with `UNKNOWN` for what only it knows."""
        text = self._replaced_text(node)
        if re.search(r"\{.*(,|\.\.)", _QUOTED.sub("", text)):
            self._high("it holds a list in braces, which is not looked at")
            return UNKNOWN
        return _QUOTED.sub(_unquote, text)

    def _replaced_text(self, node: Node) -> str:
        """Return a word as it is written, with stand-ins for what the shell replaces."""
        if node.type in _REPLACED:
            self.walk(node)
            return self._value(node)
        source, end, parts = node.text or b"", 0, list[str]()
        for child in node.children:
            begin = child.start_byte - node.start_byte
            parts += (source[end:begin].decode("utf-8", "replace"), self._replaced_text(child))
            end = child.end_byte - node.start_byte
        return "".join(parts) + source[end:].decode("utf-8", "replace")

    def _value(self, node: Node) -> str:
        """Return what stands for a part that the shell replaces: the value of a known variable."""
        name = re.fullmatch(r"\$(\w+)|\$\{(\w+)\}", text_of(node))
        values = {**_KNOWN, **self._scope.variables}
        value = values.get(name[1] or name[2], "") if name else ""
        # The shell splits the value at spaces, unless it stands in quotes.
        is_quoted = node.parent is not None and node.parent.type == "string"
        is_plain = re.fullmatch(r"[\w@%+,./ ~-]+" if is_quoted else r"[\w@%+,./~-]+", value)
        return value if is_plain else _REPLACED[node.type]


_KNOWN = {"HOME": "~", "PWD": "."}
_QUOTED = re.compile(r"""'([^']*)'|"((?:\\.|[^"\\])*)"|\\(.)""", re.DOTALL)


def _unquote(match: re.Match[str]) -> str:
    raw, text, escape = match.groups()
    if text is not None:
        return re.sub(r'\\(?:\n|(["\\$`]))', r"\1", text)
    return raw if raw is not None else escape.strip("\n")


_DECLARES = ("unset", "export", "declare", "typeset", "local", "readonly")
_BESIDE = (
    *("herestring_redirect", "heredoc_start", "heredoc_body", "heredoc_end", "file_descriptor"),
    *("command", "pipeline", "list", "redirected_statement", "subshell"),
)
"""Nodes among the words of a command that are not words of it."""
_VISITS: dict[str, Callable[[_Script, Node], object]] = {
    "command": _Script.visit_command,
    "declaration_command": _Script.visit_command,
    "unset_command": _Script.visit_command,
    "redirected_statement": _Script.visit_redirected,
    "file_redirect": _Script.visit_redirect,
    "function_definition": _Script.visit_function,
    "for_statement": _Script.visit_loop,
    "variable_assignment": _Script.visit_assignment,
    "simple_expansion": _Script.visit_expansion,
    "expansion": _Script.visit_expansion,
}


def text_of(node: Node) -> str:
    """Return the source text of a node."""
    return (node.text or b"").decode("utf-8", "replace")


def _parts(node: Node) -> Iterator[Node]:
    """Yield the parts of a command and of its redirects, also those on a heredoc's line."""
    for child in node.children:
        body = child.type == "command" and node.type == "redirected_statement"
        if body or child.type == "heredoc_redirect":
            yield from _parts(child)
        elif child.is_named or child.type in _DECLARES:
            yield child
