"""What commands in a sandbox may take of the machine that others need, too."""

from __future__ import annotations

from fake_llm import call, say
from world import World, content_of, items

MOUNTED = 'mount -t tmpfs -o size=64m,mode=0700 none "$0" && exec "$@"'
HALF = 32 << 20


def test_a_full_layer_leaves_space_to_others_and_the_model_is_told(world: World) -> None:
    """The state folder lies on a small disk of its own, half of which is to stay free."""
    state, temporary = world.home.with_name("state"), world.home.with_name("tmp")
    state.mkdir()
    temporary.mkdir()
    world.variables |= {"OH_DAEMON_HOME": str(state), "TMPDIR": str(temporary)}
    one_file = "head -c 60M /dev/zero > ~/one; ls -s ~/one; false"
    many = "n=0; while n=$((n + 1)); do head -c 256K /dev/zero > ~/many-$n; done 2> /dev/null"
    world.script(
        call("terminal", command=one_file),
        call("terminal", command=f"rm ~/one; {many}"),
        call("terminal", command="rm ~/many-*; echo free > ~/again; cat ~/again"),
        say("Done."),
    )
    small = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", MOUNTED, str(state))
    client = world.raw(prefix=small)
    trust = [{"folder": world.project.as_uri(), "trusted": True}]
    client.initialize([world.project], trust=trust, settings={"sandbox": "overlay"})
    world.start(client)
    world.turn(client)
    one, more, last = (content_of(item) for item in items(client, "command"))
    output, size = one.split("\n")[:2]
    assert output.startswith("File size limit exceeded")
    assert int(size.split()[0]) << 10 < HALF
    assert "files in the sandbox may not grow further" in one
    assert "The sandbox was ended, with all that ran in it" in more
    assert last.startswith("free\n")
    assert "[exit code 0" in last
