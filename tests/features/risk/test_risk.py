"""How commands are rated: a corpus, disguises that must not help, and arbitrary text."""

from __future__ import annotations

import os
import random
import re
import time
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from places import TESTS

from oh_daemon.common.plain_text import display_escaped
from oh_daemon.features.risk.rating import Rating, rate_command
from oh_daemon.kernel.approval_requests import RISK_ORDER
from oh_daemon.workspace.path_classes import Disk


def _is_never_so(_path: str) -> bool:
    return False


HARMLESS = Disk(_is_never_so, _is_never_so, _is_never_so)
_FOLDER = "/home/u/project"
_CORPUS = TESTS / "data" / "commands.tsv"
_REASONS = _CORPUS.with_name("reasons.tsv")


def _load_corpus() -> list[tuple[str, str]]:
    # Commands may contain other characters at which splitlines() would break them.
    lines = _CORPUS.read_text("utf-8").rstrip("\n").split("\n")
    rows = (line.split("\t") for line in lines)
    # The last two fields are the class and the reason; a command may hold tabs.
    return [("\t".join(row[:-2]).replace("⏎", "\n"), row[-2].lower()) for row in rows]


_ROWS = _load_corpus()


def rate(command: str, cwd: str | None = None) -> Rating:
    """Rate by the text alone: as low what seems only to read, though most of that asks."""
    rating = rate_command(command, [_FOLDER], cwd, HARMLESS)
    return rating._replace(risk="low") if rating.only_reads else rating


def test_no_high_command_of_the_corpus_is_rated_lower_and_the_others_seldom_higher() -> None:
    ratings = [(command, expected, rate(command).risk) for command, expected in _ROWS]
    lower = [row for row in ratings if _order(row[2]) < _order(row[1])]
    higher = [row for row in ratings if _order(row[2]) > _order(row[1])]
    print(f"{len(_ROWS)} commands, {len(lower)} rated lower, {len(higher)} higher: {higher}")  # noqa: T201
    assert lower == []
    assert [row for row in higher if row[1:] == ("low", "high")] == []
    assert len(higher) <= 0.03 * len(_ROWS)


def _order(risk: str) -> int:
    return [str(risk_name) for risk_name in RISK_ORDER].index(risk)


def _quote(command: str) -> str:
    return "'" + command.replace("'", "'\\''") + "'"


_DISGUISES = {
    "after another command": lambda c: f"ls && {c}",
    "after a failure": lambda c: f"false || {c}",
    "after a semicolon": lambda c: f"true; {c}",
    "on a second line": lambda c: f"ls\n{c}",
    "in a subshell": lambda c: f"({c}\n)",
    "in braces": lambda c: f"{{ {c}\n}}",
    "in a condition": lambda c: f"if true; then {c}\nfi",
    "in a loop": lambda c: f"while true; do {c}\ndone",
    "in a case": lambda c: f"case x in x) {c}\n;; esac",
    "in a substitution": lambda c: f'echo "$({c}\n)"',
    "in a nested shell": lambda c: f"bash -c {_quote(c)}",
    "in wrappers": lambda c: f"env A=1 timeout -k 1 5 nice -n 5 bash -lc {_quote(c)}",
    "in eval": lambda c: f"eval {_quote(c)}",
    "in a heredoc": lambda c: f"bash <<'XEND'\n{c}\nXEND",
    "in a heredoc's expansion": lambda c: f"cat <<XEND\n$({c}\n)\nXEND",
    "as a trap": lambda c: f"trap {_quote(c)} EXIT",
    "in xargs": lambda c: f"echo x | xargs -n1 sh -c {_quote(c)}",
    "in find": lambda c: f"find . -name x -exec sh -c {_quote(c)} \\;",
    "in a function": lambda c: f"work() {{ {c}\n}}; work",
    "in a process substitution": lambda c: f"cat <({c}\n)",
    "in a pipeline": lambda c: f"ls | cat | ({c}\n)",
}


@pytest.mark.parametrize("name", _DISGUISES)
def test_no_disguise_lowers_the_risk(name: str) -> None:
    lower_ratings = [
        (command, expected, plain, hidden_risk)
        for command, expected in _ROWS
        for plain, hidden_risk in [(_plain_risk(command), rate(_DISGUISES[name](command)).risk)]
        if _order(hidden_risk) < max(_order(expected), _order(plain))
    ]
    assert lower_ratings == []


@cache
def _plain_risk(command: str) -> str:
    return rate(command).risk


@settings(max_examples=300)
@given(st.text(max_size=200))
def test_any_text_gets_a_rating(text: str) -> None:
    assert rate(text).risk in RISK_ORDER


