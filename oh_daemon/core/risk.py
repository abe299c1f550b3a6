"""How risky a shell command is: walks its syntax tree and rates every command in it.

Rates only; who is asked is decided by `consent`. Invariant: what is not understood is high, and
nothing that stands around a command makes it look safer than it is alone.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from oh_daemon.contract.items import Risk
from oh_daemon.core.risk_commands import (
    ORDER,
    Finding,
    Scene,
    is_secret_name,
    rate_path,
    rate_variable,
    rate_words,
    worst,
)
from oh_daemon.core.risk_paths import UNKNOWN, Ground
from oh_daemon.core.risk_rules import find_rule

_MAX_DEPTH = 60
"""Nesting, also of code in quotes; a person would not follow it further either."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One simple command, redirect or assignment within a script."""

    text: str
    risk: Risk
    reason: str


@dataclass(frozen=True, slots=True)
class Rating:
    """The worst of a command's segments."""

    risk: Risk
    reasons: tuple[str, ...]
    """Why it is not less risky, each once."""
    segments: tuple[Segment, ...]


def rate_command(
    command: str, folders: Sequence[Path | str], cwd: Path | str | None = None
) -> Rating:
    """Rate a command for bash that starts in `cwd`, by default the first folder. Never raises."""
    hidden = _find_hidden(command)
    if hidden:
        return Rating("high", (hidden,), (Segment(command, "high", hidden),))
    places = tuple(str(folder).rstrip("/") for folder in folders)
    start = str(cwd) if cwd is not None else next(iter(places), None)
    script = _Script(Ground(places, frozenset([start])))
    try:
        script.rate_code(command)
    # A wrong rating lets a command run unasked: whatever goes wrong here must ask a person.
    except Exception as exc:  # noqa: BLE001
        script.add(command, Finding("high", f"rating it stopped with {type(exc).__name__}"))
    return script.rating()


def display_escaped(text: str) -> str:
    """The text with everything visible that a reader would not see or would see elsewhere."""
    return "".join(
        c
        if c in "\n\t" or not _is_hidden(c)
        else f"\\x{ord(c):02x}"
        if c <= "\xff"
        else f"\\u{{{ord(c):x}}}"
        for c in text
    )


def _is_hidden(char: str) -> bool:
    if char.isascii():
        return not char.isprintable()
    return (
        unicodedata.category(char)[0] in "CZ"
        or char in "\u115f\u1160\u3164\uffa0\u2800\u034f"
        or "\ufe00" <= char <= "\ufe0f"
    )


def _find_hidden(command: str) -> str | None:
    for char in command:
        if char in "\n\t":
            continue
        if _is_hidden(char):
            return f"it holds the hidden character U+{ord(char):04X}"
        if (
            not char.isascii()
            and re.search(r"[^\w\s]", unicodedata.normalize("NFKC", char), re.ASCII)
            and unicodedata.normalize("NFKC", char).isascii()
        ):
            return f"it holds U+{ord(char):04X}, which looks like another character"
    return None


