"""`--record FILE` writes the traffic of a daemon to a file, to find bugs in a client."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from world import World

from oh_daemon.conformance.connection import frame

Json = dict[str, Any]
KEY, LENT, OF_SERVER = "an-unusual-key", "hunter-two-2", "word-of-the-server"


def read_recording(path: Path) -> list[Json]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_each_message_is_recorded_but_for_what_is_secret(world: World) -> None:
    path = world.home / "wire.jsonl"
    world.arguments = (f"--record={path}",)
    server = {"command": "no-such-program", "env": {"A": OF_SERVER, "B": f"{{{OF_SERVER}"}}
    settings = {"llm": {"apiKey": KEY}, "mcpServers": {"shop": server}, "instructions": "Be\nbrief"}
    client = world.raw()
    client.initialize([world.project], settings=settings)
    client.request("secret/set", {"name": "WORD", "value": LENT})
    client.request("config/validate", {"settings": {"instructions": f"The word is {LENT}"}})
    client.send(b'{\n "jsonrpc": "2.0",\n "id": 7.50, "method": "daemon/nonsense" }')
    for garbled_text in (f'{{"apiKey": "{KEY}', f'{{"id": "\xff", "apiKey": "{KEY}"}}'):
        client.expect(None)
        client.send_raw(frame(garbled_text.encode("latin-1")))
    client.request("shutdown")
    client.notify("exit")
    assert client.exit_code() == 0
    lines = read_recording(path)
    assert [line["message"] for line in lines if line["from"] == "daemon"] == client.messages
    client_lines = [line for line in lines if line["from"] == "client"]
    methods = [line["message"]["method"] for line in client_lines if "message" in line]
    method_names = ["initialize", "initialized", "secret/set", "config/validate", "daemon/nonsense"]
    assert [name for name in methods if name in {*method_names, "shutdown", "exit"}] == [
        *(*method_names, "shutdown", "exit")
    ]
    actual_settings = client_lines[0]["message"]["params"]["initializationOptions"]["ohDaemon"][
        "settings"
    ]
    mask_text = "<secret hidden>"
    variables = {"A": mask_text, "B": mask_text}
    assert actual_settings == {
        **settings,
        "llm": {"apiKey": mask_text},
        "mcpServers": {"shop": {**server, "env": variables}},
    }
    assert '"id": 7.50, "method"' in path.read_text()
    [cut_line, wrong] = [line for line in client_lines if "raw" in line]
    assert (cut_line["raw"], wrong["raw"]) == (
        f'{{"apiKey": "{mask_text}',
        f'{{"id": "\\xff", "apiKey": "{mask_text}"}}',
    )
    assert cut_line["problem"]
    assert {line["pid"] for line in lines} == {client.process.pid}
    assert all(line["ts"].endswith("Z") for line in lines)
    assert path.stat().st_mode & 0o777 == 0o600
    assert [word for word in (KEY, LENT, OF_SERVER) if word in path.read_text()] == []


def test_a_daemon_whose_recording_fills_the_disk_goes_on(world: World) -> None:
    place = world.home / "small"
    place.mkdir()
    world.arguments = ("--record", str(place / "wire.jsonl"))
    script = f"mount -t tmpfs -o size=16k none '{place}'"
    prefix = ("unshare", "-Urm", "sh", "-ec", f'{script}; exec "$@"', "sh")
    if subprocess.run([*prefix, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this machine does not allow mounts in a namespace, also not for root")
    client = world.raw(prefix=prefix)
    client.initialize([world.project])
    for _ in range(20):
        client.request("config/validate", {"settings": {"instructions": "x" * 2_000}})
    client.wait_for_stderr("nothing more is recorded")
    assert client.close() == 0
    assert client.stderr.count("nothing more is recorded") == 1
    assert "No space left" in client.stderr


@pytest.mark.parametrize(
    ("name", "expected_text"),
    [("missing/wire.jsonl", "No such file or directory"), (".", "is a link or of the wrong kind")],
)
def test_a_recording_that_cannot_begin_is_said_in_one_line(
    world: World, name: str, expected_text: str
) -> None:
    world.arguments = ("--record", str(world.home / name))
    client = world.raw()
    assert client.exit_code() == 4
    assert client.stderr.startswith("oh-daemon cannot start: ")
    assert expected_text in client.stderr
    assert client.stderr.count("\n") == 1


def test_two_daemons_may_record_to_one_file(world: World) -> None:
    path = world.home / "wire.jsonl"
    path.write_text('{"before": true}\n')
    path.chmod(0o644)
    world.arguments = ("--record", str(path))
    clients = [world.raw(), world.raw()]
    for client in clients:
        client.initialize([world.project])
        client.close()
    [before, *lines] = read_recording(path)
    assert before == {"before": True}
    assert {line["pid"] for line in lines} == {client.process.pid for client in clients}
    assert path.stat().st_mode & 0o777 == 0o600
