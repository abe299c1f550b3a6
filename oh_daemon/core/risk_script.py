"""Walks the syntax tree of a bash script and rates every command, redirect and assignment.

Invariant: syntax without a rule here is rated high; what only the shell can know is `UNKNOWN`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from tree_sitter import Node

from oh_daemon.core.risk_braces import expand_braces
from oh_daemon.core.risk_commands import Around, Finding, rate_path, rate_variable, rate_words
from oh_daemon.core.risk_numbers import evaluated_texts
from oh_daemon.core.risk_paths import UNKNOWN, Ground
from oh_daemon.core.risk_programs import find_program
from oh_daemon.core.risk_rules import SECRET_NAME
from oh_daemon.core.risk_tree import enclosing, parse_script, text_of, unread_texts
from oh_daemon.core.risk_values import always_runs, cut_value, is_plain, plain_values, settled_names

# Syntax that does nothing by itself: only what it contains counts.
_TRANSPARENT = frozenset(
    """program list compound_statement do_group if_statement elif_clause else_clause
    case_statement case_item negated_command while_statement for_statement c_style_for_statement
    test_command binary_expression unary_expression postfix_expression ternary_expression
    test_operator parenthesized_expression subscript heredoc_redirect herestring_redirect
    pipeline subshell command_substitution process_substitution arithmetic_expansion
    brace_expression string array translated_string concatenation expansion simple_expansion
    word ansi_c_string raw_string number redirected_statement comment heredoc_start heredoc_body
    heredoc_content heredoc_end file_descriptor special_variable_name variable_name regex
    extglob_pattern string_content""".split()  # noqa: SIM905
)
_LOOPS = ("while_statement", "for_statement", "c_style_for_statement", "function_definition")
_MAX_CHARS = 8_000
"""How much text of loops is looked at again, once for each combination of values."""
_APART = ("subshell", "command_substitution", "process_substitution", "pipeline")


def rate_code(code: str, ground: Ground) -> Iterator[Finding]:
    """Yield a finding for everything that the code does when a shell runs it."""
    root = parse_script(code)
    if root is None:
        yield Finding("high", "it cannot be understood as a shell command", words=(UNKNOWN,))
        return
    script = _Script(ground, settled_names(root))
    script.walk(root)
    yield from script.findings
    for text in (*unread_texts(root), *evaluated_texts(root)):
        yield Finding("high", f"it evaluates {text}, which may hold a command", words=(UNKNOWN,))


class _Script:
    """The findings so far, and what is known at this point.

    That is where relative paths start, what variables hold, and which functions there are; of each
    of these, whether it changes the folder.
    """

    def __init__(self, ground: Ground, settled: frozenset[str]) -> None:
        self.findings: list[Finding] = []
        self._ground = ground
        self._settled = settled
        self._values: dict[str, str] = {}
        self._functions: dict[str, bool] = {}
        self._n_walks = 1

    def walk(self, node: Node) -> None:
        before = self._ground
        if node.type in _LOOPS and _changes_folder(node):
            # The next iteration starts wherever this one ended, which is not known.
            self._ground = before._replace(cwd=None)
        _VISITS.get(node.type, _Script.walk_inside)(self, node)
        if node.type in _APART:
            self._ground = before

    def walk_inside(self, node: Node) -> None:
        """Walk the children in order; after a `cd`, which may fail, the folder is not known."""
        if node.type not in _TRANSPARENT:
            self._high(f"it holds shell syntax without a rule ({node.type})")
        for child in node.children:
            before = self._ground
            if child.type == "&":
                self.findings.append(Finding("medium", "it runs in the background", words=("&",)))
            elif child.is_named:
                self.walk(child)
            if self._ground != before:
                self._ground = before._replace(cwd=None)

    def walk_list(self, node: Node) -> None:
        """Walk `a && b`: b runs only if a `cd` in a succeeded, so it starts in that folder."""
        if any(child.type == "||" for child in node.children):
            self.walk_inside(node)
            return
        self.walk(node.children[0])
        self.walk(node.children[-1])

    def visit_command(self, node: Node) -> None:
        words: list[str] = []
        for part in _parts(node):
            if part.type == "variable_assignment" and words:
                words.append("=".join(self._assignment(part)))
            elif part.type == "file_redirect":
                words += self.visit_redirect(part)
            elif part.type in _BESIDE or (part.type == "subshell" and words == ["time"]):
                self.walk(part)
            else:
                words += self._expand(part)
        ground = self._ground
        if words and words[0] in self._functions:
            # What its body does was rated where it is defined.
            self.findings.append(Finding("low", "", words=tuple(words)))
            self._ground = ground._replace(cwd=None) if self._functions[words[0]] else ground
            return
        if words[:1] == ["unset"]:
            self._functions.clear()
        self.findings += rate_words(words, Around(ground, rate_code))
        if words[:1] in (["cd"], ["pushd"], ["popd"]):
            target = words[1] if words[0] != "popd" and len(words) > 1 else "-"
            self._ground = ground.moved(target)

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
        targets = [self._resolve(n) for n in node.children_by_field_name("destination")]
        if not targets:
            self._high("it redirects to a place that is not known")
        elif not (operator.endswith("&") and re.fullmatch(r"\d+-?|-", targets[0])):
            found = rate_path(targets[0], self._ground, "read" if operator == "<" else "write")
            if found.risk != "low":
                reason = found.reason or f"it changes {targets[0]}"
                found = found._replace(reason=reason, words=(operator, targets[0]))
            self.findings.append(found)
        return targets[1:]

    def visit_function(self, node: Node) -> None:
        name, body = text_of(node.children[0]), node.children[-1]
        if find_program(name)[1] != "unknown":
            self._high(f"it gives {name} another meaning")
        if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text_of(body)):
            self._high("it defines a function that calls itself")
        self.walk(body)
        if always_runs(node):
            self._functions[name] = _changes_folder(body)

    def visit_text(self, node: Node) -> None:
        # In arithmetic a text is evaluated as an operand, and a command in an index of it runs.
        if re.search(r"\$\(|`", text_of(node)):
            self._high("it evaluates a text that runs a command")

    def visit_ansi_text(self, node: Node) -> None:
        # In `"${x+$'…'}"` bash decodes the text first and then expands what comes out.
        if enclosing(node, "expansion") and re.search(r"[$`]|\\[xuUc0-7]", text_of(node)[1:]):
            self._high("it expands a text that it has decoded")

    def visit_assignment(self, node: Node) -> None:
        name, value = self._assignment(node)
        # Before `read` it holds for this one command, and says only how that splits a line.
        reader = node.parent and node.parent.child_by_field_name("name")
        if name == "IFS" and reader is not None and text_of(reader) == "read":
            return
        self.findings.append(rate_variable(name, value))
        if name in self._settled and is_plain(node) and always_runs(node):
            self._values[name] = plain_values([value])[0]

    def visit_loop(self, node: Node) -> None:
        """Walk the body of a `for` with each value that its variable gets."""
        name, body = text_of(node.named_children[0]), node.children[-1]
        self.findings.append(rate_variable(name, UNKNOWN))
        nodes = node.children_by_field_name("value")
        values = plain_values([word for part in nodes for word in self._expand(part)])
        n_chars = self._n_walks * len(values) * len(text_of(body))
        if name not in self._settled or n_chars > _MAX_CHARS:
            values = [UNKNOWN]
        self._n_walks *= len(values)
        for value in values:
            self._values[name] = value
            self.walk(body)
        self._n_walks //= len(values)
        del self._values[name]

    def visit_expansion(self, node: Node) -> None:
        text = text_of(node)
        if given := re.match(r"\$\{(\w+)(\[.*\])?:?=", text):
            self.findings.append(rate_variable(given[1], UNKNOWN))
        is_secret = re.match(rf"\$\{{?[A-Z_\d]*{SECRET_NAME}", text) and not _is_emptiness(node)
        if "!" in text[:3] or is_secret:
            self._high(f"it uses {text}, which may hold a secret")
        self.walk_inside(node)

    def _high(self, reason: str) -> None:
        self.findings.append(Finding("high", reason))

    def _assignment(self, node: Node) -> tuple[str, str]:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        return text_of(name) if name else UNKNOWN, self._resolve(value) if value else ""

    def _expand(self, node: Node) -> list[str]:
        """Return the words that one word of a command expands to."""
        may_be_list = node.type in ("word", "concatenation", "brace_expression")
        if not may_be_list or "{" not in text_of(node):
            return [self._resolve(node)]
        is_whole = node.type != "concatenation"
        masked = self._mask(node) if is_whole else self._compose(node, self._mask)
        words = expand_braces(masked)
        if words is None:
            self._high("its lists in braces are too long to be looked at")
        return [word.translate(_SHOWN) for word in words or ()]

    def _mask(self, node: Node) -> str:
        """Return part of a word with stand-ins for quoted braces, which do not expand."""
        text = text_of(node)
        if node.type in ("word", "number") and node.child_count == 0:
            return re.sub(r"\\(?:\n|(.))", lambda m: (m[1] or "").translate(_QUOTED), text)
        return text if node.type == "brace_expression" else self._resolve(node).translate(_QUOTED)

    def _resolve(self, node: Node) -> str:
        """Return what the shell makes of one word, `UNKNOWN` for parts that only it knows."""
        text, is_leaf = text_of(node), node.child_count == 0
        match node.type:
            case "raw_string":
                return text[1:-1]
            case "string":
                return re.sub(r'\\(?:\n|(["\\$`]))', r"\1", self._compose(node)[1:-1])
            case "word" | "concatenation" if re.search(r"\{.*(,|\.\.).*\}", text):
                self.walk_inside(node)
                return UNKNOWN
            case "word" | "number" | "variable_name" | "extglob_pattern" | "regex" if is_leaf:
                return re.sub(r"\\(?:\n|(.))", r"\1", text)
            case kind if kind in _DECLARES:
                return text
            case "concatenation" | "command_name" | "array" | "test_operator" | "number":
                return self._compose(node)
            case "simple_expansion" if text in _KNOWN:
                return _KNOWN[text]
            case _:
                self.walk(node)
                return self._value(node) or _STANDS_FOR.get(node.type, UNKNOWN)

    def _value(self, node: Node) -> str | None:
        name = re.match(r"\$\{?(\w+)", text_of(node))
        # Which program runs should be seen without following a variable.
        if name is None or name[1] not in self._values or enclosing(node, "command_name"):
            return None
        value = self._values[name[1]]
        if node.type == "simple_expansion" or value == UNKNOWN:
            return value
        return cut_value(text_of(node), value) if node.type == "expansion" else None

    def _compose(self, node: Node, resolve: Callable[[Node], str] | None = None) -> str:
        """Return the node's text, each part resolved; keep spaces that are in no part."""
        resolve = resolve or self._resolve
        source, end, parts = node.text or b"", 0, list[str]()
        for child in node.children:
            begin = child.start_byte - node.start_byte
            parts.append(source[end:begin].decode("utf-8", "replace"))
            inert = not child.is_named or child.type in ("string_content", "brace_expression")
            parts.append(text_of(child) if inert else resolve(child))
            end = child.end_byte - node.start_byte
        return "".join(parts) + source[end:].decode("utf-8", "replace")


