"""T6: a secret that is planted anywhere is found neither on the wire nor in any file of ours."""

import base64
import json
from urllib.parse import quote

from fake_llm import Step, call, calls, error, say
from planted_secrets import BODY, TOKENS
from raw_client import RawClient
from world import KEY, World, text

VALUE = "planted value, of no known form: 3+4=7?"
SHORT_OF_KNOWN_FORM = ("AKIA" + "QWERTYUIOPASDFGH", "dop_v1_" + "0123456789abcdef" * 4)


def leaks_of(value: str) -> list[str]:
    data = value.encode()
    return [value, quote(value), quote(value, safe=""), base64.b64encode(data).decode()]


FORBIDDEN = [*leaks_of(VALUE), KEY, BODY, *SHORT_OF_KNOWN_FORM]


def written(world: World, client: RawClient) -> dict[str, str]:
    """Everything that left the daemon, by where it went; not what the agent's commands wrote."""
    roots = (world.project / ".openhands", world.home)
    files = [path for root in roots for path in root.rglob("*") if path.is_file()]
    found = {str(path): path.read_text("utf-8", "replace") for path in files}
    wire = "\n".join(json.dumps(message, ensure_ascii=False) for message in client.messages)
    return {**found, "the wire": wire, "stderr": client.stderr}


def echo_all() -> Step:
    """A command that prints the known value in each of its forms, put together by the shell."""
    forms = "; ".join(f"printf '%s\\n' '{form[:5]}''{form[5:]}'" for form in leaks_of(VALUE))
    return call("terminal", command=f"cat leak.txt; env; {forms}", summary=TOKENS["github"])


def every_way(path: str) -> list[Step]:
    """Steps in which secrets come from the model, from files, commands, errors and the provider."""
    tokens = list(TOKENS.values())
    pieces = calls(say(" ".join(tokens), n_chunks=150), say(VALUE, n_chunks=9), call("list"))
    return [
        pieces,
        echo_all(),
        call("edit", command="view", path=path),
        call("grep", pattern=".", path=path),
        call("think", thought=" ".join([VALUE, *tokens])),
        call(TOKENS["npm"], key=TOKENS["slack"]),
        call("edit", command="create", path="new.txt", text="\n".join(tokens)),
        call("edit", command="view", path=TOKENS["gitlab"]),
        error(400, f"no: {VALUE} {KEY} {TOKENS['openai']}"),
    ]


def test_a_planted_secret_is_in_no_log_no_frame_and_no_blob(world: World) -> None:
    (world.project / "leak.txt").write_text("\n".join(TOKENS.values()))
    world.variables["SERVICE_PASSWORD"] = VALUE
    steps = every_way("leak.txt")
    world.script(*steps)
    loud = {"type": "command", "command": "cat leak.txt; cat leak.txt >&2; exit 2"}
    told = {"type": "command", "command": "cat leak.txt"}
    broken = {"type": "command", "command": "cat leak.txt >&2; exit 1"}
    hooks = {"SessionStart": [{"hooks": [told, broken]}], "PostToolUse": [{"hooks": [loud]}]}
    settings = {"logLevel": "DEBUG", "logCompletions": True, "hooks": hooks}
    client = world.daemon(settings=settings)
    conversation = world.start(client, f"go {TOKENS['anthropic']} {VALUE}")
    assert world.turn(client)["nSteps"] == len(steps) - 1
    assert "a hook says" in json.dumps([r.body for r in world.llm.requests])
    for form in ("jsonl", "markdown", "html"):
        exported = {"conversationId": conversation, "format": form}
        assert client.request("conversation/export", exported)
    client.error("conversation/start", {"content": text("x"), "maxSteps": KEY})
    client.close()
    places = written(world, client)
    assert any(place.endswith("events.jsonl") for place in places)
    assert any(place.endswith("daemon.log") for place in places)
    assert any("/completions/" in place for place in places)
    found = [(place, secret) for place in places for secret in FORBIDDEN if secret in places[place]]
    assert found == []


def test_the_agents_commands_do_not_have_the_secrets_of_the_environment(world: World) -> None:
    world.variables["SERVICE_PASSWORD"] = VALUE
    world.script(call("terminal", command="env > env.txt"), say("Done."))
    client = world.daemon()
    world.start(client)
    world.turn(client)
    seen = (world.project / "env.txt").read_text()
    assert "PATH=" in seen
    assert not any(secret in seen for secret in FORBIDDEN)


def test_a_key_from_the_settings_of_the_client_is_used_and_shown_nowhere(world: World) -> None:
    key = "a key of no known form 3+4"
    world.script(call("terminal", command=f"echo '{key}'"), say(f"It is {key}."))
    client = world.daemon(settings={"llm": {"apiKey": key}})
    world.start(client)
    world.turn(client)
    assert world.llm.requests[0].headers["authorization"] == f"Bearer {key}"
    found = {place for place, said in written(world, client).items() if key in said}
    assert found == set()
