"""Makes Markdown inert: no raw HTML, no images, and links to web pages, addresses and files only.

A Markdown parser is the judge, as text alone does not show what is code. Where it finds something
active, that passage gets backslashes, until it finds nothing. Blocks of code stay as they are.
"""

from __future__ import annotations

import html
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from markdown_it import MarkdownIt
from markdown_it.token import Token

_MAX_NESTING = 20
_MAX_ROUNDS = 4
_LINE_END = re.compile(r"\r\n?|\n")
_STARTS = {"html": r"<(?=[a-z/!?])", "image": r"!(?=\[)", "link": r"\["}
"""The character that begins each active element, as a pattern."""
_DEEP = "deep"
"""The parser looks no deeper, so that nothing may be active below."""
_AUTOLINK = r"(?!(?:https?://|mailto:)[^\s<>`]*>)"
_HTML_LINE = re.compile(rf"^([\s>*+\-\d.)]*)<(?=[a-z/!?]){_AUTOLINK}", re.IGNORECASE)
"""A line that may begin a block of HTML, below any list and quote: `> - <div`."""
_SCHEME = re.compile(r"[^/?#]*?:")
_SAFE_LINK = re.compile(r"(?:https?|mailto):", re.IGNORECASE)


def inert_markdown(text: str) -> str:
    r"""Return the Markdown with its active elements as text.

    `inert_markdown("<b>bold</b> ![a](http://x.test/a.png)")` becomes
    `\<b>bold\</b> \![a](http://x.test/a.png)`, in which the image is a link.
    """
    if not ("<" in text or "[" in text):
        return text
    lines = _LINE_END.split(text)
    code = _code_lines("\n".join(lines))
    lines = [line if n in code else _HTML_LINE.sub(r"\1\\<", line) for n, line in enumerate(lines)]
    for _ in range(_MAX_ROUNDS):
        kinds_by_line = _active_lines("\n".join(lines))
        before = [*lines]
        for n, kinds in kinds_by_line.items():
            lines[n] = _escaped(lines[n], _STARTS if _DEEP in kinds else kinds)
        if lines == before and set[str]().union(*kinds_by_line.values()) <= {_DEEP}:
            return "\n".join(lines)
    # Each passage that becomes text may change the meaning of the next. No bracket is active now.
    return "\n".join(_escaped(line, _STARTS) for line in lines)


def is_safe_link(url: str) -> bool:
    """Return whether a link leads to a web page, a mail address or a relative file.

    Other schemes run scripts or start programs of the reader. Browsers ignore white space and
    control characters in a scheme (https://url.spec.whatwg.org/#url-parsing).
    """
    plain = "".join(char for char in html.unescape(url) if char > " ")
    return _SCHEME.match(plain) is None or _SAFE_LINK.match(plain) is not None


def _parser(preset: str) -> MarkdownIt:
    options = {"html": True, "maxNesting": _MAX_NESTING, "linkify": False, "typographer": False}
    parser = MarkdownIt(preset, options)
    # By itself the parser turns a link with an unsafe scheme into text, which other ones do not.
    parser.validateLink = _accepts_every_link
    return parser


def _accepts_every_link(url: str) -> bool:  # noqa: ARG001 - the parser's shape.
    return True


_PARSERS = (_parser("commonmark"), _parser("js-default"))
"""With and without tables, in which code has other ends."""
_BLOCKS = tuple(
    _parser(preset).disable(["html_block", "inline"]) for preset in ("commonmark", "js-default")
)
"""Read the blocks as they are once no line begins HTML."""


def _code_lines(text: str) -> set[int]:
    """Return the numbers of the lines that are in a block of code for each parser."""
    sets_of_lines: list[set[int]] = [
        {
            n
            for token in parser.parse(text)
            if token.type in {"fence", "code_block"}
            for n in range(*(token.map or ()))
        }
        for parser in _BLOCKS
    ]
    return sets_of_lines[0].intersection(*sets_of_lines[1:])


def _active_lines(text: str) -> dict[int, set[str]]:
    """Return the lines of each passage with something active, with its kinds."""
    kinds_by_line: defaultdict[int, set[str]] = defaultdict(set)
    for parser in _PARSERS:
        maps: list[list[int]] = []
        for token in parser.parse(text):
            # Cells of a table know no lines of their own: those of the row count.
            maps = [*maps[: token.level], token.map or (maps or [[0, 0]])[-1]]
            for n in range(*maps[-1]):
                if kinds := {*_active_kinds(token)}:
                    kinds_by_line[n] |= kinds
    return kinds_by_line


def _active_kinds(token: Token) -> Iterator[str]:
    for each in (token, *(token.children or ())):
        if each.type in {"html_block", "html_inline"}:
            yield "html"
        elif each.type == "image":
            yield "image"
        elif each.type == "link_open" and not is_safe_link(str(each.attrs.get("href", ""))):
            yield from ("link", "html")  # An autolink begins like HTML.
        if each.level >= _MAX_NESTING - 2:
            yield _DEEP


def _escaped(line: str, kinds: Iterable[str]) -> str:
    starts = "|".join(_STARTS[kind] for kind in kinds)
    return re.sub(rf"(?<!\\)((?:\\\\)*)({starts})", r"\1\\\2", line, flags=re.IGNORECASE)
