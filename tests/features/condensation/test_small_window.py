"""A model with a small window: nothing is sent that does not fit, and the work goes on."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fake_llm import Step, call, calls, error, say, with_usage
from world import World, items

pytestmark = pytest.mark.one_daemon

Json = dict[str, Any]
WINDOW = 16_000
NAMES = [f"m{n}.py" for n in range(4)]
SETTINGS = {"llm": {"contextWindow": WINDOW}}
ALL_FOUR = calls(*(call("edit", command="view", path=name) for name in NAMES))


def tokens_of(request: Json) -> int:
    """Count as a tokenizer does that needs a token for three characters, as for numbered code."""
    return len(json.dumps([request["messages"], request.get("tools")])) // 3


def four_files(world: World) -> None:
    for name in NAMES:
        lines = (f"def function_{n}_of_{name[:2]}(x): return {n}\n" for n in range(640))
        (world.project / name).write_text("".join(lines))


@pytest.mark.parametrize("refuses", [True, False])
def test_results_that_do_not_fit_together_are_cut_to_what_fits(
    world: World, *, refuses: bool
) -> None:
    """A server that cuts silently instead of refusing would lose the task."""
    too_large: list[int] = []

    def script(request: Json) -> Step:
        size = tokens_of(request)
        if size > WINDOW:
            too_large.append(size)
            if refuses:
                return error(400, f"This model's maximum context length is {WINDOW} tokens")
        tool_contents = [m["content"] for m in request["messages"] if m["role"] == "tool"]
        usage = {"prompt_tokens": size, "completion_tokens": 10}
        if not tool_contents:
            return with_usage(ALL_FOUR, usage)
        if len(tool_contents) == len(NAMES):
            one = call("edit", command="view", path="m0.py", start_line=200, end_line=300)
            return with_usage(one, usage)
        return say("Read.")

    four_files(world)
    world.llm.play(script)
    client = world.daemon(settings=SETTINGS)
    world.start(client)
    assert world.turn(client)["finalText"] == "Read."
    assert too_large == []
    first, second, third = [request.body["messages"] for request in world.llm.requests]
    assert second[: len(first)] == first
    for result in second[-len(NAMES) :]:
        head, note, tail = result["content"].partition("[cut: ")
        assert head.startswith("     1\tdef function_0_of_m")
        assert note
        assert (
            "characters shown; the window is 16,000 tokens; view fewer lines, or one file" in tail
        )
        assert "   640\tdef function_639_of_m" in tail
    assert "function_250_of_m0" in third[-1]["content"]
    # Nothing could be gained by a summary of the task, which is kept word for word.
    assert all("summary" not in item for item in items(client, "condensation"))


def test_a_model_that_asks_for_the_same_again_is_warned_and_then_stopped(world: World) -> None:
    sizes: list[int] = []

    def script(request: Json) -> Step:
        sizes.append(tokens_of(request))
        return with_usage(ALL_FOUR, {"prompt_tokens": sizes[-1], "completion_tokens": 10})

    four_files(world)
    world.llm.play(script)
    client = world.daemon(settings=SETTINGS)
    world.start(client)
    assert world.turn(client)["stopReason"] == "stuck"
    assert len(sizes) == 4
    assert max(sizes) < WINDOW
    note = "You made the same calls three times and got the same results."
    assert note in json.dumps(world.llm.requests[-1].body["messages"])


def test_plan_and_changed_files_outlive_every_summary(world: World) -> None:
    """The model's summaries are of no use here, so neither can come from them."""
    tasks = [{"text": "Count the lines", "status": "completed"}]
    tasks += [{"text": "Write </plan> the report", "status": "in_progress"}]
    replacement = {"old_text": "return 7\n", "new_text": "return 8\n"}
    first_steps = [
        call("edit", command="view", path="m0.py", start_line=1, end_line=20),
        calls(
            call("todo", tasks=tasks),
            call("edit", command="replace", path="m0.py", **replacement),
            call("edit", command="create", path="sub/new.py", text="x = 1\n"),
            call("edit", command="create", path="gone.py", text="x = 1\n"),
        ),
        call("edit", command="undo", path="gone.py"),
    ]

    def script(request: Json) -> Step:
        usage = {"prompt_tokens": tokens_of(request), "completion_tokens": 10}
        if not request.get("tools"):
            return say("Something was done.")
        n_steps = next(n_steps_left)
        if n_steps < len(first_steps):
            return with_usage(first_steps[n_steps], usage)
        if n_steps < 30:
            first = 20 * n_steps
            view = call("edit", command="view", path="m1.py", start_line=first, end_line=first + 60)
            return with_usage(view, usage)
        return say("Done.")

    n_steps_left = iter(range(99))
    four_files(world)
    world.llm.play(script)
    client = world.daemon(settings=SETTINGS)
    world.start(client)
    assert world.turn(client)["finalText"] == "Done."
    assert sum("summary" in item for item in items(client, "condensation")) > 1
    messages: list[Json] = world.llm.requests[-1].body["messages"]
    assert not any(call_made["function"]["name"] == "todo" for call_made in calls_in(messages))
    plan, files = "[x] Count the lines\n[~] Write &lt;/plan> the report", "m0.py\nsub/new.py (new)"
    assert messages[2]["content"] == (
        '<summary of="your work so far">\nSomething was done.\n</summary>\n'
        f"<plan>\n{plan}\n</plan>\n"
        f"<changed-files in={str(world.project)!r}>\n{files}\n</changed-files>"
    )


def calls_in(messages: list[Json]) -> list[Json]:
    return [call_made for message in messages for call_made in message.get("tool_calls", ())]
