"""How often masking hits ordinary text: `python benchmarks/masked.py FOLDER…`, per 10 MB of source.

Each hit is printed with its line, since among real source code there are real keys of test servers,
too. Without folders, the libraries of this Python are read.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from oh_daemon.common.masking import HIDDEN, tokens_in

_ENDINGS = {".py", ".pyi", ".ts", ".js", ".md", ".lua", ".c", ".h", ".json", ".toml", ".sh", ".txt"}
_MAX_BYTES = 5 << 20


def sources(folders: list[str]) -> Iterator[Path]:
    for folder in folders:
        for path in Path(folder).rglob("*"):
            if path.suffix in _ENDINGS and path.is_file() and path.stat().st_size < _MAX_BYTES:
                yield path


def main(folders: list[str]) -> None:
    hits, n_bytes = Counter[str](), 0
    for path in sources(folders or [sys.prefix]):
        text = path.read_text("utf-8", "ignore")
        n_bytes += len(text)
        for kind, match in tokens_in(text):
            hits[kind] += 1
            print(f"{kind}: {path.name}: {match[:60]}")
    print(f"\n{n_bytes / 1e6:.0f} MB, {HIDDEN} per 10 MB:")
    for kind, n in hits.most_common():
        print(f"  {n / (n_bytes / 1e7):8.2f}  {kind}")


if __name__ == "__main__":
    main(sys.argv[1:])
