"""Amounts of money for people: an unknown or a tiny cost is never shown as zero."""

import pytest

from oh_daemon.common.amounts import render_usd


@pytest.mark.parametrize(
    ("amount", "n_digits", "is_whole", "text"),
    [
        (None, 2, True, "unknown"),
        (0.0, 2, True, "$0"),
        (0.0, 2, False, "unknown"),
        (1.25, 2, True, "$1.25"),
        (1.25, 2, False, "at least $1.25"),
        (0.004, 2, True, "<$0.01"),
        (0.004, 4, True, "$0.0040"),
        (0.00001, 4, True, "<$0.0001"),
    ],
)
def test_only_a_known_cost_of_zero_is_zero(
    amount: float | None, n_digits: int, is_whole: bool, text: str
) -> None:
    assert render_usd(amount, n_digits, is_whole=is_whole) == text
