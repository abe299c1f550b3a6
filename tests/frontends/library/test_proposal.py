"""The four programs of the proposal for a minimal Python SDK, after the renames of docs/python.md.

They are as in the proposal but for what is no Python there (`new`, `push`) and for variables that
it misspells. What it uses and leaves to the reader (how to sleep, which MCP servers) is in `run`.
"""

import re
import subprocess
from pathlib import Path

import mcp_server
import pytest
from command_line import run_python
from fake_llm import FakeLLM, Json, Script, call, first_user_text, say, script_by_key, tool_results
from places import REPO

PAGE = REPO / "docs/python.md"
LLM = """
llm = LLM(
  model="claude-sonnet-4",
  api_key="your_api_key_here",
)
"""
END = """
while conversation.state.status == ConversationStatus.RUNNING:
  sleep(1)

if conversation.state.status == ConversationStatus.ERROR:
  raise Exception("Error!")
else:
  print("Agent finished")
"""
HELLO = f"""
from openhands.core import LLM, Agent, Tool, ToolResult, Conversation, ConversationStatus
{LLM}
def hello_tool(name) -> ToolResult:
  print("Hello, " + name)
  return ToolResult()

tools = [
  Tool(
    name="hello",
    description="Says hello",
    callback=hello_tool,
    inputSchema={{'type': 'string', 'description': 'name to greet'}}
  ),
]

agent = Agent(llm=llm, tools=tools)

conversation = Conversation(agent)
conversation.start_thread()
conversation.send_message("Say hello to 'world'")
{END}"""
RUNTIME = f"""
from openhands.core import LLM, Agent, Tool, Conversation, ConversationStatus
from openhands.runtime import LocalRuntime
{LLM}
runtime = LocalRuntime()
runtime.clone_repo("All-Hands-AI/OpenHands")
runtime.run_command("echo 'do a flip' > /tmp/Plan.md")
microagents = runtime.load_microagents()

def run_lint():
  return runtime.run_command("npm run lint:fix")

tools = runtime.tools + [
  Tool(
    name="lint",
    description="Lints files and makes automatic changes where possible",
    callback=run_lint,
  ),
]

mcp_tools = MCPClient(load_mcp_config())
tools += mcp_tools

agent = Agent(llm=llm, tools=tools, microagents=microagents)

def print_event(evt):
  print(evt)

conversation = Conversation(agent)
conversation.register_callback(print_event)
conversation.start_thread()
conversation.send_message("Follow /tmp/Plan.md")
{END}"""
DELEGATION = f"""
from openhands.core import LLM, Agent, Tool, Conversation, ConversationStatus
{LLM}
delegate_agent = Agent(llm=llm, tools=[])
delegate_conversations = []
def create_conversation(msg):
	conversation = Conversation(delegate_agent)
	conversation.start_thread()
	conversation.send_message("Say hello to 'world'")
	delegate_conversations.append(conversation)

tools = [
  Tool(
    name="create_conversation",
    description="Create new conversation",
    callback=create_conversation,
    inputSchema={{'type': 'string', 'description': 'Create a new OpenHands conversation to do a subtask'}}
  ),
]

base_agent = Agent(llm=llm, tools=tools)
conversation = Conversation(base_agent)
conversation.start_thread()
conversation.send_message("Create 3 OpenHands conversations that each flips a coin and report the results")
{END}"""  # noqa: E501 - as in the proposal.
MESSAGES = f"""
from openhands.core import LLM, Agent, Tool, Conversation, ConversationStatus
{LLM}
implementer_agent = Agent(llm=llm, tools=[])
implementer_convo = Conversation(implementer_agent)
implementer_convo.start_thread()
implementer_convo.send_message("Build a hello world react app")

def pass_message_to_implementer(msg):
  implementer_convo.send_message(msg)

pass_message_tool = Tool(
    name="pass_message",
    description="Says hello",
    callback=pass_message_to_implementer,
    inputSchema={{'type': 'string', 'description': 'send a message to the implementer'}}
)

testing_agent = Agent(llm=llm, tools=[pass_message_tool])
testing_convo = Conversation(testing_agent)
testing_convo.start_thread()
testing_convo.send_message("Test the react app and tell the implementer about any issues.")

while implementer_convo.state.status == ConversationStatus.RUNNING or testing_convo.state.status == ConversationStatus.RUNNING:
  sleep(1)

if implementer_convo.state.status == ConversationStatus.ERROR:
  raise Exception("Error!")
else:
  print("Agent finished")
"""  # noqa: E501 - as in the proposal.


