"""The scenarios for real models work: a script that solves one passes, one that does not fails."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from command_line import environment
from fake_llm import Step, call, say
from places import REPO
from scenarios import SCENARIOS, Done, carry_out, prepare
from world import World

ROOT = REPO
_HALF = "    if len(ordered) % 2 == 0:\n        return sum(ordered[middle - 1 : middle + 1]) / 2\n"
_SLUGIFY = '\n\ndef slugify(text):\n    return "-".join(re.findall("[a-z0-9]+", text.lower()))\n'
_SLUGIFY_TEST = "\n\ndef test_slugify():\n    assert slugify('A b') == 'a-b'\n"


def replace_step(path: str, old: str, new: str) -> Step:
    return call("edit", command="replace", path=path, old_text=old, new_text=new)


SOLUTIONS: dict[str, Sequence[Step]] = {
    "fix a failing test": [
        call("edit", command="view", path="stats.py"),
        replace_step(
            "stats.py", "    return ordered[middle]\n", f"{_HALF}    return ordered[middle]\n"
        ),
        say("Fixed."),
    ],
    "add a function with tests": [
        call("terminal", command=f"sed -i '1i import re' text.py; cat >> text.py <<'E'{_SLUGIFY}E"),
        call(
            "terminal",
            command="sed -i '1s/$/, slugify/' test_text.py; "
            f"cat >> test_text.py <<'E'{_SLUGIFY_TEST}E",
        ),
        say("Added."),
    ],
    "refactor over files": [
        call(
            "terminal",
            command=r"grep -rl total . --include=*.py | xargs sed -i 's/\btotal\b/sum_of_prices/'",
        ),
        say("Renamed."),
    ],
    "answer a question about the code": [
        call("terminal", command="cat *.py"),
        say("23 is odd, so a member gets twice the 8 and one more.\n\nPERCENT: 17"),
    ],
}


# One scenario shows that the whole path works; the others cost four seconds each.
_FIRST, *_OTHERS = SCENARIOS


@pytest.mark.parametrize(
    "name", [_FIRST, *(pytest.param(name, marks=pytest.mark.full) for name in _OTHERS)]
)
def test_a_model_that_does_it_passes_and_one_that_does_not_fails(name: str, world: World) -> None:
    scenario, folder = SCENARIOS[name], world.project
    prepare(scenario, folder)
    with pytest.raises(AssertionError):
        scenario.check(Done(folder, "I could not do it."))
    world.script(*SOLUTIONS[name])
    outcome = carry_out(scenario, folder, environment(world.home, **world.environment))
    assert outcome.code == 0, outcome.err
    scenario.check(Done(folder, outcome.out))


def test_without_a_model_it_is_said_what_to_set(tmp_path: Path) -> None:
    outer = {name: value for name, value in os.environ.items() if "XDIST" not in name}
    names_kept = environment(tmp_path).keys() & outer.keys()
    outcome = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--live", "tests/live"],
        cwd=ROOT,
        env={name: outer[name] for name in names_kept if not name.startswith("OH_DAEMON")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode == pytest.ExitCode.USAGE_ERROR
    assert "set a provider's key (ANTHROPIC_API_KEY" in outcome.stdout + outcome.stderr
