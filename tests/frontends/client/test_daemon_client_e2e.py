"""The Python client of the protocol, against a daemon that it starts."""

import asyncio
import os
import re
import signal
from pathlib import Path

import pytest
from command_line import run_python
from fake_llm import call, hang, say
from places import REPO
from world import World, text

from oh_daemon import UserError
from oh_daemon.client import DaemonClient, start_daemon, start_daemon_async
from oh_daemon.protocol.errors import ConversationNotFoundError
from oh_daemon.protocol.version import VERSION

PAGE = (REPO / "docs/python.md").read_text("utf-8")


def test_the_clients_of_the_page_run_as_they_stand(tmp_path: Path) -> None:
    programs = re.findall(r"^```py\n(.*?)^```$", PAGE, re.M | re.S)
    env = {"HOME": str(tmp_path), "OH_DAEMON_HOME": str(tmp_path)}
    lines, of_async = (run_python(["-c", each], env, tmp_path).splitlines() for each in programs)
    assert (lines[0], lines[-1].split()[1]) == ("1 conversation.created", "turn.completed")
    assert of_async == [VERSION]
    assert len([line for line in programs[0].splitlines() if line]) == 10


def until_the_end_of_a_turn(daemon: DaemonClient) -> list[dict[str, str]]:
    """Return the items that have ended by then."""
    items = []
    for params in daemon.events():
        if params["event"]["type"] == "turn.completed":
            break
        if params["event"]["type"] == "item.completed":
            items.append(params["event"]["item"])
    return items


def test_a_client_answers_is_told_errors_as_they_were_raised_and_why_the_daemon_ended(
    world: World,
) -> None:
    world.script(call("terminal", command="touch made"), call("diagnostics"), say("Done."))
    world.script(hang())
    titles = []

    def approve(params: dict[str, str], _context: object) -> dict[str, str]:
        titles.append(params["title"])
        return {"optionId": "allow-once"}

    folder, environment = world.project, {**os.environ, **world.environment}
    methods = {"approval/request": approve}
    with start_daemon(cwd=folder, environment=environment, methods=methods) as daemon:
        daemon.initialize(
            [folder],
            features={"approvalRequests": True, "diagnostics": True},
            trust=[{"folder": folder.as_uri(), "trusted": True}],
        )
        start_result = daemon.request("conversation/start", {"content": text("go")})
        items = until_the_end_of_a_turn(daemon)
        assert titles == ["Run touch made"]
        assert (folder / "made").exists()
        # This client has no editor.
        assert [item["status"] for item in items if item.get("tool") == "diagnostics"] == ["failed"]
        with pytest.raises(ConversationNotFoundError, match="no open conversation 'x'"):
            daemon.request("conversation/resume", {"conversationId": "x"})
        more = {"conversationId": start_result["conversation"]["id"], "content": text("more")}
        with pytest.raises(TimeoutError, match="no answer to conversation/sendMessage"):
            daemon.request("conversation/sendMessage", {**more, "wait": "completed"}, within_s=0.1)
        os.kill(daemon.request("daemon/status")["pid"], signal.SIGKILL)
        with pytest.raises(UserError, match=r"has ended \(exit code -9\)"):
            next(event for event in daemon.events() if event["event"]["type"] == "never")


async def test_an_async_client_answers_by_coroutines_and_raises_the_same(world: World) -> None:
    world.script(call("terminal", command="touch made"), say("Done."))
    world.script(hang())

    async def approve(params: dict[str, str]) -> dict[str, str]:
        await asyncio.sleep(0)
        return {"optionId": "allow-once" if params["title"] == "Run touch made" else "reject"}

    folder, environment = world.project, {**os.environ, **world.environment}
    methods = {"approval/request": approve}
    async with start_daemon_async(cwd=folder, environment=environment, methods=methods) as daemon:
        trust = [{"folder": folder.as_uri(), "trusted": True}]
        await daemon.initialize([folder], features={"approvalRequests": True}, trust=trust)
        start_result = await daemon.conversation_start(content=[{"type": "text", "text": "go"}])
        async for params in daemon.events():
            if params["event"]["type"] == "turn.completed":
                break
        assert (folder / "made").exists()
        with pytest.raises(ConversationNotFoundError, match="no open conversation 'x'"):
            await daemon.conversation_resume(conversationId="x")
        request_params = {"conversationId": start_result["conversation"]["id"]}
        more = {**request_params, "content": text("more"), "wait": "completed"}
        with pytest.raises(TimeoutError, match="no answer to conversation/sendMessage"):
            await daemon.request("conversation/sendMessage", more, within_s=0.1)
        os.kill((await daemon.daemon_status())["pid"], signal.SIGKILL)
        with pytest.raises(UserError, match=r"has ended \(exit code -9\)"):
            [each async for each in daemon.events()]
