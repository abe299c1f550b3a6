"""litellm's packaged table of models, with their limits and prices, read without litellm.

One entry at a time: litellm's import takes seconds, and all of the table takes 35 ms and 5 MiB.
"""

from __future__ import annotations

import json
import mmap
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path

from oh_daemon.contract.status import Usage
from oh_daemon.core.ports import Json
from oh_daemon.model.cost import cost_usd

_FILE = "model_prices_and_context_window_backup.json"
RULES = "fallback_generalizations"
"""The key of what holds for all models of a family, those that the table does not have yet too."""
_MAX_ENTRY_BYTES = 1 << 16


class PackagedTable(Mapping[str, Json]):
    """The entries by their keys; iterating reads all of the file."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __getitem__(self, key: str) -> Json:
        entry = _read_entry(self._file, key)
        if entry is None:
            raise KeyError(key)
        return entry

    def __iter__(self) -> Iterator[str]:
        return iter(json.loads(self._file.read_bytes()))

    def __len__(self) -> int:
        return sum(1 for _ in self)


@lru_cache
def _read_entry(file: Path, key: str) -> Json | None:
    """Find the name with an object behind it: not all entries are indented alike."""
    head = re.compile(re.escape(json.dumps(key)).encode() + rb"\s*:\s*(?=\{)")
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as text:
        found = head.search(text)
        if found is None:
            return None
        rest = text[found.end() : found.end() + _MAX_ENTRY_BYTES]
        entry: Json = json.JSONDecoder().raw_decode(rest.decode("utf-8", "replace"))[0]
    # Otherwise it is a part of an entry, or one that is no model.
    return entry if "litellm_provider" in entry or key == RULES else None


@cache
def price_table() -> Mapping[str, Json]:
    """Return the table that comes with the installed litellm."""
    spec = find_spec("litellm")
    if spec is None or spec.origin is None:
        return {}
    return PackagedTable(Path(spec.origin).with_name(_FILE))


def cost_of(key: str, usage: Usage) -> float | None:
    """Return the cost in US dollars of a call that ends now to the model under this key."""
    return cost_usd(price_table()[key], usage, datetime.now(UTC))
