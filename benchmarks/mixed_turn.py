"""A typical turn: reasoning, a plan, commands, a diff, failures, and a long answer."""

from __future__ import annotations

from fake_llm import Step, call, calls, reason, say

FILE = "prices.py"
TEXT = "".join(
    f"def step_{n}(value):\n    result = value * {n}\n    return round(result, 2)\n\n\n"
    for n in range(40)
)
PLAN = [
    {"text": "Read prices.py and its tests", "status": "completed"},
    {"text": "Keep each amount exact until it is shown", "status": "in_progress"},
    {"text": "Run the tests", "status": "pending"},
    {"text": "Write it into the changelog", "status": "pending"},
]
LAST_WORDS = "Old clients parse either."
ANSWER = f'''I looked at how **prices** are rounded. There are three places:

1. `src/shop/prices.py` rounds *each* line, so a cart of many lines is off by some cents.
2. `src/shop/cart.py` rounds the **sum** once more with `round()`, which goes to the even cent.
3. The invoice shows what the [database](https://example.org/db) has, which is neither.

## What I would change

A price stays a `Decimal` until it is shown, and only `format_price` rounds:

```python
def format_price(amount: Decimal, currency: str = "EUR") -> str:
    """Of an amount as it stands in a document."""
    cents = amount.quantize(Decimal("0.01"), rounding=ROUND_HALF_UP)
    whole, _, rest = f"{{cents:.2f}}".partition(".")
    groups = []
    while len(whole) > 3:
        groups.insert(0, whole[-3:])
        whole = whole[:-3]
    return f"{{whole}}{{''.join('.' + g for g in groups)}},{{rest}} {{currency}}"
```

| place | before | after | why |
| --- | --- | --- | --- |
| line | `round(x, 2)` | `x` | a line is no document |
| sum | `round(sum(x), 2)` | `sum(x)` | rounded twice |
| invoice | `str(x)` | `format_price(x)` | one place for all |

> The tests say half up.

- [x] read the code
- [ ] change `prices.py`
- [ ] run the tests, also those of the *invoice*, which take some minutes

Each caller of `total()` gets a `Decimal` now, so the JSON of the API has a string where a number
was. {LAST_WORDS}
'''


def mixed_turn() -> list[Step]:
    edits = [
        {"old_text": f"value * {n}\n", "new_text": f"Decimal(value) * {n}  # exact\n"}
        for n in (2, 9, 17, 30)
    ]
    script = calls(
        say("Let me look at the project first, then at `prices.py`."),
        call("terminal", command="seq 1 60; ls -la"),
    )
    return [
        reason("The prices must be right. Let me think about **rounding**. " * 6, script),
        call("edit", command="view", path=FILE),
        call("todo", tasks=PLAN),
        call("terminal", command="grep -rn 'round(' --include='*.py' . | head -80"),
        reason(
            "So each function rounds. " * 30,
            call("edit", command="replace", path=FILE, edits=edits),
        ),
        call(
            "terminal",
            command="cat prices.py | head -70; echo 'test_large_order ... FAILED'; false",
        ),
        call("edit", command="view", path="gone.py"),
        call("think", thought="The tests are not there. " * 20),
        say(ANSWER),
    ]
