"""Decide with your own functions what an agent may do, in place of the built-in rating."""

import os

from oh_daemon import LLM, Agent, Conversation, Tool
from oh_daemon.core.ports import Intent, ToolSpec

LITTLE = 10
PRICES = {"tea": 3, "car": 30_000}


def price_as_risk(_tool: ToolSpec, intent: Intent) -> str:
    """A `RiskAnalyzer`: returns low, medium or high. An exception counts as high."""
    return "low" if PRICES[getattr(intent.subject, "args", {})["thing"]] < LITTLE else "medium"


def no_cars(_tool: ToolSpec, intent: Intent) -> str | None:
    """An `ApprovalPolicy`: returns allow, ask or reject, or None to decide by the risk."""
    return "reject" if "car" in getattr(intent.subject, "args", {}).values() else None


def buy(thing: str) -> str:
    return thing


schema = {"type": "object", "properties": {"thing": {"type": "string"}}, "required": ["thing"]}
shop = Tool(name="buy", description="Buy.", input_schema=schema, callback=buy)
key, url = os.environ["OPENAI_API_KEY"], os.environ.get("OPENAI_BASE_URL")
shopper = Agent(
    llm=LLM(model="openai/gpt-6.1-sol", api_key=key, base_url=url),
    tools=(shop,),
    approval="askRisky",
    risk_analyzer=price_as_risk,
    approval_policy=no_cars,
)
with Conversation(shopper) as conversation:
    turn = conversation.run("Buy tea and a car.")
    print(*(e.event for e in conversation.history if e.event.type == "action.decided"), sep="\n")
    print(turn.final_text)
