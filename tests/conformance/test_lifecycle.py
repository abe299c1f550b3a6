"""From the first byte to the exit code."""

import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from places import TESTS
from raw_client import RawClient

from oh_daemon.conformance.rpc_process import WITHIN_S

Spawn = Callable[..., RawClient]


def test_initialize_imports_nothing_slow(echo: RawClient) -> None:
    slow = {"pydantic", "pygls", "lsprotocol", "asyncio", "litellm", "mcp"}
    assert slow.isdisjoint(echo.request("test/modules"))


def test_initialize_tells_what_the_daemon_can(spawn: Spawn) -> None:
    client = spawn()
    result = client.initialize()
    capabilities = result["capabilities"]
    assert capabilities["positionEncoding"] == "utf-16"
    assert capabilities["textDocumentSync"] == {"openClose": True, "change": 2, "save": True}
    assert capabilities["workspace"]["workspaceFolders"]["supported"] is True
    block = capabilities["experimental"]["ohDaemon"]
    assert block["protocolVersion"] == {"major": 1, "minor": 0}
    assert block["daemon"]["pid"] == client.process.pid
    assert block["methods"]
    assert result["serverInfo"]["name"] == "oh-daemon"


def test_a_signal_right_after_an_answer_is_not_lost(spawn_echo: Spawn) -> None:
    # Python's own handler missed a signal that came just before the main thread began to wait.
    for _ in range(5):
        echo = spawn_echo()
        echo.initialize()
        echo.request("test/echo")
        echo.process.send_signal(signal.SIGTERM)
        assert echo.exit_code() == 0


def test_the_stop_hooks_run_and_open_requests_are_answered(echo: RawClient) -> None:
    slow = echo.send_request("test/slow", {"name": "a"})
    echo.request("test/echo")
    echo.process.send_signal(signal.SIGTERM)
    assert echo.exit_code() == 0
    assert echo.error_of(slow).code == -31025
    assert "stopped in order" in echo.stderr


def test_a_stop_that_hangs_does_not_keep_the_daemon(spawn_echo: Spawn) -> None:
    echo = spawn_echo()
    echo.initialize()
    echo.request("test/hangAtStop")
    echo.process.send_signal(signal.SIGTERM)
    assert echo.exit_code() == 0
    assert "stopped in order" not in echo.stderr


def test_a_handler_that_hangs_does_not_keep_a_daemon_without_its_editor(spawn_echo: Spawn) -> None:
    echo = spawn_echo()
    echo.initialize()
    echo.notify("test/hang")
    echo.close_stdin()
    assert echo.exit_code() == 0


def test_a_client_that_stops_reading_for_good_does_not_keep_the_daemon(spawn_echo: Spawn) -> None:
    echo = spawn_echo(reading=False)
    echo.send_request("initialize", {"capabilities": {}})
    echo.send_request("test/flood", {"count": 10, "size": 100_000})
    echo.close_stdin()
    assert echo.process.wait(WITHIN_S) == 0


def test_a_client_that_closes_its_end_of_the_output_ends_the_daemon(spawn_echo: Spawn) -> None:
    echo = spawn_echo(reading=False)
    echo.close_stdout()
    with suppress(BrokenPipeError):
        echo.send_request("initialize", {"capabilities": {}})
    assert echo.exit_code() == 0


EDITOR = """
import subprocess, sys
daemon = subprocess.Popen(sys.argv[1:], stdin=0, stdout=1)
sys.stderr.write(f"pid {daemon.pid}\\n")
sys.stderr.flush()
daemon.wait()
"""


def test_the_daemon_ends_when_the_editor_is_killed_though_the_pipes_stay_open(
    tmp_path: Path,
) -> None:
    # The pipes belong to the test, so the input does not end when the editor dies.
    script = tmp_path / "editor.py"
    script.write_text(EDITOR)
    server = [sys.executable, str(TESTS / "support/echo_server.py")]
    with RawClient.start([sys.executable, str(script), *server]) as client:
        client.initialize(params={"processId": client.process.pid})
        client.request("test/echo")
        client.process.kill()
        # The output ends only when the daemon, the last to hold it, has ended too.
        client.exit_code()
        assert "stopped in order" in client.stderr


def test_a_parent_that_is_not_there_is_not_watched(spawn: Spawn) -> None:
    client = spawn()
    client.initialize(params={"processId": 2**30})  # Larger than any process id on Linux.
    assert client.error("no/suchMethod").code == -32601


def test_a_process_that_did_not_start_the_daemon_is_not_watched(spawn: Spawn) -> None:
    """The number of an editor elsewhere, such as outside a container, is here a stranger's."""
    with subprocess.Popen(["sleep", "600"]) as stranger:
        client = spawn()
        client.initialize(params={"processId": stranger.pid})
        stranger.kill()
    for _ in range(50):
        assert client.error("no/suchMethod").code == -32601
