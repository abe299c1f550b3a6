"""The answers of a model that did three tasks by hand: what it called, in which order, at once.

Each answer is a list of calls, a call its tool and its arguments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Call = tuple[str, dict[str, Any]]
BOLTONS = "https://github.com/mahmoud/boltons"
MORE_ITERTOOLS = "https://github.com/more-itertools/more-itertools"


@dataclass(frozen=True)
class Task:
    """A repository at a commit, what the user asks, and what the model answers."""

    name: str
    url: str
    commit: str
    words: str
    answers: tuple[tuple[Call, ...], ...]
    tokens_by_hand: int
    """Input tokens of all requests when a model's answers were written by hand."""


def run(command: str, **options: Any) -> Call:
    return "terminal", {"command": command, **options}


def view(path: str, start: int, end: int) -> Call:
    lines = {"start_line": start, "end_line": end}
    return "edit", {"command": "overlay", "path": path, **lines}


def grep(pattern: str, path: str) -> Call:
    return "grep", {"pattern": pattern, "path": path}


def replace(path: str, old: str, new: str) -> Call:
    texts = {"old_text": old, "new_text": new}
    return "edit", {"command": "replace", "path": path, **texts}


def insert(path: str, line: int, text: str) -> Call:
    return "edit", {"command": "insert", "path": path, "insert_line": line, "text": text}


def finish(message: str) -> Call:
    return "finish", {"message": message}


# boltons: slices of an IndexedSet from which something was removed

_SET_FIX = replace(
    "boltons/setutils.py",
    """\
        if start is not None:
            start = self._get_real_index(start)
        if stop is not None:
            stop = self._get_real_index(stop)
""",
    """\
        # As islice counts them: without the slots of removed items.
        if start is not None and start < 0:
            start = max(len(self) + start, 0)
        if stop is not None and stop < 0:
            stop = max(len(self) + stop, 0)
""",
)
_SET_TEST = replace(
    "tests/test_setutils.py",
    """\
        if i < 3:
            continue
        index = indexed_list.index(i)
        assert i == indexed_list.pop(index)
""",
    """\
        if i < 3:
            continue
        index = indexed_list.index(i)
        assert i == indexed_list.pop(index)


def test_iset_slice_after_removal():
    x = IndexedSet(range(10))
    x.pop(2)
    assert list(x[1:4]) == [1, 3, 4]
    assert list(x[-3:]) == [7, 8, 9]
    assert list(x[2:-1]) == [3, 4, 5, 6, 7, 8]
    for start in (None, -12, -3, 0, 2, 12):
        for stop in (None, -12, -3, 0, 2, 12):
            assert list(x[start:stop]) == list(x)[start:stop]
""",
)
_SET_BUG = """python - <<'END'
from boltons.setutils import IndexedSet
x = IndexedSet(range(10))
x.pop(2)
print(list(x), list(x[1:4]), list(x[-3:]), list(x[2:-1]))
END"""
_SET_CHECK = run(f"{_SET_BUG}\npython -m pytest -q tests/test_setutils.py; git diff --stat")
T1 = Task(
    "T1: boltons, slices of `IndexedSet`",
    BOLTONS,
    "979fa9b613fa8c0a455ae16ea6f2ec91c11ecafe",
    "Slices of an IndexedSet are wrong after something was removed from it: with"
    " x = IndexedSet(range(10)); x.pop(2), x[1:4] has four items. Fix it.",
    (
        (
            grep("iter_slice|_get_real_index|_get_apparent_index", "boltons/setutils.py"),
            run(_SET_BUG),
            run("git log --oneline | head -3; tail -32 tests/test_setutils.py"),
        ),
        (
            view("boltons/setutils.py", 68, 202),
            view("boltons/setutils.py", 390, 436),
        ),
        (_SET_FIX, _SET_TEST, _SET_CHECK),
        (_SET_TEST, _SET_CHECK),
        (
            finish(
                "Slices counted the slots of removed items twice: `iter_slice` mapped its bounds"
                " into the list with those slots, and then counted without them. Bounds now stay"
                " as the user sees them; negative ones are made positive. A test is in"
                " tests/test_setutils.py, and that file passes."
            ),
        ),
    ),
    31_700,
)


# boltons: the lines with ~~~^^^ of a traceback

