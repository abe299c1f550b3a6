"""Two conversations share a folder: the implementer asks the tester, whose verdict is final."""

import os
import sys

from oh_daemon import LLM, Agent, Conversation, Tool, Workspace

workspace = Workspace(sys.argv[1])
llm = LLM(
    model="openai/gpt-6.1-sol",
    api_key=os.environ["OPENAI_API_KEY"],
    base_url=os.environ.get("OPENAI_BASE_URL"),
)
tester = Conversation(
    Agent(llm=llm, instructions="You test. Run the program, change nothing, say what is wrong."),
    workspace,
)


def ask_tester(message: str) -> str | None:
    """Send the tester a message, what to test and what to expect, and get the verdict."""
    return tester.run(message).final_text


implementer = Conversation(
    Agent(
        llm=llm,
        tools=(Tool.from_function(ask_tester),),
        instructions="Done is what the tester has approved.",
    ),
    workspace,
)

with implementer, tester:
    print(implementer.run("Write greet.py, which prints `Hello!`.").final_text)
