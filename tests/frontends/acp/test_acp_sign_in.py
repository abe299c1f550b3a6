"""Signing in from an ACP client: what is offered, the login in its terminal, and the way back."""

from collections.abc import Callable

from acp_client import AcpClient
from command_line import environment, type_into
from fake_llm import say
from starts import SCRIPT
from world import World

from oh_daemon.conformance.rpc_process import Json

Start = Callable[..., AcpClient]
OF_MODELS = ("OH_DAEMON_MODEL", "OH_DAEMON_BASE_URL", "OH_DAEMON_API_KEY")
KEY = "a key of no known form 3+4=7"
IN_ENVIRONMENT: Json = {"methodId": "environment"}


def methods_of(answer: Json) -> dict[str, Json]:
    return {method["id"]: method for method in answer["authMethods"]}


def test_the_login_of_its_terminal_counts_at_once_until_the_client_logs_out(
    start: Start, world: World
) -> None:
    client = start(without=OF_MODELS)
    methods = methods_of(client.initialize(auth={"terminal": True}))
    assert [*methods] == ["environment", "login"]
    terminal = methods["login"]
    assert (terminal["type"], terminal["args"]) == ("terminal", ["login"])
    params: Json = {"cwd": str(world.project), "mcpServers": []}
    error = client.error("session/new", params)
    assert (error.code, "oh-daemon login" in error.data["hint"]) == (-32000, True)
    assert client.error("authenticate", IN_ENVIRONMENT).code == -32000

    world.script(say("yes"), say("Hello."))
    # As clients do: the command of the agent, and the method's arguments after it.
    argv = [SCRIPT, "acp", *terminal["args"]]
    replies = {"Provider": world.llm.url, "Key": KEY, "Model": "fake"}
    answers = {question: f"{answer}\n".encode() for question, answer in replies.items()}
    code, output = type_into(argv, world.project, environment(world.home), answers)
    assert code == 0, output
    assert client.request("authenticate", IN_ENVIRONMENT) == {}
    session = client.new(world.project)
    assert client.prompt(session, "Hi") == {"stopReason": "end_turn"}
    assert world.llm.requests[-1].headers["authorization"] == f"Bearer {KEY}"

    assert client.request("logout") == {}
    assert not (world.home / "credentials.json").exists()
    assert client.error("session/new", params).code == -32000
    assert KEY not in str(client.messages)


def test_a_client_without_a_terminal_is_offered_the_environment_only(
    start: Start, world: World
) -> None:
    """As Harbor's runner and the registry's check want it: a method of the type `agent`."""
    world.variables |= {"OH_DAEMON_MODEL": "openai/fake"}
    client = start(without=OF_MODELS[1:])
    methods = methods_of(client.initialize())
    assert [(name, method["type"]) for name, method in methods.items()] == [
        ("environment", "agent")
    ]
    # A model alone is not enough, and without a key nothing is sent to its provider.
    assert client.error("authenticate", IN_ENVIRONMENT).code == -32000
    session = client.new(world.project)
    error = client.error_of(client.send_prompt(session, "Hi"))
    assert (error.code, "no key" in error.message) == (-32000, True)
