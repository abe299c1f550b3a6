"""Scripts in which the model delegates to sub-agents."""

from typing import Any

from fake_llm import Step, call, first_user_text, script_by_key
from world import World

Json = dict[str, Any]


def delegate(*tasks: Json) -> Step:
    return call("delegate", tasks=list(tasks))


def task(words: str, agent: str = "general", **more: Any) -> Json:
    return {"task": words, "title": f"Title of {words}", "agent": agent, **more}


def script(world: World, **scripts: list[Step]) -> None:
    """Give each conversation a script, by the first word that it was given."""
    world.llm.play(script_by_key(lambda request: first_user_text(request).split()[0], scripts))