class _Script:
    """Walks one script, and the code within it, and collects what it finds."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._found: dict[Segment, None] = {}
        self._kinds: list[str] = []
        self._functions: frozenset[str] = frozenset()
        self._variables: dict[str, str] = {}
        self._code = ""
        self._depth = 0

    def rating(self) -> Rating:
        found = {segment.risk for segment in self._found}
        ranked: list[Risk] = [risk for risk in ORDER if risk in found]
        risk = ranked[-1] if ranked else "low"
        reasons = (segment.reason for segment in self._found if segment.risk == risk)
        return Rating(risk, tuple(dict.fromkeys(reasons)), tuple(self._found))

    def add(self, text: str, finding: Finding) -> None:
        self._found[Segment(text, finding.risk, finding.reason)] = None
        if finding.kind == "run" and "fetch" in self._kinds:
            why = "runs code after it fetched something"
            self._found[Segment(text, "high", why)] = None
        self._kinds.append(finding.kind)

    def rate_code(self, code: str) -> Finding:
        """Add what a text does that a shell runs; the result is the worst of it."""
        self._depth += 1
        tree = Parser(_language()).parse(code.encode("utf-8", "surrogatepass"))
        if tree.root_node.has_error or self._depth > _MAX_DEPTH:
            finding = Finding("high", "it cannot be understood as a shell command")
            self.add(code, finding)
            return finding
        outer = self._code, self._variables, self._found
        self._code, self._variables, self._found = code, {}, {}
        self._walk(tree.root_node)
        worst_segment = self.rating()
        inner = self._found
        self._code, self._variables, self._found = outer
        self._found |= inner
        self._depth -= 1
        return Finding(worst_segment.risk, next(iter(worst_segment.reasons), "does nothing"))

    def _walk(self, node: Node) -> None:
        kind = node.type
        if kind in _IGNORED:
            return
        visit = _VISITS.get(kind)
        if visit:
            visit(self, node)
        elif kind in _SEQUENCES:
            self._walk_sequence(node)
        elif kind in _EXPRESSIONS:
            self._walk_each(node.named_children)
        else:
            self.add(_text(node), Finding("high", f"it holds shell syntax without a rule ({kind})"))

    def _walk_each(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            self._walk(node)

    def _walk_sequence(self, node: Node) -> None:
        """One after the other; a `cd` among them may have failed when the next one starts."""
        for child in node.children:
            before = self._ground
            if child.type == "&":
                self.add(_text(node), Finding("medium", "goes on in the background"))
            elif child.is_named:
                self._walk(child)
            self._ground = _either(before, self._ground)

    def walk_list(self, node: Node) -> None:
        """`a && b`: after a `cd` that succeeded b starts in its folder and nowhere else."""
        left, right = node.named_children[0], node.named_children[-1]
        before = self._ground
        self._walk(left)
        if any(child.type == "||" for child in node.children):
            self._ground = _either(before, self._ground)
        self._walk(right)

    def walk_apart(self, node: Node) -> None:
        """What runs in a shell of its own, whose folder does not count afterwards."""
        before = self._ground
        self._walk_sequence(node)
        self._ground = before

    def walk_pipeline(self, node: Node) -> None:
        first = len(self._kinds)
        self.walk_apart(node)
        kinds = self._kinds[first:]
        if "stream" in kinds and "run" in kinds[kinds.index("stream") :]:
            self.add(_text(node), Finding("high", "runs what it fetches from the network"))

    def walk_loop(self, node: Node) -> None:
        before = self._ground
        self._walk_sequence(node)
        if self._ground != before:
            # The next round starts where this one ended, and so on.
            self._ground = Ground(before.folders, before.cwds | self._ground.cwds | {None})
            self._walk_sequence(node)

    def walk_for(self, node: Node) -> None:
        """The body once for each value, when they are few and can be known."""
        variable = node.child_by_field_name("variable")
        body = node.child_by_field_name("body")
        values = [w for n in node.children_by_field_name("value") for w in self._words(n)]
        if variable is None or body is None or len(values) > _MAX_VALUES:
            values = []
        name = _text(variable) if variable else ""
        known = values and self._is_assigned_once(name) and self._depth < _MAX_DEPTH
        for value in values if known else [UNKNOWN]:
            self._variables[name] = value if _PLAIN_VALUE.fullmatch(value) else UNKNOWN
            if body:
                self.walk_loop(body)

    def walk_function(self, node: Node) -> None:
        name, body = node.named_children[0], node.named_children[-1]
        if find_rule(_text(name)):
            self.add(_text(node), Finding("high", f"gives {_text(name)} another meaning"))
        if re.search(rf"(?<![\w-]){re.escape(_text(name))}(?![\w-])", _text(body)):
            self.add(_text(node), Finding("high", "defines a function that calls itself"))
        self._functions |= {_text(name)}
        self.walk_loop(body)

    def walk_redirected(self, node: Node) -> None:
        body = node.child_by_field_name("body")
        redirects = node.children_by_field_name("redirect")
        # The grammar counts the words after a redirect as its own: in `rm > log -rf ~` too.
        extra = [word for redirect in redirects for word in self._visit_redirect(redirect)]
        if body is not None and body.type == "command":
            self.visit_command(body, extra)
            return
        if body is not None:
            self._walk(body)
        if extra:
            self.add(_text(node), Finding("high", "it has words after a redirect"))

    def _visit_redirect(self, node: Node) -> list[str]:
        """Rate where a redirect leads; returns the words after it, which are the command's."""
        if node.type != "file_redirect":
            return self._visit_here(node)
        operator = next((c.type for c in node.children if not c.is_named), "")
        targets = [w for n in node.children_by_field_name("destination") for w in self._words(n)]
        if not targets:
            self.add(_text(node), Finding("high", "redirects to what is not known"))
            return []
        if not (operator.endswith("&") and re.fullmatch(r"\d+-?|-", targets[0])):
            finding = rate_path(targets[0], self._ground, writing=operator != "<")
            self.add(_text(node), finding)
            if finding.risk != "low" and operator != "<" and "stream" in self._kinds[-8:]:
                self._kinds.append("fetch")
        return targets[1:]

    def _visit_here(self, node: Node) -> list[str]:
        extra: list[str] = []
        for child in node.named_children:
            if child.type in _WORDS:
                extra += self._words(child)
            elif child.type.endswith("_redirect"):
                extra += self._visit_redirect(child)
            elif child.type == "heredoc_body":
                self._visit_body(
                    child, quoted=bool(re.search(r"['\"\\\\]", _text(node.children[1])))
                )
            else:
                self._walk(child)
        return extra if node.type == "heredoc_redirect" else []

    def _visit_body(self, body: Node, *, quoted: bool) -> None:
        """A heredoc without quotes at its start is expanded; the grammar misses some of it."""
        if quoted:
            return
        self._compose(body)
        parsed = sum(child.type == "command_substitution" for child in body.children)
        if "`" in _text(body) or len(re.findall(r"\$\((?!\()", _text(body))) > parsed:
            self.add(_text(body), Finding("high", "its heredoc runs commands"))

    def visit_command(self, node: Node, extra: Sequence[str] = ()) -> None:
        words: list[str] = []
        findings: list[Finding] = []
        for child in node.children:
            if child.type == "variable_assignment":
                findings.append(self._rate_assignment(child))
            elif child.type.endswith("_redirect"):
                words += self._visit_redirect(child)
            elif child.type == "command_name":
                words += self._words(child.children[0])
            else:
                words += self._words(child)
        words += extra
        scene = Scene(self._ground, self._functions, self.rate_code)
        # The command's own finding comes first: its kind counts for those around it.
        self.add(_text(node), worst(rate_words(words, scene), *findings))
        if words[:1] in (["cd"], ["pushd"], ["popd"]):
            target = next((w for w in words[1:] if not w.startswith("-")), "")
            known = words[0] == "cd" and target and "-" not in words
            self._ground = self._ground.enter(target if known else UNKNOWN)

    def visit_declaration(self, node: Node) -> None:
        words = [_text(node.children[0])]
        for child in node.children[1:]:
            if child.type == "variable_assignment":
                words.append(f"{self._assigned(child)}={self._value(child)}")
            else:
                words += self._words(child)
        self.add(_text(node), rate_words(words, Scene(self._ground, frozenset(), self.rate_code)))

    def visit_assignment(self, node: Node) -> None:
        finding = self._rate_assignment(node)
        self.add(_text(node), finding)
        name, value = self._assigned(node), self._value(node)
        # Only what certainly runs first, and never changes, is sure to be the value later.
        top = node.parent is not None and node.parent.type == "program"
        sure = top and self._is_assigned_once(name) and _PLAIN_VALUE.fullmatch(value)
        self._variables[name] = value if sure else UNKNOWN

    def _rate_assignment(self, node: Node) -> Finding:
        return rate_variable(self._assigned(node), self._value(node))

    def _assigned(self, node: Node) -> str:
        name = node.child_by_field_name("name")
        return _text(name) if name is not None else UNKNOWN

    def _value(self, node: Node) -> str:
        value = node.child_by_field_name("value")
        return " ".join(self._words(value)) if value is not None else ""

    def _is_assigned_once(self, name: str) -> bool:
        if re.search(
            r"\b(eval|source|read|printf|unset|declare|let|getopts|mapfile)\b", self._code
        ):
            return False
        return len(re.findall(rf"(?<![$\w{{]){re.escape(name)}(?!\w)", self._code)) == 1

    def _words(self, node: Node) -> list[str]:
        """What the shell makes of one word, parts that only it knows as `UNKNOWN`."""
        text = self._resolve(node)
        if "{" not in text or node.type not in ("word", "concatenation"):
            return [text]
        if any(child.type not in ("word", "number", "brace_expression") for child in node.children):
            return [UNKNOWN] if "," in text else [text]
        return _expand_braces(text)

    def _resolve(self, node: Node) -> str:  # noqa: C901 - one case for each kind of word
        text = _text(node)
        match node.type:
            case (
                "word" | "number" | "extglob_pattern" | "regex" | "test_operator" | "variable_name"
            ):
                return (
                    re.sub(r"\\(?:\n|(.))", r"\1", text)
                    if not node.named_children
                    else self._compose(node)
                )
            case "raw_string":
                return text[1:-1]
            case "ansi_c_string":
                return UNKNOWN if "\\" in text else text[2:-1]
            case "string":
                return re.sub(r'\\(?:\n|(["\\$`]))', r"\1", self._compose(node)[1:-1])
            case "concatenation" | "array" | "translated_string":
                return self._compose(node)
            case "simple_expansion" | "expansion":
                return self._expand(node)
            case "arithmetic_expansion":
                self._walk_each(node.named_children)
                return "0"
            case "brace_expression":
                return "0"
            case "process_substitution":
                self._walk(node)
                return "/dev/fd/63"
            case _:
                self._walk(node)
                return UNKNOWN

    def _compose(self, node: Node) -> str:
        """The node's text with each part resolved; the grammar leaves some spaces between them."""
        source, start = node.text or b"", node.start_byte
        parts: list[str] = []
        end = 0
        for child in node.children:
            parts.append(source[end : child.start_byte - start].decode("utf-8", "replace"))
            inert = not child.is_named or child.type in ("string_content", "heredoc_content")
            parts.append(_text(child) if inert else self._resolve(child))
            end = child.end_byte - start
        return "".join(parts) + source[end:].decode("utf-8", "replace")

    def _expand(self, node: Node) -> str:
        """The value of a variable when it is sure; anything in its name may run code."""
        names = [child for child in node.named_children if child.type == "variable_name"]
        self._walk_each(c for c in node.named_children if c.type not in ("variable_name", *_INERT))
        name = _text(names[0]) if names else ""
        if "!" in _text(node)[:3] or (name.isupper() and is_secret_name(name)):
            self.add(_text(node), Finding("high", f"uses {_text(node)}, which may hold a secret"))
        plain = _text(node).strip("${}") == name
        home = {"HOME": "~", "PWD": "."} if plain else {}
        return self._variables.get(name, home.get(name, UNKNOWN)) if plain else UNKNOWN

    def visit_word(self, node: Node) -> None:
        self._words(node)


