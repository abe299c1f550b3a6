"""A secret that is planted anywhere is found neither on the wire nor in any of our files."""

import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from html import unescape
from typing import Any
from urllib.parse import quote

from fake_llm import Step, call, calls, error, reason, say
from planted_secrets import BODY, TOKENS
from raw_client import RawClient
from world import KEY, World, text

Json = dict[str, Any]
HIDDEN = "<secret hidden>"
VALUE = "planted value, of no known form: 3+4=7?"
CLIENT_KEYS = ("a key of no known form 3+4", "the key that came after it 5-6")
LENT = ("lent by the editor, 7*8 at first", "lent by the editor, 9/10 later on")
OF_SERVER = "known to one MCP server only 11%12"
KNOWN = (VALUE, KEY, *CLIENT_KEYS, *LENT)
CUT_IN_THE_TITLE = "Sign in with the key that you know: "
SHORT_OF_KNOWN_FORM = ("AKIA" + "QWERTYUIOPASDFGH", "dop_v1_" + "0123456789abcdef" * 4)


def forms_of(value: str) -> list[str]:
    data = value.encode()
    return [value, quote(value), quote(value, safe=""), base64.b64encode(data).decode()]


# The beginning of a token is looked for too, since a text may be cut before it is masked.
FORBIDDEN = [*[f for v in KNOWN for f in forms_of(v)], OF_SERVER, BODY[:5], *SHORT_OF_KNOWN_FORM]


def echo_of(*values: str) -> str:
    """Return a command that prints values in each of their forms, put together by the shell."""
    forms = [form for value in values for form in forms_of(value)]
    return "; ".join(f"printf '%s\\n' '{form[:5]}''{form[5:]}'" for form in forms)


def before_rotation(path: str, file_name: str) -> Iterator[Step]:
    """Yield steps with secrets from the model, files, commands, errors and the provider."""
    tokens = list(TOKENS.values())
    everything = " ".join([VALUE, CLIENT_KEYS[0], *tokens])
    yield calls(
        reason(everything),
        say(" ".join(tokens), n_chunks=150),
        say(f"{VALUE} {CLIENT_KEYS[0]}", n_chunks=9),
        call("list"),
    )
    known_text = echo_of(VALUE, KEY, CLIENT_KEYS[0], LENT[0])
    command = f"(env; cat /proc/$PPID/environ) > env.txt; cat {path}; env; {known_text}"
    yield call("terminal", command=command, summary=TOKENS["github"])
    yield call("terminal", command=f"for i in $(seq 60); do cat {path}; done")
    yield call("edit", command="view", path=path)
    yield call("edit", command="create", path="new.txt", text="\n".join(tokens))
    yield call("edit", command="view", path=TOKENS["gitlab"])
    yield call("grep", pattern=".", path=path)
    yield call("glob", pattern=f"*{file_name[-8:]}")
    yield call("think", thought=everything)
    yield call("todo", tasks=[{"text": everything, "status": "pending"}])
    yield call("memory", command="write", text=everything)
    yield call("memory", command="search", text="hidden")
    yield call("skill", name="release")
    yield call("delegate", tasks=[{"task": everything, "title": everything, "agent": "explore"}])
    yield say(everything)
    yield call(TOKENS["npm"], key=TOKENS["slack"])
    yield error(400, f"no: {everything} {KEY} {TOKENS['openai']}")


def after_rotation() -> Iterator[Step]:
    """Yield steps with the old and the new values, and with a person who is asked."""
    both = " ".join([*LENT, *CLIENT_KEYS])
    command = f"{echo_of(*LENT, *CLIENT_KEYS)}; : '{both}'"
    yield call("terminal", command=command, summary=both)
    yield call("ask", question=both, choices=[both, "none"])
    yield calls(reason(both), say(both, n_chunks=len(both)))
    yield say(f"Aside: {both} {VALUE}")
    yield error(400, f"no aside: {both} {VALUE} {TOKENS['openai']}")


@dataclass
class Run:
    """One conversation with secrets everywhere, and what the client asked for afterwards."""

    world: World
    client: RawClient
    conversation: str
    answers: dict[str, str] = field(default_factory=dict[str, str])

    def ask(self, name: str, method: str, **params: Any) -> Any:
        """Send a request whose result counts as a sink of its own."""
        result = self.client.request(method, params)
        self.answers[name] = json.dumps(result, ensure_ascii=False)
        return result

    def ended_items(self) -> list[Json]:
        events = (e["event"] for e in self.client.events)
        return [event["item"] for event in events if event["type"] == "item.completed"]

    def notifications(self, method: str) -> str:
        return json.dumps(self.client.notifications(method), ensure_ascii=False)

    def files(self, *patterns: str) -> str:
        """Return our files in the project and the home; checkpoints hold the user's own files."""
        roots = (self.world.project / ".openhands", self.world.home)
        paths = [p for root in roots for pattern in patterns for p in root.rglob(pattern)]
        return "\n".join(
            p.read_text("utf-8", "replace")
            for p in paths
            if p.is_file() and "checkpoints" not in p.parts
        )


