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


def ask_tester(value: str) -> str | None:
    return tester.run(value).final_text


asking = Tool(
    name="ask_tester",
    description="Send the tester a message and get the verdict.",
    input_schema={"type": "string", "description": "What to test, and what to expect."},
    callback=ask_tester,
)
implementer = Conversation(
    Agent(llm=llm, tools=(asking,), instructions="Done is what the tester has approved."), workspace
)

with implementer, tester:
    print(implementer.run("Write greet.py, which prints `Hello!`.").final_text)
