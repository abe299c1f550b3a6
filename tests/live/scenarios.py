"""Tasks that a person would try first, each with its files and a check that runs something.

`carry_out` lets `oh-daemon run` do one in a folder; the environment decides which model it asks.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from command_line import Ran, end, start
from starts import SCRIPT

_LIMITS = ("--ask", "never", "--max-steps", "40", "--max-cost", "1")


@dataclass(frozen=True)
class Done:
    """The outcome of a scenario."""

    folder: Path
    final_text: str
    """All that `run` printed, which includes the agent's words."""


@dataclass(frozen=True)
class Scenario:
    task: str
    files: Mapping[str, str]
    check: Callable[[Done], None]


def prepare(scenario: Scenario, folder: Path) -> None:
    """Make the project as the user has it: its files, in git."""
    for name, text in scenario.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    _git(folder, "init", "-q")
    _git(folder, "add", ".")


def carry_out(scenario: Scenario, folder: Path, env: Mapping[str, str]) -> Ran:
    """Let the agent do the task in a prepared folder."""
    return end(start([SCRIPT, "run", scenario.task, *_LIMITS], folder, env), within_s=1200)


def python(folder: Path, *args: str) -> str:
    """Return what this interpreter prints in the folder; it must exit with 0."""
    outcome = _python(folder, *args)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    return outcome.stdout.strip()


def tests_pass(folder: Path) -> bool:
    return _python(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider").returncode == 0


def _python(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "COV"))}
    # Compiled files would be taken for changes by the agent.
    quiet = {"PYTHONDONTWRITEBYTECODE": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(
        [sys.executable, *args],
        cwd=folder,
        env=env | quiet,
        capture_output=True,
        text=True,
        check=False,
    )


def _git(folder: Path, *args: str) -> str:
    command = ["git", "-c", f"safe.directory={folder}", *args]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


# Fix a failing test

_MEDIAN = """\
def median(numbers):
    ordered = sorted(numbers)
    middle = len(ordered) // 2
    return ordered[middle]
"""
_MEDIAN_TEST = """\
from stats import median


def test_the_middle_of_three():
    assert median([3, 1, 2]) == 2


def test_between_the_two_in_the_middle_of_four():
    assert median([4, 1, 3, 2]) == 2.5
"""


def _is_fixed(outcome: Done) -> None:
    assert tests_pass(outcome.folder)
    assert (outcome.folder / "test_stats.py").read_text("utf-8") == _MEDIAN_TEST
    # Check more than the tests ask for.
    program = "from stats import median; print(median([8, 2]), median([5]))"
    assert python(outcome.folder, "-c", program) == "5.0 5"


# Add a function with tests


def _is_added(outcome: Done) -> None:
    program = "from text import slugify; print(slugify('  Hello, big   World! '), slugify('a--b'))"
    assert python(outcome.folder, "-c", program) == "hello-big-world a-b"
    assert tests_pass(outcome.folder)
    # Tests that pass with a wrong function do not count.
    module = outcome.folder / "text.py"
    right = module.read_text("utf-8")
    module.write_text(f"{right}\n\ndef slugify(text):\n    return text\n", "utf-8")
    assert not tests_pass(outcome.folder)
    module.write_text(right, "utf-8")


# Refactor over files

_SHOP = {
    "shop/__init__.py": "",
    "shop/prices.py": "def total(items):\n    return sum(price for _, price in items)\n",
    "shop/bill.py": (
        "from shop.prices import total\n\n\n"
        'def bill(items):\n    return f"to pay: {total(items)}"\n'
    ),
    "shop/report.py": (
        "from shop import prices\n\n\n"
        "def report(days):\n    return [prices.total(items) for items in days]\n"
    ),
    "test_shop.py": (
        "from shop.bill import bill\nfrom shop.prices import total\n"
        "from shop.report import report\n"
        '\nTEA = [("tea", 3), ("milk", 1)]\n\n\n'
        "def test_all():\n    assert total(TEA) == 4\n"
        '    assert bill(TEA) == "to pay: 4"\n    assert report([TEA, []]) == [4, 0]\n'
    ),
}


def _is_renamed(outcome: Done) -> None:
    assert tests_pass(outcome.folder)
    code = "\n".join(path.read_text("utf-8") for path in outcome.folder.rglob("*.py"))
    assert "total(" not in code.replace("sum_of_prices(", "")
    assert code.count("sum_of_prices") >= 6
    program = "from shop import prices; print(hasattr(prices, 'total'), prices.sum_of_prices([]))"
    assert python(outcome.folder, "-c", program) == "False 0"


# Answer a question about the code

_DISCOUNT = {
    "rules.py": "STEPS = [(50, 15), (20, 8), (10, 3)]\n",
    "checkout.py": (
        "from rules import STEPS\n\n\n"
        "def percent_off(n_items, is_member):\n"
        "    percent = next((off for least, off in STEPS if n_items >= least), 0)\n"
        "    return percent * 2 + 1 if is_member and n_items % 2 else percent\n"
    ),
}


def _is_answered(outcome: Done) -> None:
    program = "from checkout import percent_off; print(percent_off(23, True))"
    assert f"PERCENT: {python(outcome.folder, '-c', program)}" in outcome.final_text
    assert _git(outcome.folder, "diff", "--stat") == ""


SCENARIOS = {
    "fix a failing test": Scenario(
        "A test fails. Fix the code, not the test, and run the tests.",
        {"stats.py": _MEDIAN, "test_stats.py": _MEDIAN_TEST},
        _is_fixed,
    ),
    "add a function with tests": Scenario(
        "Add slugify(text) to text.py: lower case, letters and digits kept, everything between "
        "them becomes one hyphen, none at the ends. Add tests for it to test_text.py and run them.",
        {
            "text.py": "def shout(text):\n    return text.upper()\n",
            "test_text.py": (
                "from text import shout\n\n\ndef test_shout():\n    assert shout('a') == 'A'\n"
            ),
        },
        _is_added,
    ),
    "refactor over files": Scenario(
        "Rename the function total in shop/prices.py to sum_of_prices, everywhere it is used, also "
        "in the tests. Leave no alias. Run the tests.",
        _SHOP,
        _is_renamed,
    ),
    "answer a question about the code": Scenario(
        "How many percent does a member get off for 23 items? Change nothing in the project. End "
        "your answer with a line of the form `PERCENT: 12`.",
        _DISCOUNT,
        _is_answered,
    ),
}