def in_items(key: str, expected: str, run: Run) -> str:
    turn_future = [item for item in run.ended_items() if item.get(key) == expected]
    return json.dumps(turn_future, ensure_ascii=False)


def in_events(kind: str, run: Run) -> str:
    events = [e["event"] for e in run.client.events if e["event"]["type"] == kind]
    return json.dumps(events, ensure_ascii=False)


def in_deltas(channel: str, run: Run) -> str:
    deltas = run.client.notifications("conversation/delta")
    return "".join(delta["text"] for delta in deltas if delta["channel"] == channel)


def in_requests(method: str, run: Run) -> str:
    params_list = [m["params"] for m in run.client.messages if m.get("method") == method]
    return json.dumps(params_list, ensure_ascii=False)


def in_what_the_model_got(run: Run) -> str:
    return "\n".join(request.raw_body.decode() for request in run.world.llm.requests)


TOOLS = ["edit", "grep", "glob", "think", "todo", "memory", "skill", "delegate", "ask"]
CHANNELS = ("text", "reasoning", "output")
ANSWERS = """export jsonl, export markdown, export html, conversation/ask, failed conversation/ask,
output/read, terminal/read, terminal/list, conversation/list, search, conversation/read,
mcp/list, conversation/open, oh-log, oh-output""".replace("\n", " ").split(", ")
SINKS: dict[str, Callable[[Run], str]] = {
    "commands": partial(in_items, "kind", "command"),
    **{f"results of {tool}": partial(in_items, "tool", tool) for tool in TOOLS},
    "what the model said": partial(in_items, "kind", "agentMessage"),
    "what it thought": partial(in_items, "kind", "reasoning"),
    "what the user said": partial(in_items, "kind", "userMessage"),
    "sub-agents": partial(in_items, "kind", "subagent"),
    "what hooks said": partial(in_items, "kind", "notice"),
    **{f"deltas of {channel}": partial(in_deltas, channel) for channel in CHANNELS},
    "errors": partial(in_events, "error.raised"),
    "the title": partial(in_events, "conversation.updated"),
    "approvals": partial(in_events, "approval.requested"),
    "approval/request": partial(in_requests, "approval/request"),
    "questions": partial(in_events, "input.requested"),
    "input/request": partial(in_requests, "input/request"),
    "conversation/changed": lambda run: run.notifications("conversation/changed"),
    "mcp/statusChanged": lambda run: run.notifications("mcp/statusChanged"),
    "what the model got": in_what_the_model_got,
    "event logs": lambda run: run.files("events.jsonl"),
    "kept requests": lambda run: run.files("completions/*.json"),
    "lists on disk": lambda run: run.files("meta.json"),
    "notes": lambda run: run.files("memory/*.md"),
    "the recorded traffic": lambda run: run.files("wire.jsonl"),
    "the daemon's log": lambda run: run.files("daemon.log*"),
    **{name: partial(lambda name, run: run.answers[name], name) for name in ANSWERS},
}
"""Secrets reach each of these sinks: it holds the sign that something was hidden there."""
CLEAN: dict[str, Callable[[Run], str]] = {
    "stderr": lambda run: run.client.stderr,
    "the wire": lambda run: json.dumps(run.client.messages, ensure_ascii=False),
    "all files": lambda run: run.files("*"),
    "the variables of the shells and of their parent": lambda run: (
        run.world.project / "env.txt"
    ).read_text(),
}
"""No secret may reach these sinks, not even hidden."""


def test_a_planted_secret_is_in_no_sink_also_when_it_was_rotated(world: World) -> None:
    run = carry_out(world)
    run.client.close()
    sinks = {name: read(run) for name, read in {**SINKS, **CLEAN}.items()}
    leaks = [(name, secret) for name in sinks for secret in FORBIDDEN if secret in sinks[name]]
    assert leaks == []
    assert [name for name in SINKS if HIDDEN not in unescape(sinks[name])] == []
    assert "PATH=" in sinks["the variables of the shells and of their parent"]


