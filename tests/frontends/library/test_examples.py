"""The programs of examples/, each run as a reader would run it, with the scripted model."""

import json
from pathlib import Path

import pytest
from command_line import run_python
from fake_llm import (
    FakeLLM,
    Json,
    Script,
    Step,
    call,
    first_user_text,
    say,
    script_by_key,
    tool_results,
)
from places import REPO

EXAMPLES = REPO / "examples"


def run_example(name: str, script: Script, *args: str) -> tuple[str, list[Json]]:
    """Return what the program prints, and the bodies of its requests to the model."""
    with FakeLLM(script) as llm:
        env = {"OPENAI_API_KEY": "sk-example", "OPENAI_BASE_URL": llm.url}
        output = run_python([EXAMPLES / name, *args], env)
        return output, [request.body for request in llm.requests]


def patch(*lines: str) -> Step:
    """Return the call by which the models of the examples change files."""
    return call("apply_patch", input="\n".join(("*** Begin Patch", *lines, "*** End Patch")))


def test_hello_answers_the_model_with_a_function() -> None:
    output, requests = run_example("hello.py", [call("hello", name="Ada"), say("It was: Hello!")])
    assert "It was: Hello!" in output.splitlines()
    assert "turn.completed" in output
    assert tool_results(requests[-1]) == ["Hello, Ada!"]


@pytest.mark.full
def test_follow_plan_works_in_a_folder_with_a_linter_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "PLAN.md").write_text("- [ ] write add.py\n")
    script = [
        call("edit", command="view", path="PLAN.md"),
        patch("*** Add File: add.py", "+def add(a, b) return a + b"),
        call("lint"),
        patch(
            "*** Update File: add.py", "-def add(a, b) return a + b", "+def add(a, b): return a + b"
        ),
        call("lint"),
        patch("*** Update File: PLAN.md", "-- [ ] write add.py", "+- [x] write add.py"),
        say("The plan is done."),
    ]
    output, requests = run_example("follow_plan.py", script, str(tmp_path))
    assert "The plan is done." in output
    assert "- [x] write add.py" in output
    first_lint, second_lint = tool_results(requests[-1])[2], tool_results(requests[-1])[4]
    assert "SyntaxError" in first_lint
    assert second_lint == "No problems."
    assert (tmp_path / "add.py").read_text() == "def add(a, b): return a + b\n"


def test_coin_flips_starts_three_conversations_that_report_back() -> None:
    def player(name: str) -> list[Step]:
        return [call("flip"), say(f"{name}'s coin fell.")]

    def key(request: Json) -> str:
        return first_user_text(request).removeprefix("You are ").split(".")[0].split(" ")[0]

    players = {name: player(name) for name in ("Ada", "Grace", "Barbara")}
    scripts = {"Let": [call("play_all"), say("All of them flipped.")], **players}
    output, requests = run_example("coin_flips.py", script_by_key(key, scripts))
    assert output == "All of them flipped.\n"
    last = next(r for r in requests if key(r) == "Let" and tool_results(r))
    reports = json.loads(tool_results(last)[0])
    assert reports == [f"{name}: {name}'s coin fell." for name in players]
    flips = [tool_results(r)[0] for r in requests if key(r) in players and tool_results(r)]
    assert len(flips) == 3
    assert set(flips) <= {"heads", "tails"}


@pytest.mark.full
def test_implementer_and_tester_talk_while_both_work_in_one_folder(tmp_path: Path) -> None:
    scripts = {
        "Write": [
            patch("*** Add File: greet.py", "+print('Hello!')"),
            call("ask_tester", message="Does greet.py print Hello!?"),
            say("The tester approved."),
        ],
        "Does": [call("terminal", command="python3 greet.py"), say("It prints Hello!")],
    }
    script = script_by_key(lambda request: first_user_text(request).split(" ")[0], scripts)
    output, requests = run_example("implementer_and_tester.py", script, str(tmp_path))
    assert output == "The tester approved.\n"
    assert tool_results(requests[-1])[1] == "It prints Hello!"
    first_request = next(
        r for r in requests if first_user_text(r).startswith("Does") and tool_results(r)
    )
    assert "Hello!" in tool_results(first_request)[0]
    assert len(list((tmp_path / ".openhands/conversations").iterdir())) == 2


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_each_example_is_short(path: Path) -> None:
    assert len(path.read_text("utf-8").splitlines()) < 40


@pytest.mark.full
def test_own_policy_rates_and_refuses() -> None:
    script = [call("buy", thing="tea"), call("buy", thing="car"), say("Only tea.")]
    output, requests = run_example("own_policy.py", script)
    tea, car, last = output.splitlines()
    assert "effect='allow' code='lowRisk' rule='low risk' risk='low'" in tea
    assert (
        "effect='reject' code='ruling' rule=\"the program's approval policy\" risk='medium'" in car
    )
    assert last == "Only tea."
    assert tool_results(requests[-1])[0] == "tea"
