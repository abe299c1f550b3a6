"""The client for TypeScript, as `make clients` packs it, in Node against the real daemon."""

import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from fake_llm import call, say
from places import REPO
from world import World

CLIENT = REPO / "clients/typescript"
FOLLOWS = """
import { DaemonError, startDaemon } from "oh-daemon-client";
import { pathToFileURL } from "node:url";

const daemon = startDaemon();
daemon.answer("approval/request", ({ title }) => {
  console.log(title);
  return { optionId: "allow-once" };
});
const folder = pathToFileURL(process.cwd()).href;
const features = { approvalRequests: true };
await daemon.initialize({ folders: [folder], features, trust: [{ folder, trusted: true }] });
const conversation = await daemon.start();
let state;
await conversation.follow((now) => (state = now));
await conversation.send("go");
for await (const { event } of conversation.events()) if (event.type === "turn.completed") break;
const items = [...state.items.values()].map(({ kind, status }) => `${kind} ${status}`);
console.log(items.filter((each) => !each.startsWith("notice")).join(", "));
const missing = daemon.request("conversation/resume", { conversationId: "x" });
const error = await missing.catch((error) => error);
console.log(error instanceof DaemonError, error.data.kind);
process.kill((await daemon.request("daemon/status", {})).pid, "SIGKILL");
console.log((await daemon.closed).message);
await daemon.request("daemon/status", {}).catch(({ message }) => console.log(message));
"""
LEFT_OUT = """
import { PassThrough } from "node:stream";
import { Conversation, connect } from "oh-daemon-client";
import { frame, messages } from "oh-daemon-client/framing";

const [down, up] = [new PassThrough(), new PassThrough()];
const record = (seq) => ({ v: 2, seq, ts: "", event: { type: "conversation.closed" } });
const named = { conversationId: "c", epoch: "e" };
const say = (method, more) => frame({ method, params: { ...named, ...more } });
(async () => {
  for await (const { id, method, params } of messages(up)) {
    const events = [1, 2].map((n) => record(params.afterSeq + n));
    const [lastSeq, truncated] = [params.afterSeq + 2, params.afterSeq === 1];
    const page = { events, lastSeq, epoch: "e", truncated };
    if (method === "conversation/events") down.write(frame({ id, result: page }));
    if (method === "shutdown") down.end(frame({ id, result: null }));
  }
})();
const client = connect(down, up);
const seqs = [];
for await (const { seq } of new Conversation(client, "c").events(1)) {
  seqs.push(seq);
  if (seq === 5) {
    down.write(say("conversation/event", record(5)));
    // This one comes in pieces, and two are missing before it.
    for (const byte of say("conversation/event", record(8))) down.write(Uint8Array.of(byte));
  }
  if (seq === 7) down.write(say("conversation/gap", { fromSeq: 8, toSeq: 9 }));
  if (seq === 9) break;
}
await client.close();
console.log(seqs.join(" "));
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the package in it."""
    package = CLIENT / "oh-daemon-client.tgz"
    assert package.is_file(), "`make clients` packs the client"
    into = tmp_path / "program/node_modules"
    with tarfile.open(package) as archive:
        archive.extractall(into, filter="data")
    (into / "package").rename(into / "oh-daemon-client")
    return into.parent


def run(folder: Path, program: str, environment: dict[str, str]) -> list[str]:
    (folder / "client.mjs").write_text(program, "utf-8")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {
        **os.environ,
        "HOME": str(folder),
        "OH_DAEMON_HOME": str(folder),
        **environment,
        "PATH": path,
    }
    outcome = subprocess.run(
        ["node", "client.mjs"], cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    assert outcome.returncode == 0, outcome.stderr
    return outcome.stdout.splitlines()


def test_the_quick_start_of_its_page_runs_as_it_stands(folder: Path) -> None:
    [program] = re.findall(
        r"^```js\n(.*?)^```$", (CLIENT / "README.md").read_text("utf-8"), re.M | re.S
    )
    lines = run(folder, program, {})
    assert (lines[0], lines[-1].split()[1]) == ("1 conversation.created", "turn.completed")


def test_it_answers_what_it_is_asked_folds_events_and_says_why_the_daemon_ended(
    folder: Path, world: World
) -> None:
    world.script(call("terminal", command="touch made"), say("Done."))
    message = "the daemon has ended (SIGKILL); its log file may say why"
    assert run(folder, FOLLOWS, world.environment) == [
        "Run touch made",
        "userMessage completed, command completed, agentMessage completed, changes undefined",
        "true conversationNotFound",
        message,
        message,
    ]
    assert (folder / "made").exists()


def test_events_that_did_not_come_are_read_from_the_log_and_none_comes_twice(folder: Path) -> None:
    assert run(folder, LEFT_OUT, {}) == ["2 3 4 5 6 7 8 9"]
