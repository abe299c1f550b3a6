"""Applies rules to a call. Pure; compares whole words of each part of a command.

To be allowed, every part must match a rule word for word. To deny or ask, a rule need match only
one part, and other words may stand between its own. A word that only the shell knows could be any
word: where a strict rule might match because of it, the answer is to ask.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache

from oh_daemon.features.risk.effects import bare_name, find_program
from oh_daemon.features.risk.rating import rate_command
from oh_daemon.kernel.approval_requests import Ruling
from oh_daemon.protocol.problems import Problem
from oh_daemon.protocol.rules_and_hooks import Rule
from oh_daemon.workspace.path_classes import UNKNOWN

Segments = Sequence[Sequence[str]]


def ruling_of(rules: Iterable[Rule], names: Sequence[str], segments: Segments) -> Ruling | None:
    """Return the strictest ruling on a call of the tool with these names, or None."""
    fitting = [rule for rule in rules if any(fnmatchcase(name, rule.tool) for name in names)]
    strict = [rule for rule in fitting if rule.decision != "allow"]
    for rule in sorted(strict, key=lambda rule: rule.decision != "deny"):
        if not rule.argv or any(_meets(rule, words) for words in segments):
            return Ruling("reject" if rule.decision == "deny" else "ask", rule.name)
    for rule in strict:
        if any(_may_meet(rule, words) for words in segments):
            return Ruling("ask", f"{rule.name}: it cannot be ruled out")
    allowing = [rule for rule in fitting if rule.decision == "allow"]
    matching_rules = [_allows(allowing, segments, words) for words in segments or [()]]
    return (
        Ruling("allow", matching_rules[0].name)
        if matching_rules[0] and all(matching_rules)
        else None
    )


def _allows(rules: Sequence[Rule], segments: Segments, words: Sequence[str]) -> Rule | None:
    """Return the rule that allows a part by its own words, or by those of a part that it ends.

    So a rule for `python -m pytest` allows the pytest in it too; one for `timeout` alone allows
    no command that timeout runs.
    """
    for rule in rules:
        if not rule.argv:
            return rule
        for segment in segments:
            n_before = len(segment) - len(words)
            is_end = n_before >= 0 and list(segment[n_before:]) == list(words)
            if is_end and len(rule.argv) > n_before and _begins(rule, segment):
                return rule
    return None


def check_rules(rules: tuple[Rule, ...]) -> tuple[tuple[Rule, ...], tuple[Problem, ...]]:
    """Return the rules that count, and which examples do not hold.

    A rule that allows counts only if its examples hold. Others count in any case: what was meant to
    be denied must not run for a wrong example.
    """
    rules_and_examples = [(rule, next(_wrong_examples(rule), None)) for rule in rules]
    valid = tuple(
        rule for rule, wrong in rules_and_examples if wrong is None or rule.decision != "allow"
    )
    problems = (
        Problem(
            "voidRule" if rule.decision == "allow" else "countingRule",
            rule.scope,
            rule.name,
            (wrong,),
        )
        for rule, wrong in rules_and_examples
        if wrong
    )
    return valid, tuple(problems)


def _meets_command(rule: Rule, command: str) -> bool:
    ruling = ruling_of((rule,), ("terminal",), _segments(command))
    return ruling is not None and ruling.effect == _EFFECTS[rule.decision]


@lru_cache(maxsize=256)
def _segments(command: str) -> Segments:
    return rate_command(command, ()).segments


_EFFECTS = {"deny": "reject", "ask": "ask", "allow": "allow"}


def _wrong_examples(rule: Rule) -> Iterator[str]:
    # The examples are commands, whatever tools the rule is for.
    plain = rule.model_copy(update={"tool": "terminal"})
    if rule.argv and not rule.match:
        yield "it needs match, commands that it must meet"
    for command in rule.match:
        if not _meets_command(plain, command):
            yield f"it does not meet its example {command!r}"
    for command in rule.not_match:
        if _meets_command(plain, command):
            yield f"it meets {command!r}, which it must not"


def _begins(rule: Rule, words: Sequence[str]) -> bool:
    return len(words) >= len(rule.argv) and all(
        _is_known(word) and word in _choices(pattern)
        for pattern, word in zip(rule.argv, _plain(words), strict=False)
    )


def _meets(rule: Rule, words: Sequence[str]) -> bool:
    """Return whether the rule's program comes first and its other words follow in their order.

    Other words may stand between them. If the program runs others, or may, any word after it may
    be the rule's program.
    """
    plain = _plain(words)
    starts = (
        range(len(plain))
        if plain and find_program(plain[0]).runs_others()
        else range(min(1, len(plain)))
    )
    return any(_in_order(rule, plain[start:]) for start in starts)


def _in_order(rule: Rule, words: Sequence[str]) -> bool:
    if words[0].rpartition("/")[2] not in _choices(rule.argv[0]):
        return False
    remaining_words = iter(words[1:])
    return all(
        any(word in _choices(pattern) for word in remaining_words) for pattern in rule.argv[1:]
    )


def _may_meet(rule: Rule, words: Sequence[str]) -> bool:
    if not words or not _is_known(words[0]):
        return True
    is_program = words[0].rpartition("/")[2] in _choices(rule.argv[0])
    program = find_program(bare_name(words[0]))
    may_run = program.usual != "unknown" and program.runs_others()
    return ((is_program and len(rule.argv) > 1) or may_run) and not all(map(_is_known, words))


def _plain(words: Sequence[str]) -> list[str]:
    return [*map(bare_name, words[:1]), *words[1:]]


def _choices(pattern: str | tuple[str, ...]) -> tuple[str, ...]:
    return (pattern,) if isinstance(pattern, str) else pattern


def _is_known(word: str) -> bool:
    return UNKNOWN not in word and not re.search(r"[*?$`\[]", word)