_ANCHOR_BUG = """python - <<'END'
from boltons.tbutils import ParsedException
text = '''Traceback (most recent call last):
  File "main.py", line 3, in <module>
    print(add(1, "two"))
          ^^^^^^^^^^^^^
TypeError: no'''
print(ParsedException.from_string(text).to_string() == text)
END"""
_ANCHOR_FIX: Call = (
    "edit",
    {
        "command": "replace",
        "path": "boltons/tbutils.py",
        "edits": [
            {
                "old_text": """\
           Note that this method does not output "anchors" (e.g.,
           ``~~~~~^^``), as were added in Python 3.13. See the built-in
           ``traceback`` module if these are necessary.
""",
                "new_text": """\
           "Anchors" (e.g., ``~~~~~^^``), which Python prints since
           3.11, are kept in each frame's ``anchor`` and written beneath
           its source line.
""",
            },
            {
                "old_text": """\
                lines.append(f'    {source_line}')
        if self.exc_msg:
""",
                "new_text": """\
                lines.append(f'    {source_line}')
                if frame.get('anchor'):
                    lines.append(f"    {frame['anchor']}")
        if self.exc_msg:
""",
            },
            {
                "old_text": """\
                        # To deal with anchors
                        line_no += 1
""",
                "new_text": """\
                        # Dedented as the source line is, so that both
                        # stay aligned
                        indent = len(next_line) - len(next_line.lstrip())
                        anchor = tb_lines[line_no + 1][indent:].rstrip()
                        if anchor:
                            frame_dict['anchor'] = anchor
                        line_no += 1
""",
            },
        ],
    },
)
_ANCHOR_TEST: Call = (
    "edit",
    {
        "command": "replace",
        "path": "tests/test_tbutils_parsed_exc.py",
        "edits": [
            {
                "old_text": """\
    assert parsed_tb.frames == [{'source_line': 'print(add(1, "two"))',
                                  'filepath': 'main.py',
                                  'lineno': '3',
                                  'funcname': '<module>'},
                                  {'source_line': 'return a + b',
""",
                "new_text": """\
    assert parsed_tb.frames == [{'source_line': 'print(add(1, "two"))',
                                  'anchor': '      ^^^^^^^^^^^^^',
                                  'filepath': 'main.py',
                                  'lineno': '3',
                                  'funcname': '<module>'},
                                  {'source_line': 'return a + b',
                                  'anchor': '       ~~^~~',
""",
            },
            {
                "old_text": """\
    # Note: not checking the anchor lines (indices 3, 6) because column details not currently \
stored in ParsedException
    _tb_str_lines = _tb_str.splitlines()
    _tb_str_without_anchor = "\\n".join(_tb_str_lines[:3] + _tb_str_lines[4:6] + _tb_str_lines[7:])
    assert parsed_tb.to_string() == _tb_str_without_anchor
""",
                "new_text": """\
    assert parsed_tb.to_string() == _tb_str
""",
            },
        ],
    },
)
_ANCHOR_CHECK = run("python -m pytest -q tests/test_tbutils*.py; git diff --stat")
T1B = Task(
    "T1b: boltons, anchors of tracebacks",
    BOLTONS,
    "8c3fc2850693eacd2f2f8c95e7581adbb65b1269",
    "ParsedException drops the anchor lines (~~~^^^) of a traceback, so that"
    " ParsedException.from_string(text).to_string() is not text. Make them survive the round trip.",
    (
        (
            run(f"{_ANCHOR_BUG}\ngrep -n '^class ParsedException' -B 90 -A 150 boltons/tbutils.py"),
            view("tests/test_tbutils_parsed_exc.py", 1, 99),
        ),
        (_ANCHOR_FIX, _ANCHOR_TEST, _ANCHOR_CHECK),
        (_ANCHOR_FIX, _ANCHOR_CHECK),
        (
            finish(
                "Anchor lines survive the round trip: each frame keeps its own as `anchor`,"
                " dedented as its source line is, and `to_string` writes it beneath that line. The"
                " test that left them out compares the whole text now; the tests pass."
            ),
        ),
    ),
    42_200,
)


# more-itertools: a new function, with all that belongs to it

