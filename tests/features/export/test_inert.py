"""Markdown that people, models and tools wrote is inert, as a Markdown parser of its own finds."""

from __future__ import annotations

import random
import re

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from oh_daemon.features.export.inert import inert_markdown

SAFE = re.compile(r"(?i)(?:https?|mailto):|[^:]*(?:[/?#]|$)")
FRAGMENTS = (
    *("<img src=http://x.test/a.png>", "<script>alert(1)</script>", "<!--", "-->", "<div", ">"),
    *("<b>", "</b>", "<pre>", "<?php", "<![CDATA[", "<javascript:alert(1)>", "<https://x.test/`>"),
    *("![a](http://x.test/b.png)", "![a][r]", "![", "](", ")", "[a](javascript:alert(1))"),
    *("[a](<java&Tab;script:alert(1)>)", "[a](&#106;avascript:x 't')", "[a](`)", "[r]", "[a][r]"),
    *("\n[r]: javascript:alert(1)\n", "\n[r]: data:text/html,x\n", "\n[r]:\n<b>\n", "[^1]"),
    *("`", "``", "```", "\n```\n", "\n~~~\n", "\n    ", "\n\n", "\n", "\n> ", "\n- ", "\n1. "),
    *("\\", "\\\\", "\t", " ", "a", "\n| a | b |\n|---|---|\n", "|", "*", "_", "\n# ", "&lt;b&gt;"),
    *("\r", "\r\n", "[x](a/b.py)", "[x](https://x.test)", "[x](mailto:a@x.test)", "[x](file:///e)"),
    *("[", "]", "\n" + "> " * 30, "[a](vbscript:x)", "\n---\n", "\n* * *\n", "C:<T>"),
)


def parser(preset: str) -> MarkdownIt:
    judge = MarkdownIt(preset, {"html": True, "maxNesting": 200})
    judge.validateLink = accepts_every_link
    return judge


def accepts_every_link(url: str) -> bool:
    return True


JUDGES = (parser("commonmark"), parser("js-default"))


def active_tokens(text: str) -> list[str]:
    """Return each element that would load, run or hide something."""
    return [
        f"{token.type} {token.content} {token.attrs}"
        for judge in JUDGES
        for block in judge.parse(text)
        for token in (block, *(block.children or ()))
        if is_active(token)
    ]


def is_active(token: Token) -> bool:
    if token.type == "link_open":
        href = "".join(char for char in str(token.attrs["href"]) if char > " ")
        return SAFE.match(href) is None
    return token.type in {"html_block", "html_inline", "image"}


@pytest.mark.parametrize(
    ("text", "expected_text"),
    [
        ("Use `List<T>` and `<div>`.", "Use `List<T>` and `<div>`."),
        ("```html\n<img src=x>\n```", "```html\n<img src=x>\n```"),
        ("Code:\n\n    <b>[a](javascript:x)\n", "Code:\n\n    <b>[a](javascript:x)\n"),
        ("1 < 2\n< 3 > 2", "1 < 2\n< 3 > 2"),
        ("See <https://x.test/a>, [b](src/b.py).", "See <https://x.test/a>, [b](src/b.py)."),
        ("A List<String>.", "A List\\<String>."),
        ("![a](http://x.test/a.png)", "\\![a](http://x.test/a.png)"),
        ("[a](javascript:alert(1))", "\\[a](javascript:alert(1))"),
        ("<!-- open\n\n```\n<b>\n```", "\\<!-- open\n\n```\n<b>\n```"),
        ("> - <details>", "> - \\<details>"),
    ],
)
def test_only_active_elements_are_escaped(text: str, expected_text: str) -> None:
    assert inert_markdown(text) == expected_text
    assert active_tokens(expected_text) == []


@pytest.mark.parametrize("n_texts", [400, pytest.param(20_000, marks=pytest.mark.full)])
def test_generated_markdown_is_inert(n_texts: int) -> None:
    dice = random.Random(n_texts)
    for _ in range(n_texts):
        text = "".join(dice.choices(FRAGMENTS, k=dice.randrange(1, 14)))
        assert active_tokens(inert_markdown(text)) == [], repr(text)


@pytest.mark.parametrize("fence", ["```", "~~~~"])
def test_generated_code_stays_literal(fence: str) -> None:
    dice = random.Random(7)
    pieces = [each for each in FRAGMENTS if not set("`~\r") & set(each)]
    for _ in range(200):
        code = "".join(dice.choices(pieces, k=8))
        text = f"Before <b>.\n\n{fence}\n{code}\n{fence}\n\nAfter <b>."
        assert f"{fence}\n{code}\n{fence}" in inert_markdown(text)
