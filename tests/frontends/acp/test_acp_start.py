"""What `oh-daemon acp` imports before it answers, and how it takes input that is no request."""

import json
import subprocess
import sys
from pathlib import Path

from acp_client import AcpClient
from world import World

INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}
BEFORE_THE_ANSWER = {
    *("oh_daemon", "oh_daemon.__main__", "oh_daemon.protocol", "oh_daemon.protocol.errors"),
    *("oh_daemon.protocol.version", "oh_daemon.common", "oh_daemon.common.cancel"),
    *("oh_daemon.common.collector", "oh_daemon.common.plain_text", "oh_daemon.frontends"),
}
"""Our own modules that the answer to `initialize` may need, besides those of `jsonrpc`."""
OF_ACP = {"", ".main", ".server", ".chunks", ".client_facts", ".reading"}
PRINTS = """
import runpy, sys
from importlib.abc import MetaPathFinder

class Tells(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.startswith("oh_daemon") or "." not in name:
            sys.stderr.write(name + "\\n")

sys.meta_path.insert(0, Tells())
sys.argv = ["oh-daemon", "acp"]
runpy.run_module("oh_daemon", run_name="__main__")
"""


def test_initialize_is_answered_without_a_model_and_without_our_own_contract(
    tmp_path: Path,
) -> None:
    env = {"HOME": str(tmp_path), "OH_DAEMON_HOME": str(tmp_path)}
    outcome = subprocess.run(
        [sys.executable, "-c", PRINTS],
        input=json.dumps(INITIALIZE).encode() + b"\n",
        capture_output=True,
        env=env,
        check=True,
    )
    assert json.loads(outcome.stdout.splitlines()[0])["result"]["protocolVersion"] == 1
    names = outcome.stderr.decode().partition("oh_daemon.frontends.acp.composition")[0].split()
    own_modules = {name for name in names if name.startswith("oh_daemon")}
    allowed_modules = BEFORE_THE_ANSWER | {f"oh_daemon.frontends.acp{name}" for name in OF_ACP}
    assert {
        name for name in own_modules - allowed_modules if not name.startswith("oh_daemon.jsonrpc")
    } == set()
    assert not {"pydantic", "litellm", "mcp", "httpx", "pygls", "acp"} & set(names)


def test_input_that_is_no_request_is_answered_or_ignored(client: AcpClient, world: World) -> None:
    for line in (b"[]", b"3", b"nonsense", b'{"jsonrpc":"2.0","method":"x/unknown"}', b""):
        client.send_line(line)
    client.send_line(
        b'{"jsonrpc":"2.0","id":"long","method":"x","params":"%s"}' % (b"a" * (17 << 20))
    )
    params = {"sessionId": "no-such", "prompt": [{"type": "text", "text": "x"}]}
    assert client.error("session/prompt", params).code == -32002
    assert client.error("session/prompt", {**params, "prompt": 3}).code == -32002
    assert client.error("session/new", {"cwd": "relative", "mcpServers": []}).code == -32602
    assert client.error("session/new", {"cwd": 3}).code == -32602
    assert client.error("no/method").code == -32601
    codes = [m["error"]["code"] for m in client.messages if "error" in m]
    assert codes[:4] == [-32600, -32600, -32700, -31014]
    # `_meta` is for others, and names no parameter.
    session = client.new(world.project, _meta={"cwd": "/nowhere", "sessionId": "x"})
    assert session != "x"
