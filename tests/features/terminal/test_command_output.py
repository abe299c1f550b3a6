"""What the model reads of a command's output: a budget in tokens, and no line twice in a row."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest
import tiktoken

from oh_daemon.common.masking import Masker
from oh_daemon.features.terminal.command_output import (
    MAX_TOKENS,
    OutputText,
    collapse_lines,
    count_tokens,
)
from oh_daemon.features.terminal.output import Capture

KEY = "sk-test-abcdefghijklmnop123456"
SCREEN = "\n".join(f"{n:3} {'x' * n}".ljust(200) for n in range(3)) + "\n" + "~".ljust(200) * 20


@pytest.fixture(scope="module")
def encoding() -> tiktoken.Encoding:
    litellm = find_spec("litellm")
    assert litellm is not None
    tables = Path(litellm.origin or "").parent / "litellm_core_utils" / "tokenizers"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIKTOKEN_CACHE_DIR", str(tables))
        return tiktoken.get_encoding("cl100k_base")


TEXTS: Sequence[str] = (
    "".join(f"{n}\n" for n in range(3_000)),
    "y\n" * 1_000,
    Path(__file__).read_text(),
    '{"a": [1, 2, {"b": "c-d_e/f.g"}], "long_name": 0.25},\n' * 40,
    "Grüße, señor — 你好世界\n" * 40,
    "=" * 70 + " 3 passed in 0.12s " + "=" * 70 + "\n",
    "/usr/lib/python3.11/site-packages/foo_bar/__init__.py:12: DeprecationWarning\n" * 20,
)


@pytest.mark.parametrize("text", TEXTS)
def test_an_estimate_is_near_what_a_tokenizer_counts(
    text: str, encoding: tiktoken.Encoding
) -> None:
    real = len(encoding.encode(text))
    assert real * 0.75 <= count_tokens(text) <= real * 1.8


@pytest.mark.parametrize(
    ("text", "expected_text"),
    [
        ("a\na\na\n", "a\na\na\n"),
        ("y\n" * 9 + "end\n", "y\n[the line above 8 more times]\nend\n"),
        ("a\n\n\n\n\nb", "a\n\n[3 more empty lines]\nb"),
        ("    deep\n" + " " * 60 + "deeper\n", "    deep\n" + " " * 60 + "deeper\n"),
        ("a" + " " * 30 + "b   c" + " " * 12 + "\n", "a    b   c\n"),
        ("", ""),
    ],
)
def test_repeated_lines_and_padding_are_collapsed(text: str, expected_text: str) -> None:
    """Finding D9: `yes` took 32.9k tokens, and a screen of vi 4.2k, most of them blanks."""
    assert collapse_lines(text) == expected_text


def test_a_padded_screen_is_short() -> None:
    assert count_tokens(collapse_lines(SCREEN)) < 100


class Blobs:
    def __init__(self) -> None:
        self.texts: list[str] = []

    def put(self, path: Path) -> str:
        self.texts.append(path.read_text())
        path.unlink()
        return f"blob{len(self.texts)}"


def render_text(tmp_path: Path, text: str, max_tokens: int) -> tuple[str, list[str]]:
    capture, blobs, masker = Capture(tmp_path / "spill"), Blobs(), Masker()
    masker.add(KEY)
    capture.add(text)
    shown_text = OutputText(masker, blobs.put, Path("/blobs")).render(capture.finish(), max_tokens)
    assert (shown_text.blob is not None) == bool(blobs.texts)
    return shown_text.text, blobs.texts


def test_a_flood_of_numbers_stays_in_the_budget_and_the_file_has_all(tmp_path: Path) -> None:
    """Finding D9: `seq 50000` took 17.8k tokens, since bytes were counted."""
    for n_lines in (4_000, 50_000):
        flood = "".join(f"{n}\n" for n in range(n_lines))
        shown_text, [blob] = render_text(tmp_path, flood, MAX_TOKENS)
        assert count_tokens(shown_text) <= MAX_TOKENS + 60
        assert (shown_text.startswith("0\n1\n"), shown_text.endswith(f"{n_lines - 1}\n")) == (
            True,
            True,
        )
        assert "all of it, for grep or sed in a terminal, is in /blobs/blob1 …]" in shown_text
        assert blob == flood


def test_a_small_budget_has_mostly_the_end(tmp_path: Path) -> None:
    shown_text, _ = render_text(tmp_path, "".join(f"line {n}\n" for n in range(1_000)), 200)
    head, _, tail = shown_text.partition("[…")
    assert count_tokens(head) < count_tokens(tail) / 2


def test_a_short_output_is_kept_nowhere_and_a_secret_in_no_piece(tmp_path: Path) -> None:
    assert render_text(tmp_path, "one\ntwo\n", MAX_TOKENS) == ("one\ntwo\n", [])
    shown_text, [blob] = render_text(tmp_path, f"{KEY} 1 2 3\n" * 2_000 + f"x{KEY}\n" * 3, 100)
    assert not any(KEY[:12] in text for text in (shown_text, blob))
