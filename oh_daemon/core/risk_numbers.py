"""Finds where bash evaluates a text as a number, and so runs a command in an array index in it.

After `x=$(cat f)`, `$((x))` runs the command if f contains `a[$(command)]`. Nobody knows what an
earlier command left in a variable, so only what the script itself assigns counts as a number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile

from tree_sitter import Node

from oh_daemon.core.risk_tree import enclosing, every_node, text_of

_COMPARES = frozenset("-eq -ne -lt -le -gt -ge".split())  # noqa: SIM905 - reads like the shell.
_NUMBER = re.compile(
    r"""(["']?)[-+]?\d+\1|\{\d+\.\.\d+\}
    |\$\((seq\ [\d ]+|nproc|date\ \+%s|wc\ -[clw]\ ?<\ ?[\w./-]+
        |git\ rev-list\ --count\ [\w./~^-]+|([^()`$;&|<>\n]+\|)+\ *wc\ +-[clwm]\ *)\)""",
    re.VERBOSE,
)
_SETS_NAMES = re.compile(
    r"""\b(read|mapfile|readarray|getopts|eval|source|coproc|select|wait|let|unset|local|declare
    |typeset|readonly|export|trap)\b|-v|\$\{\w+:?=
    |(^|[;&|(){}!\n'"]|\b(if|then|do|else|elif|while|until|time|command|builtin)|[=<>]\s*\S*)\s*\.\s""",
    re.VERBOSE,
)
"""Other ways to give a variable a value."""
_BLOCKS = ("program", "do_group", "compound_statement")
_OPERATIONS = frozenset(
    """binary_expression unary_expression postfix_expression ternary_expression string
    parenthesized_expression""".split()  # noqa: SIM905 - as above.
)


def evaluated_texts(script: Node) -> Iterator[str]:
    """Yield what bash would evaluate as a number in this script although its value is unknown."""
    yield from _evaluated(script, _numeric_names(script), frozenset())


def _evaluated(node: Node, numeric: frozenset[str], known: frozenset[str]) -> Iterator[str]:
    """Yield the same for a node; `known` are the names that hold numbers at this point."""
    known |= _loop_names(node) & numeric
    read = _EVALUATED[node.type](node) if node.type in _EVALUATED else ()
    yield from (text_of(part) for part in read if not _is_number(part, known))
    after = (*(child.type for child in node.children[1:]), "")
    for child, next_type in zip(node.children, after, strict=False):
        yield from _evaluated(child, numeric, known)
        # What runs in the background sets no variable of this shell.
        if node.type in _BLOCKS and next_type != "&":
            assigned = {_name(child)} if child.type == "variable_assignment" else frozenset[str]()
            known |= (_loop_names(child) | assigned) & numeric


def may_set_any(script: Node) -> bool:
    """Return whether the script may set variables in other ways than by assignments and loops."""
    names = (text_of(node) for node in every_node(script) if node.type == "command_name")
    # A name in quotes is another spelling of any of these commands.
    return bool(
        _SETS_NAMES.search(text_of(script)) or any(re.search(r"[\\'\"`$]", name) for name in names)
    )


def _numeric_names(script: Node) -> frozenset[str]:
    """Return the names to which the script assigns only numbers, in all places."""
    if may_set_any(script):
        return frozenset()
    numeric: set[str] = set()
    other: set[str] = set()
    for node in every_node(script):
        if node.type == "variable_assignment":
            value = node.child_by_field_name("value")
            (numeric if value is not None and _is_value(value) else other).add(_name(node))
        elif node.type == "for_statement":
            values = node.children_by_field_name("value")
            (numeric if values and all(map(_is_value, values)) else other).update(_loop_names(node))
    return frozenset(numeric - other)


def _loop_names(node: Node) -> frozenset[str]:
    """Return the names that a loop sets before its body runs."""
    if node.type == "for_statement":
        return frozenset({text_of(node.named_children[0])})
    if node.type != "c_style_for_statement":
        return frozenset()
    first = takewhile(lambda part: part.type != ";", node.children)
    return frozenset(_name(part) for part in first if part.type == "variable_assignment")


def _arithmetic_command(node: Node) -> Sequence[Node]:
    """Read `((…))`: where the grammar sees subshells, bash first tries to read arithmetic."""
    return node.named_children if re.match(r"\$?\(\(", text_of(node)) else ()


def _offsets(node: Node) -> Sequence[Node]:
    """Read those of `${name:offset:length}`, and `${name@P}`, which expands as a prompt does."""
    signs = [text_of(child) for child in node.children if not child.is_named]
    if signs[-3:-1] == ["@", "P"]:
        return [node]
    return node.named_children[1:] if ":" in signs else ()


def _compared(node: Node) -> Sequence[Node]:
    """Read the operands of a comparison in `[[ ]]`; `[ ]` accepts only plain numbers."""
    if not any(text_of(child) in _COMPARES for child in node.children):
        return ()
    test = enclosing(node, "test_command")
    return node.named_children if test and text_of(test.children[0]) == "[[" else ()


def _tested(node: Node) -> Sequence[Node]:
    """Read the operand of `-v`, a name that may have an index."""
    operator, *operands = node.named_children
    is_name = text_of(operator) == "-v"
    return [part for part in operands if is_name and not re.fullmatch(r"\w+", text_of(part))]


_EVALUATED: dict[str, Callable[[Node], Sequence[Node]]] = {
    "arithmetic_expansion": lambda node: node.named_children,
    "compound_statement": _arithmetic_command,
    "subshell": _arithmetic_command,
    "command_substitution": _arithmetic_command,
    "c_style_for_statement": lambda node: node.named_children[:-1],
    "subscript": lambda node: [n for n in node.named_children[1:] if text_of(n) not in ("@", "*")],
    "array": lambda node: [n for n in node.named_children if re.match(r"\[(?!\d+\]=)", text_of(n))],
    "expansion": _offsets,
    "binary_expression": _compared,
    "unary_expression": _tested,
}
"""By the type of a node: the parts of it that bash evaluates as a number."""


def _is_number(node: Node, known: frozenset[str]) -> bool:
    text = text_of(node)
    if node.type == "variable_assignment":
        return _is_value(node.children[-1])
    if node.type in _OPERATIONS:
        return all(_is_number(child, known) for child in node.named_children)
    name = re.fullmatch(r"\$?(?P<brace>\{)?([A-Za-z_]\w*)(?(brace)\})", text)
    if name is not None:
        return name[2] in known
    is_count = node.type == "test_operator" or re.fullmatch(r"\$[?#$!]|\$\{#\w+\}", text)
    return bool(is_count) or _is_value(node)


def _is_value(node: Node) -> bool:
    # The text inside an expansion is checked separately; its result is a number.
    return node.type == "arithmetic_expansion" or _NUMBER.fullmatch(text_of(node)) is not None


def _name(assignment: Node) -> str:
    return text_of(assignment.children[0])
