"""Finds out what variables hold where the script itself says so: it sets them once, to plain text.

An earlier command may have left anything in a variable, so a value counts only after the place that
sets it, and only if nothing else in the script could.
"""

from __future__ import annotations

import re
from collections import Counter

from tree_sitter import Node

from oh_daemon.core.risk_numbers import may_set_any
from oh_daemon.core.risk_paths import UNKNOWN
from oh_daemon.core.risk_tree import every_node, text_of

_MAX_VALUES = 8


def settled_names(script: Node) -> frozenset[str]:
    """Return the names that the script sets in one place only."""
    if may_set_any(script):
        return frozenset()
    setting = ("variable_assignment", "for_statement")
    nodes = [node for node in every_node(script) if node.type in setting]
    # `a[0]=x` sets a too.
    names = Counter(text_of(node.named_children[0]).partition("[")[0] for node in nodes)
    return frozenset(name for name, times in names.items() if times == 1)


def is_plain(assignment: Node) -> bool:
    """Return whether it gives a text to a whole variable: not `a+=x`, `a[0]=x` or `a=(x)`."""
    parts = [part.type for part in assignment.children]
    return parts[:2] == ["variable_name", "="] and "array" not in parts


def always_runs(node: Node) -> bool:
    """Return whether this part of a script runs in any case, and in the script's own shell."""
    parent = node.parent
    while parent is not None and parent.type == "list" and parent.children[0] == node:
        node, parent = parent, parent.parent
    following = node.next_sibling
    in_background = following is not None and following.type == "&"
    return parent is not None and parent.type == "program" and not in_background


def plain_values(values: list[str]) -> list[str]:
    """Return the values if they are few and each is one word of plain text, else an unknown one."""
    plain = all(value and not re.search(rf"[{UNKNOWN}\s]", value) for value in values)
    return values if plain and 0 < len(values) <= _MAX_VALUES else [UNKNOWN]


def cut_value(expression: str, value: str) -> str | None:
    """Return what `${name…}` makes of a value, or None when that takes more than looking at it."""
    match = re.fullmatch(r"\$\{\w+(?:(##\*/)|(%\.\*)|%(\.?\w+))?\}", expression)
    if match is None:
        return None
    if match[1]:
        return value.rpartition("/")[2]
    stem, dot, tail = value.rpartition(".")
    if match[2]:
        return stem if dot and re.fullmatch(r"\w+", tail) else None
    return value.removesuffix(match[3] or "") if (match[3] or "") in value else None