def rename_models(program: str) -> str:
    """Return the program after the table's rows, in their order, where both cells are code."""
    has_runtime = "LocalRuntime" in program
    for row in PAGE.read_text("utf-8").splitlines():
        cells = re.match(r"\| (with a runtime: )?`([^`]+)` \| (?:`([^`]+)`|leave it out) \|", row)
        if cells and (cells[1] is None or has_runtime):
            program = program.replace(cells[2], cells[3] or "")
    return program


def run(program: str, script: Script, folder: Path) -> tuple[str, list[Json]]:
    """Return what the program prints, and the bodies of its requests to the model."""
    readers = (
        "from time import sleep as rest\n"
        "def sleep(seconds): rest(seconds / 100)\n"
        f"def load_mcp_config(): return {{'shop': {mcp_server.settings()!r}}}\n"
    )
    with FakeLLM(script) as llm:
        program_text = rename_models(program).replace("anthropic/claude-sonnet-4", "openai/fake")
        program_text = program_text.replace("api_key=", f"base_url={llm.url!r}, api_key=")
        program_text = program_text.replace(
            "/tmp/", f"{folder}/"
        )  # A folder that is no other test's.
        # "git clone" of the proposal's repository takes one that is here.
        git = {"COUNT": "1", "KEY_0": f"url.{folder}/.insteadOf", "VALUE_0": "https://github.com/"}
        env = {f"GIT_CONFIG_{name}": value for name, value in git.items()}
        output = run_python(["-c", readers + program_text], env, folder)
        return output, [request.body for request in llm.requests]


def test_a_tool_with_a_schema_of_a_text_gets_it_as_its_only_argument(tmp_path: Path) -> None:
    output, requests = run(HELLO, [call("hello", value="world"), say("Said.")], tmp_path)
    assert output == "Hello, world\nAgent finished\n"
    assert tool_results(requests[-1]) == ["(no output)"]


def test_a_runtime_is_a_folder_with_tools_to_which_others_are_added(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path / "All-Hands-AI/OpenHands"], check=True)
    (tmp_path / "AGENTS.md").write_text("Flip twice.\n")
    script = [
        call("terminal", command="cat Plan.md; ls"),
        call("lint"),
        call("shop__price", item="tea"),
        say("Flipped."),
    ]
    output, requests = run(RUNTIME, script, tmp_path)
    assert "Agent finished" in output  # Two threads print: the end of its line may come later.
    assert "turn.completed" in output
    assert "Flip twice." in str(requests[0]["messages"])
    first_result, lint_result, price = tool_results(requests[-1])
    assert "do a flip" in first_result
    assert "OpenHands" in first_result
    assert "npm" in lint_result
    assert price == "tea costs 3 coins"


@pytest.mark.full
def test_a_tool_may_start_conversations(tmp_path: Path) -> None:
    starts = [call("create_conversation", value=f"coin {n}") for n in range(3)]
    scripts = {"Create": [*starts, say("Flipped.")], "Say": [say("Hello, world!")] * 3}
    script = script_by_key(lambda request: first_user_text(request).split(" ")[0], scripts)
    output, requests = run(DELEGATION, script, tmp_path)
    assert output == "Agent finished\n"
    last = [r for r in requests if first_user_text(r).startswith("Create")][-1]
    assert tool_results(last) == ["Done."] * 3


@pytest.mark.full
def test_a_tool_may_send_a_message_to_another_conversation(tmp_path: Path) -> None:
    scripts = {
        "Build": [say("Built."), say("Mended.")],
        "Test": [call("pass_message", value="It has no title."), say("Told.")],
    }
    script = script_by_key(lambda request: first_user_text(request).split(" ")[0], scripts)
    output, requests = run(MESSAGES, script, tmp_path)
    assert output == "Agent finished\n"
    assert any("It has no title." in str(r["messages"][-1]) for r in requests)
