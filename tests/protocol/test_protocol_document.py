"""What protocol.md shows a client author to copy: the session and the program do what they say."""

import json
import re
import shutil
import subprocess
import sys
from importlib.resources import as_file, files
from pathlib import Path

import jsonschema
import pytest
from places import REPO
from raw_client import RawClient
from world import World, text, wait_for_status

ROOT = REPO
DOCUMENT = (ROOT / "protocol.md").read_text("utf-8")
TASK = "The test fails. Make the code follow RULES.md and run the tests."


@pytest.fixture(autouse=True)
def shop(world: World) -> None:
    """Make the project a copy of the demo's, with the rule that the code does not follow."""
    with as_file(files("oh_daemon.frontends.cli").joinpath("demo_project")) as project:
        shutil.copytree(project, world.project, dirs_exist_ok=True)
    rules = world.project / "RULES.md"
    rules.write_text(rules.read_text("utf-8").replace("10 % off", "15 % off"), "utf-8")


def test_the_session_of_the_document_has_the_events_that_a_client_gets(world: World) -> None:
    [session] = re.findall(r"^```text\n(→ .*?\"initialize\".*?)^```$", DOCUMENT, re.M | re.S)
    assert TASK in session
    matches = re.findall(r"(?:(\d+) )?\b((?:item|turn|status|approval|usage)\.[a-z]+)", session)
    client = world.daemon()
    client.request("conversation/start", {"options": {"model": "demo"}, "content": text(TASK)})
    for nth in (1, 2, 3):
        wait_for_status(client, "waiting", nth=nth)
        [approval] = client.request("approval/list")["pending"]
        answer = {"approvalId": approval["id"], "digest": approval["digest"]}
        client.request("approval/respond", {**answer, "optionId": "allow-once"})
    wait_for_status(client, "finished")
    events_seen = iter([(str(params["seq"]), params["event"]["type"]) for params in client.events])
    for seq, name in matches:
        # The numbers that the document leaves out depend on what Python leaves beside the tests.
        assert any(event == (seq or event[0], name) for event in events_seen), (seq, name)
    assert [*events_seen] == []
    _check_against_schema(client)


def _check_against_schema(client: RawClient) -> None:
    """Each notification and request of the daemon, and its block, fit docs/schema.json."""
    schema = json.loads((ROOT / "docs/schema.json").read_text("utf-8"))
    names_sent = {"initialize": [client.capabilities["experimental"]["ohDaemon"]]}
    for message in client.messages:
        if message.get("method") in schema["methods"]:
            names_sent.setdefault(message["method"], []).append(message["params"])
    assert {"initialize", "conversation/event", "approval/request"} <= names_sent.keys()
    names = {name: each["params"] for name, each in schema["methods"].items()}
    for method, values in names_sent.items():
        name = {**names, "initialize": "ServerBlock"}[method]
        schema_ref = {"$ref": f"#/$defs/{name}", "$defs": schema["$defs"]}
        validator = jsonschema.Draft202012Validator(schema_ref)
        for value in values:
            validator.validate(value)


def test_the_minimal_client_of_the_document_runs_as_it_stands(world: World) -> None:
    [program] = re.findall(r"^```python\n(.*?)^```$", DOCUMENT, re.M | re.S)
    bin_folder = Path(sys.executable).parent
    outcome = subprocess.run(
        [sys.executable, "-c", program, world.project, TASK],
        env={
            **world.environment,
            "PATH": f"{bin_folder}:/usr/bin:/bin",
            "OH_DAEMON_SANDBOX": "off",
        },
        input="what?\n" + "allow-once\n" * 3,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (outcome.returncode, outcome.stderr) == (0, "")
    assert "Run python3 run_tests.py (risk: medium) allow-once | " in outcome.stdout
    assert outcome.stdout.endswith("- Finish: completed\n")
    assert "* 85 // 100" in (world.project / "prices.py").read_text("utf-8")
