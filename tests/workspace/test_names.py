"""Which names are found for the letters that a user types, and in what order."""

import pytest

from oh_daemon.workspace.file_names import Query

NAMES = [
    "src/report.py",
    "src/price_list.py",
    "src/parse/orders.py",
    "src/prices.py",
    "tests/test_prices.py",
    "prices/README.md",
    "docs/enterprise.md",
    "Prices",
]


@pytest.mark.parametrize(
    ("typed_text", "names_found"),
    [
        (
            "prices",
            [
                *("Prices", "src/prices.py", "tests/test_prices.py", "prices/README.md"),
                "src/price_list.py",
            ],
        ),
        ("PRI LI", ["src/price_list.py"]),
        ("tests/pri", ["tests/test_prices.py"]),
        ("pricli", ["src/price_list.py"]),
        ("sord", ["src/parse/orders.py"]),
        ("prise", ["docs/enterprise.md", "prices/README.md"]),
        ("x", []),
        (".*", []),
    ],
)
def test_names_with_these_letters_come_in_the_order_of_fit(
    typed_text: str, names_found: list[str]
) -> None:
    query = Query(typed_text)
    ranked_names = sorted((rank, name) for name in NAMES if (rank := query.rank(name)) is not None)
    assert [name for _, name in ranked_names] == names_found


def test_nothing_typed_fits_everything() -> None:
    assert all(Query(" ").rank(name) is not None for name in NAMES)


def test_many_equal_letters_take_no_time() -> None:
    assert Query("a" * 100 + "b").rank("a" * 4000) is None
