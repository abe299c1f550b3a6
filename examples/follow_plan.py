"""Work through the PLAN.md of a folder with your own linter as a tool: `follow_plan.py FOLDER`."""

import os
import sys

from oh_daemon import LLM, Agent, Conversation, Tool, ToolResult, Workspace

workspace = Workspace(sys.argv[1])


def lint() -> ToolResult:
    """Check all Python files of the project."""
    check_result = workspace.run_command("python3 -m compileall -q .")
    return ToolResult.of(
        check_result.output or "No problems.", is_error=check_result.exit_code != 0
    )


llm = LLM(
    model="openai/gpt-6.1-sol",
    api_key=os.environ["OPENAI_API_KEY"],
    base_url=os.environ.get("OPENAI_BASE_URL"),
)
agent = Agent(
    llm=llm,
    tools=(*workspace.tools, Tool.from_function(lint)),
    instructions="Lint after every change, and go on only when there are no problems.",
)

with Conversation(agent, workspace) as conversation:
    turn = conversation.run("Follow PLAN.md and tick off each step that is done.")
    print(turn.final_text)
    print(workspace.run_command("cat PLAN.md").output)
