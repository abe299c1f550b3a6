"""A conversation as a trajectory in ATIF, which the models of PyPI's `atif` accept."""

import json
from pathlib import Path
from typing import Any

import pytest
from atif import Trajectory
from places import TESTS

from oh_daemon.common.masking import Masker
from oh_daemon.features.export.export import render_export

GOLDEN = sorted((TESTS / "golden/v2").glob("*.jsonl"))
USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "cached_tokens": 0}


def export(lines: list[str]) -> dict[str, Any]:
    records = [record for line in lines if "seq" in (record := json.loads(line))]
    text = render_export("c1", records, "atif", masker=Masker(), read_blob=lambda _hash: b"")
    Trajectory.model_validate_json(text)
    return json.loads(text)


@pytest.mark.parametrize("log", GOLDEN, ids=lambda path: path.stem)
def test_the_log_of_every_released_format_is_a_valid_trajectory(log: Path) -> None:
    trajectory = export(log.read_text().splitlines())
    assert trajectory["schema_version"] == "ATIF-v1.8"
    n_prompt_tokens = sum(
        step.get("metrics", {}).get("prompt_tokens", 0) for step in trajectory["steps"]
    )
    assert n_prompt_tokens == trajectory["final_metrics"]["total_prompt_tokens"]


def test_an_answer_is_a_step_with_its_calls_their_results_and_its_cost() -> None:
    [log] = [path for path in GOLDEN if path.stem == "approvals"]
    steps = export(log.read_text().splitlines())["steps"]
    for step in steps:
        del step["timestamp"]
    _, message, first, second, last = steps
    assert message == {"step_id": 2, "source": "user", "message": "Count the files"}
    assert [call["function_name"] for call in first["tool_calls"]] == ["todo", "terminal"]
    assert second == {
        "step_id": 4,
        "source": "agent",
        "message": "",
        "model_name": "openai/fake",
        "metrics": USAGE,
        "tool_calls": [
            {
                "tool_call_id": "call_1_0",
                "function_name": "terminal",
                "arguments": {"command": "rm -f prices.py"},
            }
        ],
        "observation": {
            "results": [
                {
                    "source_call_id": "call_1_0",
                    "content": "The user rejected this: not that one",
                    "extra": {"status": "rejected"},
                }
            ]
        },
    }
    assert (last["message"], last["metrics"]) == ("There is one file.", USAGE)