_SYNTAX = r"""ls rm -rf ~ / .env $X ${X:-y} $(id) `id` ' " ; | & && || > < << EOF ( ) { } [[ ]] if
then fi for
in do done while case esac git -c sed awk find -exec {} \ xargs bash sudo a=b * ? # ! = cd"""
_PIECES = st.sampled_from([*re.split(r"\s", _SYNTAX), "\n"])


@settings(max_examples=500)
@given(st.lists(_PIECES, max_size=14))
def test_pieces_of_shell_in_any_order_get_a_rating_and_no_rule_breaks(pieces: list[str]) -> None:
    rating = rate(" ".join(pieces))
    assert not any("stopped with" in reason for reason in rating.reasons)


@pytest.mark.full
def test_a_hundred_thousand_texts_get_a_rating_each_in_little_time() -> None:
    seed = os.environ["OH_TEST_SEED"]
    choose = random.Random(seed)
    words = [*re.split(r"\s+", _SYNTAX), "\n", "é", "\u202e"]
    took: list[float] = []
    for _ in range(100_000):
        text = " ".join(choose.choices(words, k=choose.randint(1, 14)))
        start_s = time.thread_time()
        rating = rate(text)
        took.append(time.thread_time() - start_s)
        assert not any("stopped with" in reason for reason in rating.reasons), (seed, text)
    p99_ms = sorted(took)[99_000] * 1000
    print(f"seed {seed}: p99 {p99_ms:.2f} ms, the goal is 2")  # noqa: T201 - reported, not asserted.


def test_nesting_without_end_is_high() -> None:
    for opening, closing in [("(", ")"), ("$(", ")"), ("{ ", ";}")]:
        assert rate(opening * 20_000 + "ls" + closing * 20_000).risk == "high"


@pytest.mark.parametrize("unit", ["a|", "$[", "[a]", "eval ", "<<E\n"])
def test_a_text_of_any_length_is_rated_in_little_time(unit: str) -> None:
    """While the parser works no other thread runs; it takes minutes for some texts."""
    start_s = time.thread_time()
    rating = rate(unit * 30_000)
    assert time.thread_time() - start_s < 1
    assert (rating.risk, rating.reasons) == ("high", ("it has more than 16,384 characters",))


def test_where_a_command_starts_counts_for_its_paths() -> None:
    assert rate("cat ../a.txt", f"{_FOLDER}/src").risk == "low"
    assert rate("cat ../a.txt", _FOLDER).risk == "medium"
    assert rate("touch a.txt", "/tmp").risk == "high"
    assert rate_command("touch /b/x", ["/a", "/b"], None, HARMLESS).risk == "medium"


def test_commands_in_each_other_without_end_are_high() -> None:
    for command in ("env ", "frobnicate nice ", "uv run ", "xargs ", "eval "):
        assert rate(command * 500 + "ls").risk == "high"


def test_without_folders_nothing_is_inside() -> None:
    assert rate_command("touch a.txt", []).risk == "high"
    assert rate_command("rm -rf x", []).risk == "high"
    assert rate_command("cat a.txt", []).risk == "medium"


def test_the_reasons_are_sentences_about_what_the_command_names() -> None:
    rows = [line.split("\t") for line in _REASONS.read_text("utf-8").splitlines()]
    ratings = [(command, rate_command(command, [_FOLDER], None, HARMLESS)) for command, _ in rows]
    assert [[c, f"{rating.risk}: {'; '.join(rating.reasons)}"] for c, rating in ratings] == rows


def test_the_reasons_name_the_worst_command_first_and_leave_out_none_that_is_risky() -> None:
    rating = rate("ls && make; sudo id")
    assert [reason.split()[0] for reason in rating.reasons] == ["sudo", "make"]
    assert rating.segments == (("ls",), ("make",), ("sudo", "id"))


@pytest.mark.parametrize(
    "char", "\x00\x07\x1b\r\x7f\x85\u00a0\u200b\u202e\u2066\ufeff\u2028\u3164\u037e\uff1b"
)
def test_a_character_that_hides_something_makes_a_command_high(char: str) -> None:
    assert rate(f"ls{char} x").risk == "high"


def test_letters_of_other_languages_are_no_disguise() -> None:
    assert rate("grep -n 'Größe 長さ é' src/é.py").risk == "low"


@pytest.mark.parametrize(
    ("text", "risk_shown"),
    [
        ("ls -l\n\tx é 長", "ls -l\n\tx é 長"),
        ("a\x1b]52;c;x\x07b", "a\\x1b]52;c;x\\x07b"),
        ("a\u202eb", "a\\u{202e}b"),
        ("a\u200bb\ufeff", "a\\u{200b}b\\u{feff}"),
        ("a\rb\x9b", "a\\x0db\\x9b"),
        ("a\U000e0041b", "a\\u{e0041}b"),
    ],
)
def test_hidden_characters_are_shown(text: str, risk_shown: str) -> None:
    assert display_escaped(text) == risk_shown
