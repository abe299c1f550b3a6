"""Estimates of requests: our own, and what providers' counts make of it."""

from __future__ import annotations

import pytest

from oh_daemon.kernel.window import Gauge, Size

ASKED = Size(n_fixed=4_000, messages=3_000)  # 2,000 tokens by our own estimate.


@pytest.mark.parametrize(
    ("n_counted", "now", "tokens"),
    [
        (0, ASKED, 2_000),
        (2_000, ASKED, 2_000),
        (3_000, ASKED, 3_000),
        (1_000_000, ASKED, 8_000),  # A sum over the day, say.
        (3, ASKED, 500),  # Without what came from the provider's cache, say.
        (2_000, Size(4_000, 6_000), 3_000),
        (1_000, Size(4_000, 6_000), 2_000),  # Code that comes has more tokens than our prompt.
        (4_000, Size(4_000, 6_000), 6_000),  # Another script has more for all of it.
        (4_000, Size(4_000, 0), 2_000),
    ],
)
def test_a_providers_count_sets_our_estimate_right_but_by_a_factor_of_four_at_most(
    n_counted: int, now: Size, tokens: int
) -> None:
    gauge = Gauge()
    gauge.count(ASKED, n_counted)
    assert gauge.tokens(now) == tokens


def test_what_was_counted_for_longer_requests_holds_for_the_next_ones() -> None:
    gauge = Gauge()
    gauge.count(ASKED, 4_000)
    gauge.count(ASKED, 0)
    assert gauge.tokens(Size(4_000, 1_500)) == 3_000
