"""What a conversation's sandbox shows to commands, and what else runs in it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import mcp_server
import pytest
from editor import Editor
from fake_llm import call, say
from world import World, content_of, items

VIEW = {"sandbox": "overlay"}
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
    contents = [content_of(item) for item in items(editor.client, "command")]
    assert len(contents) == 2
    assert VALUE not in "".join(contents)
    changed_settings = {**VIEW, "titles": False, "sandboxReads": [".env"]}
    editor.client.notify(
        "workspace/didChangeConfiguration", {"settings": {"ohDaemon": changed_settings}}
    )
    world.send(editor.client, conversation, "again")
    world.turn(editor.client, nth=2)
    assert content_of(items(editor.client, "command")[-1]).startswith(f"K={VALUE}-unsaved\n")


TRIES = """
echo x > ~/planted; echo x > {home}/planted
(echo x > /dev/tcp/127.0.0.1/{port}) || echo none > net.txt
cat .env > read.txt; test -d /proc/{pid} && echo seen > seen.txt; exit 0
"""


def test_what_the_project_runs_by_itself_runs_in_the_view_and_the_users_own_outside(
    world: World,
) -> None:
    (world.project / ".env").write_text(f"K={VALUE}\n")
    listener = socket.create_server(("127.0.0.1", 0))
    facts = {"home": world.home, "pid": os.getpid(), "port": listener.getsockname()[1]}
    (world.project / "try.sh").write_text(TRIES.format(**facts))
    hook = {"PreToolUse": [{"hooks": [{"type": "command", "command": "bash try.sh"}]}]}
    (world.project / ".openhands").mkdir()
    (world.project / ".openhands/hooks.json").write_text(json.dumps({"hooks": hook}))
    own = world.project / ".agents/skills/probe"
    own.mkdir(parents=True)
    script = own / "server.py"
    script.write_text(Path(mcp_server.__file__).read_text())
    frontend = (
        f"description: Probe\nmcpServers:\n  s: {{command: '{sys.executable}', args: [{script}]}}"
    )
    command = f"test -d /proc/{os.getpid()} && echo outside; echo x > ~/by-skill; echo ran"
    (own / "SKILL.md").write_text(f"---\n{frontend}\n---\nGot !`{command}`.\n")
    own_hooks = {"PreToolUse": [{"hooks": [{"type": "command", "command": "touch ~/by-the-user"}]}]}
    world.script(
        call("skill", name="probe"),
        call("terminal", command="echo x > b.txt; ps ax"),
        say("Done."),
    )
    client = world.daemon(settings={**VIEW, "hooks": own_hooks})
    world.start(client, options={"approval": "askNever"})
    world.turn(client)
    [load_call], [command_item] = items(client, "toolCall"), items(client, "command")
    assert "Got ran." in content_of(load_call)
    assert "server.py" in content_of(command_item)
    changed_names = {change["uri"].rpartition("/")[2] for change in command_item["changes"]}
    assert changed_names == {"b.txt", "net.txt", "read.txt"}
    assert (world.project / "read.txt").read_text() == ""
    assert {path.name for path in world.home.iterdir()} & {"planted", "by-skill"} == set()
    assert (world.home / "by-the-user").exists()
    listener.setblocking(False)
    with listener, pytest.raises(BlockingIOError):
        listener.accept()


WATCH = """
import ctypes, os, sys
notify = ctypes.CDLL(None).inotify_init()
assert ctypes.CDLL(None).inotify_add_watch(notify, b".", 0x2 | 0x40 | 0x80 | 0x100 | 0x200) > 0
open(os.path.expanduser("~/") + sys.argv[1], "w").close()
seen = ""
while seen != sys.argv[2]:
    events = os.read(notify, 4096)
    while events:
        kind, size = (int.from_bytes(events[at : at + 4], sys.byteorder) for at in (4, 12))
        name = events[16 : 16 + size].rstrip(b"\\0").decode()
        if name == sys.argv[1]:
            seen = "deleted" if kind & 0x240 else open(name).read().strip()
            print("saw", seen, flush=True)
        events = events[16 + size :]
