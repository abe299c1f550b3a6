"""The program that the tool `grep` starts finds exactly what `re` finds in each line."""

import re
from pathlib import Path

import pytest

from oh_daemon.features.search.line_search import search

LINES = (
    "def load_items(path): # naïve",
    "DEF LOAD_ITEMS(PATH):",
    "class Shelf {",
    "a+b = aab",
    "K \u212a \u017f straße",
    "tab\there",
    "",
)
PATTERNS = (
    *("def load", "load|class", "def (load|save)_items", r"load_items\(", "class Shelf {", "a{2}b"),
    *("(?i)LOAD_items", "(?i:class) Shelf", "(?x) c l a s s", r"\x63lass", "na.ve", "a+b", r"a\+b"),
    *("^$", "^class", "{$", r"\bhere\b", "(?=class)", "(?!x)class", "(?:x)?class", "x*class"),
    *("\ufffd", "stra(?#s)ße", r"b\tx?", "[k\u212a]", "s{0}class", "\\Atab", "here\\Z", "a\nb"),
)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
@pytest.mark.parametrize("ignore_case", [False, True])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_file_is_left_out_only_when_no_line_matches(
    tmp_path: Path, pattern: str, encoding: str, *, ignore_case: bool
) -> None:
    for number, line in enumerate(LINES):
        (tmp_path / f"{number}.txt").write_bytes(f"{line}\n".encode(encoding, "replace"))
    paths = sorted(map(str, tmp_path.iterdir()))
    job = {"pattern": pattern, "ignore_case": ignore_case, "paths": paths, "texts": {}}
    search_result = search({**job, "context": 0, "limit": 100, "timeout_s": 20})
    pattern_compiled = re.compile(pattern, re.IGNORECASE if ignore_case else 0)
    read_as = {"latin-1": "utf-8", "utf-8": "utf-8-sig"}.get(encoding, encoding)
    texts = [Path(path).read_bytes().decode(read_as, "replace")[:-1] for path in paths]
    hits = [path for path, text in zip(paths, texts, strict=True) if pattern_compiled.search(text)]
    assert [Path(hit["path"]).name for hit in search_result["files"]] == [
        Path(p).name for p in hits
    ]