_MAX_VALUES = 6
_MAX_BRACED = 64
_PLAIN_VALUE = re.compile(r"[\w./:@%+,*?-]*")

_IGNORED = frozenset(
    ["comment", "heredoc_start", "heredoc_end", "file_descriptor", "special_variable_name"]
)
_INERT = ("special_variable_name", "number", "regex", "extglob_pattern")
_SEQUENCES = frozenset(
    [
        "program",
        "compound_statement",
        "do_group",
        "if_statement",
        "elif_clause",
        "else_clause",
        "case_statement",
        "case_item",
        "negated_command",
    ]
)
_EXPRESSIONS = frozenset(
    [
        "test_command",
        "binary_expression",
        "unary_expression",
        "postfix_expression",
        "ternary_expression",
        "parenthesized_expression",
        "subscript",
        "c_style_for_statement",
        "heredoc_body",
        "string_content",
        "heredoc_content",
    ]
)
_WORDS = frozenset(
    [
        "word",
        "number",
        "string",
        "raw_string",
        "ansi_c_string",
        "translated_string",
        "concatenation",
        "simple_expansion",
        "expansion",
        "arithmetic_expansion",
        "brace_expression",
        "extglob_pattern",
        "regex",
        "variable_name",
        "array",
        "test_operator",
    ]
)