def carry_out(world: World) -> Run:
    """Run two turns and a question beside them, with other secrets in the second turn."""
    world.variables["SERVICE_PASSWORD"] = VALUE
    world.arguments = ("--record", str(world.home / "wire.jsonl"))
    settings = prepare(world)
    client = world.daemon(settings=settings, features={"inputRequests": True})
    client.answer("approval/request", lambda _asked: {"optionId": "allow-once"})
    client.answer("input/request", lambda _asked: {"action": "accept", "content": VALUE})
    client.request("secret/set", {"name": "SHOP_TOKEN", "value": LENT[0]})
    play(world, before_rotation("leak.txt", named_like_a_secret()))
    run = Run(
        world, client, world.start(client, f"{CUT_IN_THE_TITLE}{TOKENS['anthropic']} {VALUE}")
    )
    assert turn_of(run)["stopReason"] == "error"
    rotate(run, settings)
    play(world, after_rotation())
    world.send(client, run.conversation, f"again {LENT[1]}")
    assert turn_of(run, nth=2)["stopReason"] == "endTurn"
    authorizations = [request.headers["authorization"] for request in world.llm.requests]
    assert (authorizations[0], authorizations[-1]) == tuple(f"Bearer {key}" for key in CLIENT_KEYS)
    read_all(run)
    return run


def prepare(world: World) -> Json:
    """Write files with secrets into the project; return settings that show as much as they can."""
    leak = world.project / "leak.txt"
    leak.write_text("\n".join(TOKENS.values()))
    (world.project / named_like_a_secret()).touch()
    (world.project / "AGENTS.md").write_text(f"Use {TOKENS['stripe']}.")
    skill = world.project / ".agents/skills/release/SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text(f"---\nname: release\ndescription: How\n---\nUse {TOKENS['npm']}.")
    loud = {"type": "command", "command": "cat leak.txt; cat leak.txt >&2; exit 2"}
    stdout_hook = {"type": "command", "command": "cat leak.txt"}
    stderr_hook = {"type": "command", "command": "cat leak.txt >&2; exit 1"}
    server = {
        "command": "bash",
        "args": ["-c", 'echo "no: $SHOP_PASSWORD ${SHOP_TOKEN}" >&2; exit 1'],
        "env": {"SHOP_PASSWORD": OF_SERVER},
    }
    return {
        "logLevel": "DEBUG",
        "logCompletions": True,
        "titles": True,
        "llm": {"apiKey": CLIENT_KEYS[0]},
        "hooks": {
            "SessionStart": [{"hooks": [stdout_hook, stderr_hook]}],
            "PostToolUse": [{"hooks": [loud]}],
        },
        "mcpServers": {"shop": server},
    }


def named_like_a_secret() -> str:
    return TOKENS["github"]


def play(world: World, steps: Iterator[Step]) -> None:
    """Play the steps in order; each request for a title gets one with a secret."""
    world.llm.play(lambda asked: next(steps) if "tools" in asked else say(f"Title {VALUE}"))


def rotate(run: Run, settings: Json) -> None:
    client = run.client
    client.request("secret/set", {"name": "SHOP_TOKEN", "value": LENT[1]})
    new_settings = {"ohDaemon": {**settings, "llm": {"apiKey": CLIENT_KEYS[1]}}}
    client.notify("workspace/didChangeConfiguration", {"settings": new_settings})
    client.request("mcp/restart", {"server": "shop"})
    params = {"conversationId": run.conversation, "optionId": "approval", "value": "askAlways"}
    client.request("conversation/setOption", params)


def turn_of(run: Run, *, nth: int = 1) -> Json:
    """Wait for the nth turn of the conversation itself to end."""

    def is_end(params: Json) -> bool:
        is_its = params["conversationId"] == run.conversation
        return is_its and params["event"]["type"] == "turn.completed"

    return run.client.wait_for_event(is_end, nth=nth)["event"]["turn"]


def read_all(run: Run) -> None:
    """Read everything that a client can ask for."""
    params = {"conversationId": run.conversation}
    for form in ("jsonl", "markdown", "html"):
        run.ask(f"export {form}", "conversation/export", **params, format=form)
    for method in ("conversation/list", "config/read", "mcp/list"):
        run.ask(method, method)
    search_result = run.ask("search", "conversation/list", query=HIDDEN, texts=True)
    [_] = search_result["conversations"]
    for method in ("conversation/open", "conversation/read", "terminal/list", "checkpoint/list"):
        run.ask(method, method, **params)
    run.ask("terminal/read", "terminal/read", **params, terminalId="main")
    run.ask("conversation/ask", "conversation/ask", **params, question=f"Why? {VALUE}")
    refusal = run.client.error("conversation/ask", {**params, "question": "Why?"})
    run.answers["failed conversation/ask"] = str(refusal)
    [ref] = [item["outputRef"] for item in run.ended_items() if item.get("outputRef")]
    run.ask("output/read", "output/read", **params, outputRef=ref)
    for document in (f"oh-log:/{run.conversation}", f"oh-output:/{run.conversation}/{ref}"):
        scheme = document.partition(":")[0]
        run.ask(scheme, "workspace/textDocumentContent", uri=document)
    run.client.error("conversation/start", {"content": text("x"), "maxSteps": KEY})
