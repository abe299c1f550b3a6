"""One conversation starts three others; each flips a coin and reports back."""

import os
import secrets
from concurrent.futures import ThreadPoolExecutor

from oh_daemon import LLM, Agent, Conversation, Tool

llm = LLM(
    model="openai/gpt-6.1-sol",
    api_key=os.environ["OPENAI_API_KEY"],
    base_url=os.environ.get("OPENAI_BASE_URL"),
)


def flip() -> str:
    """Flip a coin."""
    return secrets.choice(["heads", "tails"])


def play(player: str) -> str:
    with Conversation(Agent(llm=llm, tools=(Tool.from_function(flip),))) as conversation:
        turn = conversation.run(f"You are {player}. Flip the coin once and report how it fell.")
        return f"{player}: {turn.final_text}"


def play_all() -> list[str]:
    """Let three players flip a coin each."""
    with ThreadPoolExecutor() as players:
        return list(players.map(play, ["Ada", "Grace", "Barbara"]))


with Conversation(Agent(llm=llm, tools=(Tool.from_function(play_all),))) as conversation:
    print(conversation.run("Let them play, then say who flipped what.").final_text)
