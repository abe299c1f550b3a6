"""A tool of your own: the model asks for it, your function answers."""

import os

from oh_daemon import LLM, Agent, Conversation, Tool


def hello(name: str) -> str:
    """Greet somebody by name."""
    return f"Hello, {name}!"


llm = LLM(
    model="openai/gpt-6.1-sol",
    api_key=os.environ["OPENAI_API_KEY"],
    base_url=os.environ.get("OPENAI_BASE_URL"),
)
agent = Agent(llm=llm, tools=(Tool.from_function(hello),))

with Conversation(agent) as conversation:
    conversation.register_callback(lambda record: print(record.seq, record.event.type))
    turn = conversation.run("Greet Ada, and tell me what the greeting was.")
    print(turn.final_text)
