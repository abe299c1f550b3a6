"""The built-in demo model: a script, no AI. It needs no key and no network.

Everything around it is real: it reads what the tools return (the unsaved rule, the actual code) and
continues from there. It exists to show the product at work, not for tests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from oh_daemon.kernel.ports import (
    Caveat,
    Json,
    ModelAnswer,
    ModelDelta,
    ModelRequest,
    Progress,
    ToolCall,
    Traits,
)
from oh_daemon.protocol.status import Cost, Usage

_CHUNK = 12
_PACE_S = 0.01
_UNSAVED = "unsaved changes"
"""A phrase that `edit` shows for an open file with unsaved changes."""
_NO_AI = (
    "This is the demo model: a script, no AI. Set a provider's key, for instance "
    "ANTHROPIC_API_KEY, or the setting `model`, to work with a real one."
)
_TASKS = ("Run the tests", "Read the rule and the code", "Fix the code", "Run the tests again")

Step = tuple[str, str, Json]
"""What the script says, the tool it calls, and the arguments."""


class DemoModel:
    """Plays the demo task when the message names its files, and otherwise lists the folder."""

    name = "demo"
    label = "demo model: a script, no AI"
    edits_by_patch = False
    traits = Traits(caveats=(Caveat("demoModel", _NO_AI),))

    def complete(self, request: ModelRequest, progress: Progress) -> ModelAnswer:
        """Answer with the next step of the script, at reading speed. It writes no titles."""
        if request.purpose is not None:
            reply_text = "I am the demo model, a script without any AI." * (
                request.purpose == "ask"
            )
            return ModelAnswer(text=reply_text, finish_reason="stop", model=self.name)
        task, results = _since_the_task(request.messages)
        script = _fix_the_price if "RULES.md" in task else _look_around
        text, tool, args = script(results)
        for start in range(0, len(text), _CHUNK):
            if progress.cancel.wait(_PACE_S):
                progress.cancel.raise_if_cancelled()
            progress.on_delta(ModelDelta("text", text[start : start + _CHUNK]))
        call = ToolCall(f"demo_{len(results)}", tool, json.dumps(args))
        return ModelAnswer(
            text=text,
            tool_calls=(call,),
            finish_reason="tool_calls",
            usage=Usage(requests=1, cost=Cost(amount=0)),
            model=self.name,
        )


def _since_the_task(messages: Sequence[Json]) -> tuple[str, list[str]]:
    """Return the user's last message, and what the tools have returned since."""
    last = max(n for n, message in enumerate(messages) if message["role"] == "user")
    results = [str(m["content"]) for m in messages[last + 1 :] if m["role"] == "tool"]
    return str(messages[last]["content"]), results


def _plan(n_done: int) -> Json:
    statuses = ["completed"] * n_done + ["in_progress"] + ["pending"] * len(_TASKS)
    if n_done == len(_TASKS):
        statuses = ["completed"] * n_done
    pairs = zip(_TASKS, statuses, strict=False)
    return {"tasks": [{"text": text, "status": status} for text, status in pairs]}


def _fix_the_price(results: list[str]) -> Step:
    """Return the next step of `oh-daemon demo`; its numbers come from the tools' results."""
    run_tests = {"command": "python3 run_tests.py", "security_risk": "medium"}
    match len(results):
        case 0:
            return "Here is how I will go about it.", "todo", _plan(0)
        case 1:
            return "First I want to see it fail.", "terminal", run_tests
        case 2:
            finding = "One test fails." if "1 failed" in results[1] else "Nothing fails."
            args = {"command": "view", "path": "RULES.md"}
            return f"{finding} What is the rule?", "edit", args
        case 3:
            return "And the code?", "edit", {"command": "view", "path": "prices.py"}
        case 4:
            return _fix(results[2], results[3])
        case 5:
            return "Now the tests again.", "terminal", run_tests
        case 6:
            return _tick_off(results[5])
        case _:
            return "", "finish", {"message": _summary(results)}


def _fix(rules: str, code: str) -> Step:
    percent, factor = _find(r"(\d+) % off", rules), _find(r"cents \* (\d+) // 100", code)
    state_note = ", unsaved as it is" if _UNSAVED in rules else ""
    args = {
        "command": "replace",
        "path": "prices.py",
        "old_text": f"cents * {factor} // 100",
        "new_text": f"cents * {100 - percent} // 100",
        "summary": "Apply the discount of RULES.md",
    }
    return f"The rule says {percent} % off{state_note}; the code keeps {factor} %.", "edit", args


def _tick_off(last_run: str) -> Step:
    if "1 passed" in last_run:
        return "All of it is done.", "todo", _plan(len(_TASKS))
    return "It still fails.", "todo", _plan(len(_TASKS) - 1)


def _summary(results: list[str]) -> str:
    if "1 passed" not in results[5]:
        return (
            "The test does not pass, and I know no other way: I am the demo model, a script "
            "without any AI."
        )
    summary = "The discount in prices.py now follows RULES.md"
    if _UNSAVED in results[2]:
        return f"{summary} as you have it open. The tests pass. I left RULES.md unsaved, as it was."
    return f"{summary}. The tests pass."


def _find(pattern: str, text: str) -> int:
    match = re.search(pattern, text)
    return int(match.group(1)) if match else 0


def _look_around(results: list[str]) -> Step:
    if not results:
        return "I am a script, so I can only look around here.", "list", {"path": "."}
    message = (
        "That is what lies in this folder. I am the demo model, a script without any AI: set a "
        "provider's key or the setting `model`, and send your message again."
    )
    return "", "finish", {"message": message}
