"""A tool of your own: the model asks for it, your function answers."""

import os

from oh_daemon import LLM, Agent, Conversation, Tool


def hello(name: str) -> str:
    return f"Hello, {name}!"


greeter = Tool(
    name="hello",
    description="Greet somebody by name.",
    input_schema={
        "type": "object",
        "properties": {"name": {"type": "string"}},
        "required": ["name"],
    },
    callback=hello,
)
llm = LLM(
    model="openai/gpt-6.1-sol",
    api_key=os.environ["OPENAI_API_KEY"],
    base_url=os.environ.get("OPENAI_BASE_URL"),
)

with Conversation(Agent(llm=llm, tools=(greeter,))) as conversation:
    conversation.register_callback(lambda record: print(record.seq, record.event.type))
    turn = conversation.run("Greet Ada, and tell me what the greeting was.")
    print(turn.final_text)
