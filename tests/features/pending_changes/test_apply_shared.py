"""Two terminals, and sub-agents, share one sandbox: what they change is collected once."""

from typing import Any

import pytest
from applying import VIEW, files_of, project_of
from delegation import delegate, script, task
from fake_llm import call, calls, say
from world import World, content_of, items

pytestmark = pytest.mark.one_daemon

Json = dict[str, Any]
CHILD = "echo two >> a.txt; echo x > child.txt"


def changed_names(item: Json) -> list[str]:
    return sorted(change["uri"].rpartition("/")[2] for change in item.get("changes", ()))


def test_what_two_commands_change_at_the_same_time_lands_once_with_the_last_of_them(
    world: World,
) -> None:
    project_of(world)
    first = "mkfifo ~/p; cat ~/p; echo first > first.txt"
    second = "until [ -p ~/p ]; do :; done; echo second > second.txt; echo > ~/p; sleep 0.3"
    world.script(
        calls(
            call("terminal", command=first, terminal_id="one", timeout_s=1),
            call("terminal", command=second, terminal_id="two"),
        ),
        say("Done."),
    )
    client = world.daemon(settings=VIEW)
    world.start(client, options={"approval": "askNever"})
    world.turn(client)
    assert {"first.txt", "second.txt"} < files_of(world).keys()
    names = [name for item in items(client, "command") for name in changed_names(item)]
    assert sorted(names) == ["first.txt", "second.txt"]


def test_what_a_sub_agent_changes_lands_with_its_own_command(world: World) -> None:
    project_of(world)
    script(
        world,
        go=[delegate(task("count")), call("terminal", command="cat ~/note"), say("Done.")],
        count=[call("terminal", command=f"{CHILD}; echo kept > ~/note"), say("Counted.")],
    )
    client = world.daemon(settings=VIEW)
    world.start(client, options={"approval": "askNever"})
    world.turn(client, nth=2)
    assert files_of(world)["a.txt"] == "one\ntwo\n"
    its, own = items(client, "command")
    assert (changed_names(its), changed_names(own)) == (["a.txt", "child.txt"], [])
    assert content_of(own).startswith("kept\n")  # Outside the folders, too, it is one sandbox.
    assert not items(client, "fileChange")
