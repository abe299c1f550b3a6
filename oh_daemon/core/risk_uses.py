"""Finds what a program does with its arguments, in the tables of `risk_verbs` and its neighbors.

Invariant: a word that only the shell knows, or that may be the value of an option nobody knows,
never makes an effect look better.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from itertools import islice
from typing import NamedTuple

from oh_daemon.core import risk_git, risk_rules, risk_verbs
from oh_daemon.core.approval import RISK_ORDER
from oh_daemon.core.risk_braces import expand_braces
from oh_daemon.core.risk_paths import UNKNOWN
from oh_daemon.core.risk_programs import FLAGS, MEANINGS, find_program, has_value

_CHANGES = frozenset(
    """create delete rm rmi remove update set put apply cp mv sync run start stop kill ssh exec push
    login load save commit import export attach prune swarm plugin install""".split()  # noqa: SIM905
)
"""Words that `*` never stands for in a phrase that makes an effect better."""
_HIGH = RISK_ORDER["high"]


class _Call(NamedTuple):
    """Arguments: all, the operands, and the options, also as those that their letters stand for.

    An operand that may be the value of an option begins with `UNKNOWN`.
    """

    args: Sequence[str]
    operands: Sequence[str]
    options: Sequence[str]


class _Phrase(NamedTuple):
    effect: str
    words: frozenset[str]
    operands: Sequence[str]
    anywhere: Sequence[str]
    is_worse: bool
    """Than the usual effect: operands may be left out, and an option is known by its beginning."""

    def fits_word(self, word: str, text: str) -> bool:
        plain = word.lstrip(UNKNOWN)
        begins = "=" not in text and re.match("--.", plain) and text.startswith(plain)
        if self.is_worse and (begins or not plain):
            return True
        is_change = text == "*" and word.partition("-")[0] in _CHANGES
        if not self.is_worse and (UNKNOWN in word or is_change):
            return False
        return fnmatchcase(plain, text) or (text[0] != "-" and fnmatchcase(plain.lower(), text))

    def fit(self, call: _Call) -> list[str] | None:
        """Return the words of a call that the phrase names, or None if it does not fit."""
        found: list[str] = []
        for text in self.anywhere:
            pool = call.args if text[0] == "~" else call.options
            fits = (w for w in pool if w != UNKNOWN and self.fits_word(w, text.lstrip("~")))
            found += islice(fits, 1)
        n_words = len(self.operands)
        is_longer = "$" in self.words and len(call.operands) > n_words
        if is_longer or len(found) < len(self.anywhere):
            return None
        sure = [word for word in call.operands if word[:1] != UNKNOWN]
        n_unsure = call.operands.index(sure[0]) if sure else len(call.operands)
        tails = [sure, *(call.operands[start:] for start in range(n_unsure + 1))]
        for tail in tails if self.is_worse else [call.operands]:
            named = tail[:n_words]
            if len(named) == n_words and all(map(self.fits_word, named, self.operands)):
                return [*(word.lstrip(UNKNOWN) for word in named), *found]
        return None


def find_use(program: str, args: Sequence[str]) -> tuple[str, str]:
    """Return the effect of a program with these arguments, and the words that show it."""
    usual = find_program(program)[1]
    joined = join_words(args)
    rows = [row for name in (program, f"kind {usual}") for row in _patterns().get(name, ())]
    fits = [(effect, "") for effect, pattern in rows if pattern.search(joined)]
    fits += _fitting_phrases(program, args, usual)
    if not fits:
        verbs = _read(program, args).operands[:2] if _has_verbs(program) else ()
        fits = [(usual, " ".join(verbs))]
    effect, shown = max(fits, key=lambda fit: _order(fit[0]))
    if effect == "ask" and any(re.search(risk_rules.HIDES, arg) for arg in args if " " not in arg):
        effect = "secret"
    return effect, re.sub(r"[\xa0\n]", " ", shown.replace(UNKNOWN, "…"))[:60]


def _fitting_phrases(program: str, args: Sequence[str], usual: str) -> Iterator[tuple[str, str]]:
    """Yield the phrases that fit, and the words that they name, unless another one says more."""
    call = _read(program, args)
    if usual in ("wrap", "code", "shell"):
        # The options of a program that runs another one stand before that.
        first = next((n for n, arg in enumerate(args) if arg[:1] != "-"), None)
        call = call._replace(options=_read(program, args[:first]).options)
    found = [(phrase, phrase.fit(call)) for phrase in _phrases().get(program, ())]
    fits = [(p, words) for p, words in found if words is not None and p.effect != "inner"]
    for phrase, words in fits:
        if not any(phrase.words < other.words for other, _ in fits):
            yield phrase.effect, " ".join(w for w in words if w in args or "=" not in w)


def find_inner(program: str, args: Sequence[str]) -> Sequence[str]:
    """Return the words of another command that the program runs, from its options on."""
    call = _read(program, args)
    fits = (p.fit(call) for p in _phrases().get(program, ()) if p.effect == "inner")
    return next((args[args.index(fit[-1]) + 1 :] for fit in fits if fit), ())


def may_run_others(word: str) -> bool:
    """Return whether a program, or one of which that is not known, runs others that it gets."""
    program, kind = find_program(word)
    is_high = kind in MEANINGS and _order(kind) == _HIGH
    return kind in ("wrap", "unknown") or (is_high and not _has_verbs(program))


def join_words(args: Sequence[str]) -> str:
    return "".join(" " + arg.replace(" ", "\xa0") for arg in args)


def _has_verbs(program: str) -> bool:
    return any(phrase.operands for phrase in _phrases().get(program, ()))


def _order(effect: str) -> int:
    """Return how bad an effect is; what another command does is not known before it is rated."""
    return RISK_ORDER[MEANINGS[effect][0]] if effect in MEANINGS else _HIGH


def _read(program: str, args: Sequence[str]) -> _Call:
    operands: list[str] = []
    options: list[str] = []
    index, mark = 0, ""
    while index < len(args):
        arg, following = args[index], "".join(args[index + 1 : index + 2])
        index += 1
        if arg == "--" and find_program(program)[1] == "run":
            operands += args[index:]
            break
        if len(arg) <= 1 or arg[0] not in "-+":
            operands.append(mark + arg)
            mark = ""
            continue
        name, is_given, _ = arg.partition("=")
        letters = ["-" + letter for letter in arg[1:]] if arg[1] != "-" else []
        valued = next((n for n, each in enumerate(letters, 1) if has_value(program, each)), None)
        options += (arg, name, f"{name}={following}", *letters[:valued])
        takes = valued == len(letters) if letters else has_value(program, arg)
        index += takes
        mark = "" if takes or is_given or valued or FLAGS.issuperset(letters or [name]) else UNKNOWN
    return _Call(args, operands, options)


@cache
def _patterns() -> Mapping[str, Sequence[tuple[str, re.Pattern[str]]]]:
    table: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    for names, effect, pattern in risk_rules.PATTERNS:
        for name in names.split(";"):
            table.setdefault(name, []).append((effect, re.compile(pattern, re.VERBOSE)))
    return table


@cache
def _phrases() -> Mapping[str, Sequence[_Phrase]]:
    table: dict[str, list[_Phrase]] = {}
    for prefix, rows in (("", risk_verbs.ROWS), ("git ", risk_git.ROWS)):
        for names, effects in re.findall(r"^(\S(?:.|\n )*?): *((?:.|\n )*)", rows, re.MULTILINE):
            every = " ".join(risk_git.COMMANDS.values())
            phrases = list(_parsed(effects))
            for name in map(prefix.__add__, (every if names == "*" else names).split()):
                floor = _order(find_program(name)[1])
                for phrase in phrases:
                    order = _order(phrase.effect)
                    is_worse = phrase.effect == "inner" or order > floor or order == _HIGH
                    # A row for all commands makes none of them look better.
                    if is_worse or names != "*":
                        table.setdefault(name, []).append(phrase._replace(is_worse=is_worse))
    return table


def _parsed(effects: str) -> Iterator[_Phrase]:
    for part in filter(None, map(str.strip, re.split(r"[;\n]", effects))):
        effect, _, texts = part.partition(" ")
        for text in (word for each in texts.split(", ") for word in expand_braces(each) or ()):
            words = text.split()
            anywhere = [word for word in words if word[0] in "~-" and word != "-"]
            operands = [word for word in words if word not in (*anywhere, "$")]
            yield _Phrase(effect, frozenset(words), operands, anywhere, is_worse=True)
