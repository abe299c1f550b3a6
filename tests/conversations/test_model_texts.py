"""The model's texts, prompt and descriptions of tools, are true of what a conversation is made of.

A case says what the client, the user and the machine are. The texts come from real conversations,
and each sentence about the network, unsaved text, tools or the user is there if and only if it is
true of the case.
"""

from __future__ import annotations

import itertools
import json
import os
import pty
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args

import pytest
import tiktoken
from acp_client import FS, AcpClient
from command_line import environment, start
from delegation import delegate, script, task
from fake_llm import call, say
from plain_editor import CLIENTS
from pydantic import SecretStr
from raw_client import RawClient
from starts import SCRIPT
from world import KEY, World, content_of, items

from oh_daemon import LLM, Agent, Conversation, Workspace
from oh_daemon.conversations.conversation_runtime import BuiltinName

pytestmark = pytest.mark.one_daemon

Json = dict[str, Any]
OWN: Json = {"applyEdit2": True, "readDocument": True, "saveDocument": True}
EDITORS: dict[str, tuple[Json, Json]] = {
    "editor": (OWN, {}),
    "helix": ({}, CLIENTS["helix"]),
    "kak-lsp": ({}, CLIENTS["kak-lsp"]),
    "program": ({}, {}),
}
"""Features and capabilities of each client; a program has neither."""
TAKE_EDITS = {"editor", "helix", "acp"}
LEVELS = ("overlay", "landlock", "off")
MODES = ("ask", "autoEdit", "full", "plan")
CHOICES: dict[str, Json] = {
    "all": {},
    "patch": {"options": {"model": "openai/gpt-5.2-codex"}},
    "searches": {"tools": {"allow": ["grep", "finish"]}},
    "commands": {"tools": {"allow": ["terminal"]}},
    "none": {"tools": {"deny": ["*"]}},
}
"""Params of `conversation/start` that choose the tools."""
MAX_FIXED_TOKENS = 3_520
"""The fixed part of each request is the smallest of all full agents; it may not grow."""
PROGRAMS = {"cat", "rm"}
KNOWN = {*get_args(BuiltinName), "apply_patch", "memory", "skill", "rename", "lookup"}


@dataclass(frozen=True)
class Case:
    """A conversation at its start."""

    client: str = "editor"
    level: str = "off"
    mode: str = "ask"
    choice: str = "all"
    is_attended: bool = True
    is_isolated: bool = False
    is_sub_agent: bool = False


@dataclass(frozen=True)
class Texts:
    """The prompt, and each tool's description with its schema, by name."""

    prompt: str
    tools: Mapping[str, str]

    @property
    def whole(self) -> str:
        return "\n".join((self.prompt, *self.tools.values()))


def texts_of(request: Json) -> Texts:
    functions = [tool["function"] for tool in request.get("tools", ())]
    tools = {f["name"]: f"{f['description']}\n{json.dumps(f['parameters'])}" for f in functions}
    return Texts(request["messages"][0]["content"], tools)


def check(case: Case, texts: Texts) -> None:
    tools = texts.tools.keys()
    has_editor = case.client in TAKE_EDITS
    has_buffers = has_editor and not case.is_isolated
    is_boxed = case.level == "overlay" and "terminal" in tools
    is_bare = case.level != "overlay" and "terminal" in tools
    edits = "apply_patch" in tools or '"create"' in texts.tools.get("edit", "")
    plans = case.mode == "plan"
    rows: dict[str, bool] = {
        # Unsaved text
        "inside the user's editor": has_buffers,
        "Your edits appear in the open buffers": has_buffers and edits,
        "Text that the user has not saved counts": has_buffers
        and not tools.isdisjoint({"edit", "grep", "apply_patch"}),
        "sees the workspace with the editor's unsaved texts": has_buffers and is_boxed,
        "A file with unsaved changes is older there": has_buffers and is_bare,
        "It began with the user's unsaved text": has_editor and case.is_isolated,
        # Network and sandbox
        "HTTP goes through the proxy": is_boxed,
        "Only outside: git push": is_boxed,
        "Why it must run outside the sandbox": is_boxed,
        "can neither write nor use the network": case.level == "landlock" and is_bare,
        "needs the approval that an edit needs": is_boxed and not case.is_isolated,
        "until the user applies them": case.is_isolated and edits,
        "What commands change stays there": case.is_isolated and is_boxed,
        # Mode
        "mode: plan": plans,
        "what they change is dropped": plans and is_boxed and not case.is_isolated,
        "let them change nothing": plans and is_boxed and case.is_isolated,
        "only those that read may run": plans and is_bare,
        "Edits are refused": plans and edits,
        "3. Implement": edits,
        "4. Verify": edits and "terminal" in tools,
        # The user
        "user: is here": case.is_attended and not case.is_sub_agent,
        "user: is asked for approvals only": case.is_attended and case.is_sub_agent,
        "nobody is here to answer": not case.is_attended,
        "Ask the user (`ask`)": "ask" in tools,
        "Ask the user one question": "ask" in tools,
        "last message to the user": "finish" in tools and not case.is_sub_agent,
        "End the task with your report": "finish" in tools and case.is_sub_agent,
    }
    text = texts.whole
    wrong = {words: words in text for words, is_true in rows.items() if (words in text) != is_true}
    assert wrong == {}, case
    # A sentence that is not in the table may name only what is there.
    for word, may in {
        r"user's editor|editor's|the editor|buffers|unsaved|not saved": has_editor
        or "diagnostics" in tools,
        r"sandbox|proxy": is_boxed,
        r"network": is_boxed or case.level == "landlock",
        r"user (?:is|will be) asked|[Aa]sk the user": case.is_attended,
    }.items():
        match = re.search(f".*(?:{word}).*", text)
        assert may or match is None, (case, match)
    assert ("ask" in tools) <= case.is_attended
    quoted = set(re.findall(r"`([a-z_]+)`", text))
    assert quoted & KNOWN <= tools, case
    assert set(re.findall(r"`([a-z_]+)`", texts.prompt)) <= PROGRAMS.union(tools), case
    assert re.search(r"^\?|\?!?[a-z]+ \?", text, re.MULTILINE) is None