_VISITS: dict[str, Callable[[_Script, Node], None]] = {
    **dict.fromkeys(_WORDS, _Script.visit_word),
    **dict.fromkeys(
        ("subshell", "command_substitution", "process_substitution"), _Script.walk_apart
    ),
    "list": _Script.walk_list,
    "pipeline": _Script.walk_pipeline,
    "while_statement": _Script.walk_loop,
    "for_statement": _Script.walk_for,
    "function_definition": _Script.walk_function,
    "redirected_statement": _Script.walk_redirected,
    "command": _Script.visit_command,
    "declaration_command": _Script.visit_declaration,
    "unset_command": _Script.visit_declaration,
    "variable_assignment": _Script.visit_assignment,
}


def _either(one: Ground, other: Ground) -> Ground:
    return one if one == other else Ground(one.folders, one.cwds | other.cwds)


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


def _expand_braces(text: str) -> list[str]:
    match = re.search(r"\{([^{}]*,[^{}]*)\}", text)
    if match is None:
        return [text]
    head, tail = text[: match.start()], text[match.end() :]
    words = (head + choice + tail for choice in match[1].split(","))
    return [word for choice in words for word in _expand_braces(choice)][:_MAX_BRACED]


@cache
def _language() -> Language:
    return Language(tree_sitter_bash.language())
