"""Records the conversations beside this file again: `.venv/bin/python tests/replays/record.py`.

Each is the work of the real agent with real tools; only the model is a script. `test_replays.py`
replays them, so what the agent's loop makes of them cannot change unnoticed. Record them again only
if such a change is meant.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent))

from fake_llm import (  # noqa: E402 - it lies in a folder of its own.
    FakeLLM,
    Step,
    call,
    calls,
    error,
    first_user_text,
    reason,
    say,
    script_by_key,
    with_usage,
)

from oh_daemon import LLM, Agent, Conversation, Record, Tool, Workspace  # noqa: E402
from oh_daemon.protocol.approvals import ApprovalRequested  # noqa: E402
from oh_daemon.protocol.events import ItemCompleted  # noqa: E402
from oh_daemon.protocol.items import UserMessageItem  # noqa: E402

Json = dict[str, Any]
COUNT = {"task": "Count the files", "title": "Count"}
WORK: dict[str, list[Step]] = {
    "Do": [
        reason("A look first.", calls(call("list", path="."), call("grep", pattern="a", path="."))),
        error(503),
        call("terminal", command="pwd; sleep 0.2"),
        call("edit", command="create", path="new.txt", text="one\n"),
        call("edit", command="nonsense"),
        call("delegate", tasks=[COUNT]),
        calls(say("Done with it."), call("finish", message="It is done.")),
    ],
    "Count": [call("list", path="."), say("There are two files.")],
}
"""Parallel calls, thinking, a retry, tools, a wrong call and a sub-agent, by the first word."""


def work(folder: Path, url: str, llm: FakeLLM) -> None:
    """See `WORK`."""
    llm.play(script_by_key(lambda request: first_user_text(request).split()[0], WORK))
    with conversation(folder, url) as talk:
        talk.run("Do it")


def condense(folder: Path, url: str, llm: FakeLLM) -> None:
    """Fill a small window: results are cut, older steps pruned and summarized, one call refused."""
    for n in range(4):
        lines = (f"def function_{line}_of_m{n}(x): return {line}\n" for line in range(40))
        (folder / f"m{n}.py").write_text("".join(lines))

    def script(request: Json) -> Step:
        n, size = len(llm.requests), len(json.dumps(request["messages"])) // 3
        usage = {"prompt_tokens": size, "completion_tokens": 10}
        if not request.get("tools"):
            return with_usage(say("Read some of the files; go on with the next."), usage)
        if n == 4:
            return error(400, "This model's maximum context length is 2000 tokens")
        view = call("edit", command="view", path=f"m{n % 4}.py", start_line=1 + n)
        return with_usage(view if n < 14 else say("Read."), usage)

    llm.play(script)
    small: Json = {"context_window": 4000, "system_prompt": "Work.", "tools": ("edit",)}
    with conversation(folder, url, **small) as talk:
        talk.run("Read all")


def interfere(folder: Path, url: str, llm: FakeLLM) -> None:
    """Reject an action, steer, interrupt, go on, condense by hand, take a turn back, fork."""
    steps = [
        call("terminal", command="echo no > no.txt"),
        call("remark"),
        call("stop"),
        say("On it again."),
        say("A summary."),
        say("A turn to take back."),
        say("The end."),
    ]
    llm.add(*steps)

    def remark() -> str:
        """Let the user say something while the agent works."""
        talk.send_message("And be brief.", "steer")
        return "said"

    def stop() -> None:
        """Let the user interrupt the agent."""
        with suppress(TimeoutError):
            talk.interrupt(0)

    def answer(record: Record) -> None:
        if isinstance(record.event, ApprovalRequested):
            approval = record.event.approval
            talk.respond(approval, allow="no.txt" not in approval.title, feedback="Not now.")

    own = (Tool.from_function(remark, read_only=True), Tool.from_function(stop, read_only=True))
    tools = (*Workspace(folder).tools, *own)
    with conversation(folder, url, tools=tools, approval="askAlways") as talk:
        talk.register_callback(answer)
        talk.run("Do it")
        talk.run(None)
        talk.condense("Keep the names.")
        talk.run("Take this back")
        items = [r.event.item for r in talk.history if isinstance(r.event, ItemCompleted)]
        talk.rollback(next(i.id for i in reversed(items) if isinstance(i, UserMessageItem)))
        talk.run("And now?")
        fork_talk = talk.fork()
    llm.add(call("list", path="."), say("The end of the other."))
    with conversation(folder, url, conversation_id=fork_talk, tools=tools) as talk:
        talk.run("And here?")


def demo(folder: Path, _url: str, _llm: FakeLLM) -> None:
    argv = [sys.executable, "-m", "oh_daemon", "demo", "--folder", str(folder)]
    folder.rmdir()
    env = {**environment(folder), "OH_DAEMON_MODEL": "demo"}
    subprocess.run(argv, env=env, check=True, stdout=subprocess.DEVNULL)


def conversation(
    folder: Path,
    url: str,
    context_window: int | None = None,
    conversation_id: str | None = None,
    **agent: Any,
) -> Conversation:
    llm = LLM(model="openai/fake", base_url=url, api_key="sk-0", context_window=context_window)
    settings = {"logCompletions": True}
    workspace = Workspace(folder, environment(folder), sandbox="off")
    own = Agent(llm=llm, settings=settings, **agent)
    return Conversation(own, workspace, conversation_id=conversation_id)


def environment(folder: Path) -> dict[str, str]:
    """Return variables that name no place but the new home, in which there is a Python."""
    home = folder.parent
    return {"PATH": f"{home}/bin:/usr/bin:/bin", "HOME": str(home), "OH_DAEMON_HOME": str(home)}


RECORDINGS = (demo, work, condense, interfere)


def main(names: Sequence[str]) -> None:
    for record in RECORDINGS:
        if not names or record.__name__ in names:
            with tempfile.TemporaryDirectory(prefix="oh-record-") as home, FakeLLM() as llm:
                folder = Path(home, "project")
                folder.mkdir()
                (folder.parent / "bin").mkdir()
                (folder.parent / "bin" / "python3").symlink_to(sys.executable)
                record(folder, llm.url, llm)
                keep_recording(folder, llm.url, HERE / record.__name__)


def keep_recording(folder: Path, url: str, place: Path) -> None:
    """Copy the logs, the last request of each, without the paths and ports of this machine."""
    shutil.rmtree(place, ignore_errors=True)
    for log in folder.glob(".openhands/conversations/*/events.jsonl"):
        # A replay finds sub-agents by their ids.
        log_bytes = log.read_bytes()
        name = log.parent.name if b'"parentId"' in log_bytes else "main"
        target = place / ("fork" if b'"forkedFrom"' in log_bytes else name)
        target.mkdir(parents=True)
        lines = _plain(log, folder, url).splitlines(keepends=True)
        # The other lines name the machine.
        (target / "events.jsonl").write_text("".join(line for line in lines if '"event":' in line))
        for file in sorted(log.parent.glob("completions/*-step.json"))[-1:]:
            (target / "completions").mkdir()
            value = json.loads(_plain(file, folder, url))
            del value["request"]["tools"]
            (target / "completions" / file.name).write_text(json.dumps(value, indent=1) + "\n")


def _plain(file: Path, folder: Path, url: str) -> str:
    return (
        file.read_text("utf-8").replace(str(folder.parent), "/home/me").replace(url, "http://model")
    )


if __name__ == "__main__":
    main(sys.argv[1:])
