"""Decide with your own functions what an agent may do, in place of the built-in rating."""

import os

from oh_daemon import LLM, Agent, Conversation, Intent, Tool, ToolSpec

LITTLE = 10
PRICES = {"tea": 3, "car": 30_000}


def price_as_risk(_tool: ToolSpec, intent: Intent) -> str:
    """Rate a call low, medium or high. An exception counts as high."""
    return "low" if PRICES[intent.args["thing"]] < LITTLE else "medium"


def no_cars(_tool: ToolSpec, intent: Intent) -> str | None:
    """Return allow, ask or reject, or None to decide by the risk."""
    return "reject" if "car" in intent.args.values() else None


def buy(thing: str) -> str:
    """Buy."""
    return thing


key, url = os.environ["OPENAI_API_KEY"], os.environ.get("OPENAI_BASE_URL")
shopper = Agent(
    llm=LLM(model="openai/gpt-6.1-sol", api_key=key, base_url=url),
    tools=(Tool.from_function(buy),),
    approval="askRisky",
    risk_analyzer=price_as_risk,
    approval_policy=no_cars,
)
with Conversation(shopper) as conversation:
    turn = conversation.run("Buy tea and a car.")
    print(*(e.event for e in conversation.history if e.event.type == "action.decided"), sep="\n")
    print(turn.final_text)
