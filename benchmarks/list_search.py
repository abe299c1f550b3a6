"""How fast all texts of 10,000 conversations are searched, and what that costs beside the logs.

`make bench BENCH_ARGS="list"` prints a Markdown table; `list 1000` takes fewer conversations.
Each is a copy of one real log of ten turns, with words of its own. Asserts nothing.
"""

from __future__ import annotations

import random
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from long_log import repeat_turn
from measure import Json, p50
from peers import Driver, Model, peers, run_driver

N_CONVERSATIONS = 10_000
N_EVENTS = 110
N_ROUNDS = 9
N_WORDS = 60_000
LETTERS = "etaoinshrdlcumwfgypbvk"
"""From the most frequent on."""
_DONE = re.compile(rb'"text": ?"Done\."')


def main(arguments: Sequence[str]) -> None:
    n = int(arguments[0]) if arguments else N_CONVERSATIONS
    model = Model()
    try:
        with tempfile.TemporaryDirectory(prefix="oh-search-", ignore_cleanup_errors=True) as place:
            rows = list(search(Path(place), model, n))
    finally:
        model.close()
    print(f"| {n:,} conversations | |\n|---|---|")
    for name, value in rows:
        print(f"| {name} | {value} |")


def search(place: Path, model: Model, n: int) -> Iterator[tuple[str, str]]:
    [peer] = [each for each in peers(None) if each.name == "now"]
    with run_driver(peer, place, model) as at:
        at.started_id(at.start("do 1: echo hello")[0])
        at.wait_for_turns(1)
    folder = place / "project/.openhands/conversations"
    yield "text and all else in the logs", f"{_fill(folder, n) / 1e6:,.0f} MB"
    with run_driver(peer, place, model) as at:
        yield "first list of titles, which makes the summaries", _ask(at, "hello")
        yield "list of titles, p50", _p50(at, "hello")
    with run_driver(peer, place, model) as at:
        yield "list of titles in a new process", _ask(at, "hello")
        yield "memory then", f"{at.rss_mb:,.0f} MB"
        first, sent_s = at.send("conversation/list", {"query": "nowhere-at-all", "texts": True})
        yield "list of titles while the index is made", _p50(at, "hello", wait_for=first)
        yield "the index is made in", f"{at.answer_time_s(first) - sent_s:,.1f} s"
        yield "memory then", f"{at.rss_mb:,.0f} MB"
    size = sum(path.stat().st_size for path in folder.glob("*/search"))
    yield "the index on the disk", f"{size / 1e6:,.0f} MB"
    with run_driver(peer, place, model) as at:
        at.ask("conversation/list", {})
        yield (
            "first search in a new process, of a word in one of them",
            _ask(at, "rare777", texts=True),
        )
        for name, query in {
            "a word in one of them": "rare4321",
            "a word that is nowhere": "nowhere-at-all",
            "three letters that are nowhere": "qzx",
            "a word in all of them": "hello",
            "two words in few": "rare43 hello",
        }.items():
            yield f"search for {name}, p50", _p50(at, query, texts=True)


def _fill(folder: Path, n: int) -> int:
    """Make copies of the log in `folder`, and return how many bytes their logs have."""
    [log] = folder.glob("*/events.jsonl")
    repeat_turn(log, N_EVENTS)
    source, original = log.read_bytes(), log.parent.name
    chance = random.Random(1)
    words = [
        "".join(chance.choices(LETTERS, range(22, 0, -1), k=chance.randint(3, 10)))
        for _ in range(N_WORDS)
    ]
    n_bytes = 0
    for at in range(n):
        name = f"{at:032x}"

        # Ten answers, each with words of its own.
        parts = _DONE.split(source.replace(original.encode(), name.encode()))
        texts = (" ".join(chance.choices(words, k=300)) for _ in parts)
        chunks = [f'"text":"{text} rare{at}."'.encode() for text in texts]
        copy = b"".join(chain.from_iterable(zip(parts, chunks, strict=True))).removesuffix(
            chunks[-1]
        )
        (folder / name).mkdir(mode=0o700)
        (folder / name / "events.jsonl").write_bytes(copy)
        n_bytes += len(copy)
    return n_bytes


def _ask(at: Driver, query: str, **more: object) -> str:
    return f"{at.ask_s('conversation/list', {'query': query, **more}) * 1000:,.0f} ms"


def _p50(at: Driver, query: str, *, wait_for: int | None = None, **more: object) -> str:
    """Return the median of some answers, or of all until another one has come."""
    params: Json = {"query": query, **more}
    times: list[float] = []
    while wait_for not in at.answers and (wait_for is not None or len(times) < N_ROUNDS):
        times.append(at.ask_s("conversation/list", params) * 1000)
    return f"{p50(times):,.0f} ms" if times else ""


if __name__ == "__main__":
    main(sys.argv[1:])