def pairwise(cases: Sequence[Case]) -> Iterator[Case]:
    """Yield few cases, so that any two values of different fields are in one of them."""
    pairs_by_case = {case: {*itertools.combinations(asdict(case).items(), 2)} for case in cases}
    remaining_pairs = set[Any]().union(*pairs_by_case.values())
    while remaining_pairs:
        case = max(cases, key=lambda each: len(pairs_by_case[each] & remaining_pairs))
        remaining_pairs -= pairs_by_case[case]
        yield case


ALL = [
    Case(*values)
    for values in itertools.product(EDITORS, LEVELS, MODES, CHOICES, (True, False), (False, True))
]


def commit_all(world: World) -> None:
    """Make a commit, from which a worktree can be made where there is no overlay."""
    git = ("git", "-C", str(world.project), "-c", "user.name=a", "-c", "user.email=a@b.example")
    (world.project / "a.txt").write_text("on disk\n")
    for words in (("add", "a.txt"), ("commit", "-qm", "start")):
        subprocess.run([*git, *words], check=True)


def daemons(world: World) -> Callable[[Case], RawClient]:
    """Return a function that returns a daemon of the case's client, at its level."""
    daemon_by_client: dict[tuple[str, bool], RawClient] = {}

    def daemon(case: Case) -> RawClient:
        key = case.client, case.is_attended
        if key not in daemon_by_client:
            features, capabilities = EDITORS[case.client]
            about = {"name": "tests", "kind": "panel" if case.is_attended else "unattended"}
            daemon_by_client[key] = world.daemon(
                params={"capabilities": capabilities}, features=features, client=about
            )
        settings = {"ohDaemon": {"sandbox": case.level, "titles": False, "memory": False}}
        client = daemon_by_client[key]
        client.notify("workspace/didChangeConfiguration", {"settings": settings})
        return client

    return daemon


def texts_at_start(world: World, client: RawClient, case: Case) -> Texts:
    params = CHOICES[case.choice]
    options = {"mode": case.mode, "approval": "askNever", **params.get("options", {})}
    result = client.request(
        "conversation/start", {**params, "options": options, "isolated": case.is_isolated}
    )
    conversation = result["conversation"]["id"]
    agent = world.records_of(conversation)[0]["event"]["agent"]
    client.request("conversation/close", {"conversationId": conversation})
    tools = {
        t["name"]: f"{t['description']}\n{json.dumps(t['inputSchema'])}" for t in agent["tools"]
    }
    return Texts(agent["systemPrompt"], tools)


def check_all(world: World, cases: Iterable[Case]) -> None:
    commit_all(world)
    daemon = daemons(world)
    for case in cases:
        check(case, texts_at_start(world, daemon(case), case))


def test_texts_are_true_of_every_pair_of_values(world: World) -> None:
    check_all(world, pairwise([case for case in ALL if case.client in {"editor", "kak-lsp"}]))


@pytest.mark.full
def test_texts_are_true_of_all_combinations(world: World) -> None:
    check_all(world, ALL)


