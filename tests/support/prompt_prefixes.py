"""What two requests share from their beginning."""

import json
from itertools import pairwise
from typing import Any

from fake_llm import Recorded

Json = dict[str, Any]


def rendered_prefix(request: Recorded) -> bytes:
    """Return the prompt in the order in which providers read it: tools, system prompt, the rest."""
    body = request.body
    messages: list[Json] = body["messages"] if "messages" in body else body["input"]
    prompt = [body.get("tools"), body.get("instructions"), *messages]
    return b"\n".join(json.dumps(part, ensure_ascii=False).encode() for part in prompt)


def shares(requests: list[Recorded]) -> list[float]:
    """Return which share of each later prompt repeats the beginning of the one before it."""
    prompts = [rendered_prefix(request) for request in requests]
    return [
        next(
            (n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), len(before)
        )
        / len(after)
        for before, after in pairwise(prompts)
    ]
