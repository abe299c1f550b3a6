"""What a conversation's view shows to commands, and what else runs in it."""

from __future__ import annotations

from editor import Editor
from fake_llm import call, say
from world import World, content_of, items

VIEW = {"sandbox": "view"}
VALUE = "S3CR3T-VALUE"


def test_secrets_are_empty_for_commands_unless_the_user_lets_them_read(world: World) -> None:
    for path in (world.project / ".env", world.home / ".ssh/id_rsa", world.home / ".netrc"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"K={VALUE}\n")
    (world.project / "link.md").symlink_to(".env")
    ways = f"grep -rn K . {world.home}/.ssh; cat link.md {world.home}/.netrc; printenv -0; ps eaux"
    world.script(call("terminal", command=ways), call("terminal", command="cat .env"), say("Done."))
    world.script(call("terminal", command="cat .env"), say("Done."))
    editor = Editor(world, settings=VIEW)
    editor.open(world.project / ".env", f"K={VALUE}-unsaved\n")
    editor.open(world.project / "new.pem", f"K={VALUE}-new\n")
    conversation = world.start(editor.client, options={"approval": "askRisky"})
    world.turn(editor.client)
    seen = [content_of(item) for item in items(editor.client, "command")]
    assert len(seen) == 2
    assert VALUE not in "".join(seen)
    changed = {**VIEW, "titles": False, "sandboxReads": [".env"]}
    editor.client.notify("workspace/didChangeConfiguration", {"settings": {"ohDaemon": changed}})
    world.send(editor.client, conversation, "again")
    world.turn(editor.client, nth=2)
    assert content_of(items(editor.client, "command")[-1]).startswith(f"K={VALUE}-unsaved\n")
