"""PDFs as text: pages in order, within limits, whatever the file holds."""

from __future__ import annotations

import pytest
from pdf_files import pdf

from oh_daemon.workspace.pdf_text import read_pdf_text


def test_pages_come_in_order_with_their_numbers() -> None:
    text = "--- page 1 of 2 ---\nOne.\n--- page 2 of 2 ---\nTwo.\n"
    assert read_pdf_text(pdf("One.", "Two.")) == text


def test_only_the_first_pages_of_a_long_file_are_read() -> None:
    text = read_pdf_text(pdf(*(f"Page {n}." for n in range(302))))
    assert text is not None
    assert text.endswith("Page 299.\n--- 2 more pages, not read ---\n")


@pytest.mark.parametrize(
    "data",
    [
        b"%PDF-1.7\n",
        b"%PDF-1.7\n" + bytes(range(256)) * 100,
        pdf("x", stream=b" "),
    ],
)
def test_file_without_readable_text_has_none(data: bytes) -> None:
    assert read_pdf_text(data) is None


@pytest.mark.full
def test_file_that_expands_beyond_the_memory_limit_has_no_text() -> None:
    assert read_pdf_text(pdf("x", stream=b" " * (1 << 30))) is None