@pytest.mark.parametrize("level", ["overlay", "off"])
@pytest.mark.parametrize("agent", ["explore", "reader"])
def test_texts_are_true_of_sub_agents(world: World, agent: str, level: str) -> None:
    file = world.project / ".agents/agents/reader.md"
    file.parent.mkdir(parents=True)
    file.write_text("---\ndescription: Reads.\ntools: Read, Grep\n---\nRead it.\n")
    script(world, go=[delegate(task("one", agent=agent)), say("Done.")], one=[say("Read.")])
    case = Case(level=level, mode="plan", is_sub_agent=True)
    world.start(client := daemons(world)(case), "go")
    client.wait_for_event("turn.completed", nth=2)
    requests = [request.body for request in world.llm.requests]
    texts = next(texts_of(r) for r in requests if r["messages"][1]["content"].startswith("one"))
    assert set(texts.tools) >= ({"edit", "grep", "finish"} if agent == "reader" else {"terminal"})
    check(case, texts)


@pytest.fixture
def cl100k(monkeypatch: pytest.MonkeyPatch) -> tiktoken.Encoding:
    """Read the table that comes with litellm, as tiktoken would download it."""
    litellm = find_spec("litellm")
    assert litellm is not None
    tables = Path(litellm.origin or "").parent / "litellm_core_utils" / "tokenizers"
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tables))
    return tiktoken.get_encoding("cl100k_base")


@pytest.mark.parametrize(
    ("level", "is_attended"),
    [("overlay", True), ("overlay", False), ("landlock", False), ("off", True)],
)
def test_texts_are_true_in_a_shell_and_short(
    world: World, cl100k: tiktoken.Encoding, level: str, *, is_attended: bool
) -> None:
    world.script(say("Done."))
    env = {**environment(world.home), **world.environment, "OH_DAEMON_SANDBOX": level}
    own_end, far_end = pty.openpty()
    stdin = far_end if is_attended else subprocess.DEVNULL
    process = start((SCRIPT, "run", "go"), world.project, env, stdin=stdin)
    process.communicate(timeout=120)
    os.close(own_end)
    os.close(far_end)
    body = world.llm.requests[0].body
    check(Case("shell", level, is_attended=is_attended), texts_of(body))
    fixed_text = json.dumps(body["tools"]) + body["messages"][0]["content"]
    assert len(cl100k.encode(fixed_text)) < MAX_FIXED_TOKENS


@pytest.mark.parametrize("client", ["acp", "acp without files"])
def test_texts_are_true_in_acp(world: World, client: str) -> None:
    world.script(say("Done."))
    with AcpClient(world.project, {**world.environment, "OH_DAEMON_SANDBOX": "overlay"}) as acp:
        acp.initialize("zed", **(FS if client == "acp" else {}))
        acp.answer("fs/read_text_file", lambda _params: {"content": ""})
        acp.prompt(acp.new(world.project), "go")
    check(Case(client, "overlay"), texts_of(world.llm.requests[0].body))


@pytest.mark.parametrize("sandbox", LEVELS)
def test_texts_are_true_of_a_program(world: World, sandbox: Any) -> None:
    world.script(say("Done."))
    llm = LLM(model="openai/fake", api_key=SecretStr(KEY), base_url=world.llm.url)
    folder = Workspace(world.project, sandbox=sandbox)
    with Conversation(Agent(llm=llm, tools=tuple(folder.tools)), folder) as conversation:
        conversation.run("go")
    check(Case("program", sandbox), texts_of(world.llm.requests[0].body))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("is_isolated", [False, True])
def test_commands_and_tools_see_what_their_texts_say(
    world: World, level: str, *, is_isolated: bool
) -> None:
    commit_all(world)
    client = daemons(world)(Case(level=level, is_isolated=is_isolated))
    uri = (world.project / "a.txt").as_uri()
    document = {"uri": uri, "languageId": "text", "version": 1, "text": "typed\n"}
    client.notify("textDocument/didOpen", {"textDocument": document})
    command = call("terminal", command="cat a.txt; echo ${HTTPS_PROXY-no proxy}")
    world.script(*(call("edit", command="view", path="a.txt"), command, say("Done.")) * 2)
    conversation = world.start(client, isolated=is_isolated)
    world.turn(client)
    change = {"textDocument": {"uri": uri, "version": 2}, "contentChanges": [{"text": "later\n"}]}
    client.notify("textDocument/didChange", change)
    world.send(client, conversation, "again")
    world.turn(client, nth=2)
    client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
    text = texts_of(world.llm.requests[0].body).whole
    views, outputs = (list(map(content_of, items(client, k))) for k in ("toolCall", "command"))
    sees_later = "Text that the user has not saved counts" in text
    assert sees_later != ("you do not see what the user types from then on" in text)
    assert ["typed" in views[0], "later" in views[1]] == [True, sees_later]
    commands_see = "workspace with the editor's unsaved texts" in text
    assert ["typed" in outputs[0], "later" in outputs[1]] == [
        commands_see or is_isolated,
        commands_see,
    ]
    assert ("on disk\n" in outputs[0]) == ("A file with unsaved changes is older there" in text)
    assert ("no proxy" not in outputs[0]) == ("proxy in the environment" in text)