"""


def test_watchers_in_the_view_hear_of_what_the_user_types_and_the_agent_edits(
    world: World,
) -> None:
    (world.project / "watch.py").write_text(WATCH)
    for name in ("typed.txt", "edited.txt"):
        (world.project / name).write_text("old\n")
    wait = {"command": "", "is_input": True, "timeout_s": 60}
    watch = {"background": True, "timeout_s": 0}
    world.script(
        call("terminal", command="mkfifo ~/typed.txt ~/edited.txt"),
        call("terminal", command="python3 watch.py typed.txt 'by the user'", **watch),
        call("terminal", command="python3 watch.py edited.txt 'by the agent'", **watch),
        call("terminal", command="cat ~/typed.txt ~/edited.txt"),
        call("edit", command="overlay", path="edited.txt"),
        say("They watch."),
    )
    world.script(
        call("terminal", **wait, terminal_id="job-1"),
        call("edit", command="replace", path="edited.txt", old_text="old", new_text="by the agent"),
        call("terminal", **wait, terminal_id="job-2"),
        call("terminal", command="cat typed.txt edited.txt"),
        say("Done."),
    )
    editor = Editor(world, settings=VIEW)
    editor.open(world.project / "typed.txt")
    conversation = world.start(editor.client, options={"mode": "full"})
    world.turn(editor.client)
    editor.type(world.project / "typed.txt", "by the user\n")
    world.send(editor.client, conversation, "again")
    world.turn(editor.client, nth=2)
    *_, typed_text, edited_text, last_text = (
        content_of(item) for item in items(editor.client, "command")
    )
    assert "saw by the user\n" in typed_text
    assert "saw by the agent\n" in edited_text
    assert "deleted" not in typed_text + edited_text
    assert last_text.startswith("by the user\nby the agent\n")
    assert (world.project / "typed.txt").read_text() == "old\n"
    assert not [item for item in items(editor.client, "command") if item.get("changes")]


@pytest.mark.parametrize("where", ["all of it", "the interpreter"])
def test_an_interpreter_below_the_temporary_folder_works(world: World, where: str) -> None:
    """The folder is covered by a layer, above which the project lies if it is below, too."""
    temporary = world.project.parent / ("" if where == "all of it" else "tmp")
    world.variables["TMPDIR"] = str(temporary)
    environment = temporary / "venv"
    venv_command = [sys.executable, "-m", "venv", "--without-pip", str(environment)]
    subprocess.run(venv_command, check=True)
    module = environment / f"lib/python3.{sys.version_info.minor}/site-packages/inside.py"
    (world.project / "main.py").write_text("import sys, inside\nprint(sys.prefix, inside.NAME)\n")
    command = f"echo NAME = 1 > {module}; {environment}/bin/python main.py | tee out.txt"
    world.script(call("terminal", command=command), say("Done."))
    client = world.daemon(settings=VIEW)
    world.start(client, options={"mode": "full"})
    world.turn(client)
    [content] = (content_of(item) for item in items(client, "command"))
    assert content.startswith(f"{environment} 1\n")
    assert (world.project / "out.txt").read_text() == f"{environment} 1\n"
    assert not module.exists()


def test_what_the_user_types_reaches_what_runs_and_is_merged_with_what_that_made_of_older_text(
    world: World,
) -> None:
    (world.project / "a.txt").write_text("one\n\n\n\nfive\n")
    wait_command = "until grep -q typed a.txt; do sleep 0.05; done"
    # What it writes takes the typing back, so the job must have seen that before.
    log_command = "until cat ~/log; do sleep 0.05; done 2>/dev/null"
    writes = "printf '%s\\n' \"$old\" | sed s/five/FIVE/ >a.txt"
    world.script(
        call("terminal", command=f"({wait_command}; echo saw >~/log) &"),
        call(
            "terminal",
            command=f"old=$(cat a.txt); echo begun; {wait_command}; {log_command}; {writes}",
        ),
        say("Done."),
    )
    editor = Editor(world, settings=VIEW)
    buffer = editor.open(world.project / "a.txt")
    world.start(editor.client, options={"mode": "autoEdit"})
    editor.client.wait_for(
        lambda message: (
            message.get("method") == "conversation/delta" and "begun" in message["params"]["text"]
        )
    )
    editor.type(world.project / "a.txt", "one typed\n\n\n\nfive\n")
    world.turn(editor.client)
    assert "saw" in content_of(items(editor.client, "command")[1])
    assert buffer.text == "one typed\n\n\n\nFIVE\n"