_QUOTED = {ord(char): chr(code) for code, char in enumerate("{,.}", 1)}
"""Stand-ins for quoted characters: control characters, which no command may contain."""
_SHOWN = {ord(code): chr(char) for char, code in _QUOTED.items()}
_DECLARES = ("unset", "export", "declare", "typeset", "local", "readonly")
_BESIDE = (
    *("variable_assignment", "herestring_redirect", "heredoc_start", "heredoc_body", "heredoc_end"),
    *("command", "pipeline", "list", "redirected_statement", "file_descriptor"),
)
"""Nodes among the words of a command that are not words of it."""

_KNOWN = {"$HOME": "~", "$PWD": ".", "$!": "%%"}
"""`$!` is the number of the job started last, which `%%` names too."""
_STANDS_FOR = {"arithmetic_expansion": "0", "process_substitution": "/dev/fd/63"}

_VISITS: dict[str, Callable[[_Script, Node], object]] = {
    "list": _Script.walk_list,
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
    "raw_string": _Script.visit_text,
    "ansi_c_string": _Script.visit_ansi_text,
}


def _is_emptiness(node: Node) -> bool:
    """Return whether only this counts of a variable: `[ -n "$TOKEN" ]`."""
    above = node.parent
    while above is not None and above.type in ("string", "concatenation"):
        above = above.parent
    operator = above.children[0] if above and above.type == "unary_expression" else node
    return text_of(operator) in ("-n", "-z")


def _changes_folder(node: Node) -> bool:
    return re.search(r"\b(cd|pushd|popd)\b", text_of(node)) is not None


def _parts(node: Node) -> Iterable[Node]:
    """Yield the parts of a command and of its redirects, also those on a heredoc's line."""
    for child in node.children:
        body = child.type == "command" and node.type == "redirected_statement"
        if body or child.type == "heredoc_redirect":
            yield from _parts(child)
        elif child.is_named or child.type in _DECLARES:
            yield child
