"""Your own judgement of what an agent may do, in place of the built-in one."""

import os

from oh_daemon import LLM, Agent, Conversation, Tool
from oh_daemon.contract.approvals import ToolSubject
from oh_daemon.contract.events import ActionDecided, ApprovalRequested, Record
from oh_daemon.core.ports import Intent, ToolSpec

PRICES = {"tea": 3, "car": 30_000}
LITTLE = 10


def buy(thing: str) -> str:
    return f"Bought: {thing}."


def wanted(intent: Intent) -> str:
    return intent.subject.args["thing"] if isinstance(intent.subject, ToolSubject) else ""


def price_as_risk(_tool: ToolSpec, intent: Intent) -> str:
    """A `RiskAnalyzer`: low, medium or high. What it raises counts as high."""
    return "low" if PRICES[wanted(intent)] < LITTLE else "medium"


def no_cars(_tool: ToolSpec, intent: Intent) -> str | None:
    """An `ApprovalPolicy`: allow, ask, reject, or None to leave it to the risk."""
    return "reject" if wanted(intent) == "car" else None


shop = Tool(
    name="buy",
    description="Buy something.",
    input_schema={
        "type": "object",
        "properties": {"thing": {"type": "string"}},
        "required": ["thing"],
    },
    callback=buy,
)
llm = LLM(
    model="openai/gpt-5",
    api_key=os.environ["OPENAI_API_KEY"],
    base_url=os.environ.get("OPENAI_BASE_URL"),
)
shopper = Agent(
    llm=llm,
    tools=(shop,),
    approval="askRisky",
    risk_analyzer=price_as_risk,
    approval_policy=no_cars,
)


def show(record: Record) -> None:
    match record.event:
        case ActionDecided(effect=effect, risk=risk, rule=rule):
            print(effect, risk, rule)
        case ApprovalRequested(approval=approval):
            print("asked:", approval.title, "-", approval.reason)
            conversation.respond(approval, allow=False, feedback="too much")
        case _:
            pass


with Conversation(shopper) as conversation:
    conversation.register_callback(show)
    turn = conversation.run("Buy tea, a car and a boat.")
    print(turn.final_text)