_BY = '''\
def chunked_by(iterable, key):
    """Break *iterable* into lists of consecutive items for which *key*
    returns the same value:

        >>> list(chunked_by([1, 3, 2, 4, 5], lambda x: x % 2))
        [[1, 3], [2, 4], [5]]

    Unlike :func:`itertools.groupby`, each group is a list, and the keys are
    not returned. See also :func:`split_when`, which compares neighbors.

    """
    for _, group in groupby(iterable, key):
        yield list(group)


'''
_BY_TESTS = '''\
class ChunkedByTests(TestCase):
    """Tests for ``chunked_by()``"""

    def test_basic(self):
        self.assertEqual(
            list(mi.chunked_by([1, 3, 2, 4, 5], lambda x: x % 2)),
            [[1, 3], [2, 4], [5]],
        )

    def test_empty(self):
        self.assertEqual(list(mi.chunked_by([], len)), [])

    def test_lazy(self):
        actual = mi.chunked_by(count(), lambda x: x // 3)
        self.assertEqual(next(actual), [0, 1, 2])


'''
_LINK = "`{0} <https://more-itertools.readthedocs.io/en/stable/api.html#more_itertools.{0}>`_,"
_README_ROW = f"|                        | {_LINK.format('chunked_by')}"
_README_COLUMN = 199
"""Where the table's last column ends."""
_VERSIONS = """\
* Changes to existing functions:
    * :func:`iter_index` was fixed to accept negative *start* and *stop* with general iterables \
(thanks to gaoflow)
"""
T2 = Task(
    "T2: more-itertools, `chunked_by`",
    MORE_ITERTOOLS,
    "2fe1b2eeb9d75f994113fe3ac76d14b6bcd6fb10",
    "Add chunked_by(iterable, key): lists of consecutive items with the same key. With type stub,"
    " docs, README table, version history and tests, as the project does it for its functions.",
    (
        (
            ("list", {"depth": 2}),
            grep("chunked_even", "."),
            grep(r"^def (chunked|ichunked|chunked_even|split_when|sliced|bucket)\b", "."),
            run("git log --oneline | head -5; git status --short"),
        ),
        (
            view("more_itertools/more.py", 1, 205),
            view("more_itertools/more.py", 214, 252),
            view("more_itertools/more.py", 1674, 1718),
            view("more_itertools/more.pyi", 1, 60),
            view("more_itertools/more.pyi", 170, 186),
            view("README.rst", 1, 72),
            view("docs/api.rst", 1, 60),
            view("docs/versions.rst", 1, 40),
            view("tests/test_more.py", 46, 215),
        ),
        (
            replace(
                "more_itertools/more.py", "    'chunked',\n", "    'chunked',\n    'chunked_by',\n"
            ),
            replace(
                "more_itertools/more.py",
                "def split_when(iterable, pred, maxsplit=-1):\n",
                f"{_BY}def split_when(iterable, pred, maxsplit=-1):\n",
            ),
            replace(
                "more_itertools/more.pyi", "    'chunked',\n", "    'chunked',\n    'chunked_by',\n"
            ),
            insert(
                "more_itertools/more.pyi",
                179,
                "def chunked_by(\n    iterable: Iterable[_T], key: Callable[[_T], Any] | None\n"
                ") -> Iterator[list[_T]]: ...\n",
            ),
            insert("docs/api.rst", 18, ".. autofunction:: chunked_by\n"),
            insert("README.rst", 16, f"{_README_ROW:<{_README_COLUMN - 1}}|\n"),
            replace(
                "docs/versions.rst",
                _VERSIONS,
                f"* New functions\n    * :func:`chunked_by` was added\n\n{_VERSIONS}",
            ),
        ),
        (
            replace(
                "README.rst",
                f"{_README_ROW:<{_README_COLUMN + 1}}|",
                f"{_README_ROW:<{_README_COLUMN}}|",
            ),
            view("README.rst", 13, 19),
            insert("tests/test_more.py", 48, _BY_TESTS),
        ),
        (
            replace(
                "README.rst",
                f"{_README_ROW:<{_README_COLUMN - 1}}|\n",
                f"{_README_ROW:<{_README_COLUMN}}|\n",
            ),
            view("README.rst", 13, 19),
        ),
        (
            run("python -m unittest 2>&1 | tail -15", timeout_s=600),
            run("git diff --stat"),
        ),
        (
            run("git diff README.rst docs more_itertools"),
            run(
                "python -c 'import more_itertools as m; print(list(m.chunked_by([1, 3, 2], bool)))'"
            ),
        ),
        (
            finish(
                "`chunked_by(iterable, key)` is in more.py, with its type in more.pyi, its entries"
                " in docs/api.rst, docs/versions.rst and the table of README.rst, and its tests in"
                " tests/test_more.py. All tests pass."
            ),
        ),
    ),
    100_500,
)
TASKS = (T1, T1B, T2)
