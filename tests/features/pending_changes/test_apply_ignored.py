"""What git ignores stays in the sandbox, and is offered when the conversation rests."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from applying import ASKS, VIEW, answer, wait_for_approval
from fake_llm import call, say
from raw_client import RawClient
from world import World, content_of, items

pytestmark = pytest.mark.one_daemon

Json = dict[str, Any]
INSTALL = (
    "mkdir -p node_modules/a node_modules/.bin __pycache__; echo 1 > node_modules/a/i.js"
    "; ln -s ../a/i.js node_modules/.bin/a; echo x > __pycache__/m.pyc; echo S=1 > .env"
)


def install_and_start(world: World, **options: Any) -> tuple[RawClient, str]:
    """Let a command make what git ignores, and the turn end."""
    subprocess.run(["git", "init", "-q", str(world.project)], check=True)
    ignore_file = "node_modules\n__pycache__\n.env\n.openhands\n"
    (world.project / ".gitignore").write_text(ignore_file)
    world.script(call("terminal", command=INSTALL), say("Installed."))
    client = world.daemon(settings=VIEW)
    return client, world.start(client, options=options)


def wait_for_notice(client: RawClient, title: str) -> Json:
    def is_it(params: Json) -> bool:
        item = params["event"].get("item") or {}
        return item.get("kind") == "notice" and item["title"] == title

    return client.wait_for_event(is_it)["event"]["item"]


def folder(world: World) -> Path:
    return world.project / "node_modules"


def test_a_folder_is_offered_once_without_holding_up_the_turn_or_a_message(world: World) -> None:
    client, conversation = install_and_start(world, **ASKS)
    assert world.turn(client)["status"] == "completed"
    offer = wait_for_approval(client)
    assert offer["title"] == "Keep node_modules (2 files) in the project?"
    assert [option["id"] for option in offer["options"]] == ["allow-once", "reject"]
    world.script(call("terminal", command="cat node_modules/a/i.js"), say("Still there."))
    world.send(client, conversation, "look")
    assert world.turn(client, nth=2)["status"] == "completed"
    assert content_of(items(client, "command")[1]).startswith("1\n")
    assert not folder(world).exists()
    answer(client, offer, "allow-once")
    wait_for_notice(client, "Kept: node_modules (2 files)")
    assert (folder(world) / ".bin/a").read_text() == "1\n"
    assert (folder(world) / ".bin/a").is_symlink()
    assert not (world.project / ".env").exists()
    requests = [e for e in client.events if e["event"]["type"] == "approval.requested"]
    assert len(requests) == 1
    (folder(world) / "a/i.js").write_text("2\n")
    world.script(call("terminal", command="cat node_modules/a/i.js"), say("The disk's."))
    world.send(client, conversation, "look again")
    world.turn(client, nth=3)
    assert content_of(items(client, "command")[2]).startswith("2\n")


def test_what_is_refused_stays_in_the_view(world: World) -> None:
    client, conversation = install_and_start(world, **ASKS)
    answer(client, wait_for_approval(client), "reject")
    world.turn(client)
    world.script(call("terminal", command="cat node_modules/a/i.js"), say("There."))
    world.send(client, conversation, "look")
    world.turn(client, nth=2)
    assert content_of(items(client, "command")[1]).startswith("1\n")
    assert not folder(world).exists()


@pytest.mark.parametrize(
    "options", [{"mode": "autoEdit"}, {"approval": "askNever"}, {"mode": "full"}]
)
def test_where_nobody_is_asked_it_is_kept_but_for_protected_files(
    world: World, options: Json
) -> None:
    client, _ = install_and_start(world, **options)
    world.turn(client)
    assert (folder(world) / "a/i.js").read_text() == "1\n"
    assert not (world.project / "__pycache__").exists()  # It is made again at need.
    assert not (world.project / ".env").exists()
    titles = [item["title"] for item in items(client, "notice")]
    assert "Not kept: .env" in titles
    assert "Kept: node_modules (2 files)" in titles


PLANT = (
    "mkdir -p app/.vscode app/x/.github/workflows; echo 1 > app/a.js; echo e > app/CLAUDE.md"
    "; for f in .vscode/tasks.json x/.github/workflows/ci.yml .envrc Key.PEM; do"
    " echo e > app/$f; done"
)
PLANTED = (".envrc", ".vscode/tasks.json", "CLAUDE.md", "Key.PEM", "x/.github/workflows/ci.yml")


def plant(world: World, **options: Any) -> RawClient:
    """Let a command put protected files into a folder that git ignores."""
    subprocess.run(["git", "init", "-q", str(world.project)], check=True)
    (world.project / ".gitignore").write_text("/app/\n.openhands\n")
    (world.project / "app").mkdir()
    (world.project / "app/CLAUDE.md").write_text("mine")
    world.script(call("terminal", command=PLANT), say("Done."))
    client = world.daemon(settings=VIEW)
    world.start(client, options=options)
    return client


@pytest.mark.parametrize(
    "options", [{"mode": "autoEdit"}, {"approval": "askNever"}, {"mode": "full"}]
)
def test_protected_files_in_an_ignored_folder_stay_in_the_sandbox_without_a_question(
    world: World, options: Json
) -> None:
    client = plant(world, **options)
    world.turn(client)
    files = {
        str(path.relative_to(world.project / "app")): path.read_text()
        for path in (world.project / "app").rglob("*")
        if path.is_file()
    }
    assert files == {"CLAUDE.md": "mine", "a.js": "1\n"}
    [notice] = [item for item in items(client, "notice") if "Not kept" in item["title"]]
    assert notice["title"] == "Not kept: 5 files in app"
    names = sorted(line.partition(" holds ")[0] for line in notice["description"].split("\n"))
    assert names == [f"app/{name}" for name in PLANTED]


@pytest.mark.full
def test_ignored_folder_with_too_many_changes_is_reported_and_stays_in_the_sandbox(
    world: World,
) -> None:
    subprocess.run(["git", "init", "-q", str(world.project)], check=True)
    (world.project / ".gitignore").write_text("node_modules\n")
    command = "mkdir node_modules && cd node_modules && seq 200001 | xargs touch"
    world.script(call("terminal", command=command, timeout_s=300), say("Made."))
    client = world.daemon(settings=VIEW)
    world.start(client, options={"mode": "autoEdit"})

    def is_it(params: Json) -> bool:
        title = (params["event"].get("item") or {}).get("title", "")
        return title.startswith("Not kept: node_modules")

    notice = client.wait_for_event(is_it, within_s=300)["event"]["item"]
    assert "more than 200,000 files changed" in notice["description"]
    assert not folder(world).exists()


def test_question_about_an_ignored_folder_names_its_protected_files_and_holds_for_its_content(
    world: World,
) -> None:
    client = plant(world, **ASKS)
    offer = wait_for_approval(client)
    assert offer["risk"] == "high"
    assert all(f"app/{name} holds " in offer["reason"] for name in PLANTED)
    world.turn(client)
    world.script(call("terminal", command="echo swapped > app/a.js"), say("Swapped."))
    world.send(client, offer["conversationId"], "go on")
    world.turn(client, nth=2)
    answer(client, offer, "allow-once")
    notice = wait_for_notice(client, "Not kept: app (6 files)")
    assert "changed after you were asked" in notice["description"]
    assert not (world.project / "app/a.js").exists()
    world.script(say("Nothing."))
    world.send(client, offer["conversationId"], "again")
    world.turn(client, nth=3)
    second = wait_for_approval(client, 2)
    answer(client, second, "allow-once")
    wait_for_notice(client, "Kept: app (6 files)")
    assert (world.project / "app/a.js").read_text() == "swapped\n"
    assert (world.project / "app/.vscode/tasks.json").exists()


def test_a_deleted_folder_is_offered_as_such_and_what_the_disk_loses_is_set_aside(
    world: World,
) -> None:
    client, conversation = install_and_start(world, **ASKS)
    answer(client, wait_for_approval(client), "allow-once")
    wait_for_notice(client, "Kept: node_modules (2 files)")
    world.turn(client)
    world.script(call("terminal", command="rm -rf node_modules"), say("Gone."))
    world.send(client, conversation, "clean")
    offer = wait_for_approval(client, 2)
    assert offer["title"] == "Keep the deletion of node_modules?"
    assert offer["subject"]["changes"][0]["op"] == "delete"
    assert folder(world).exists()
    answer(client, offer, "allow-once")
    wait_for_notice(client, "Kept: the deletion of node_modules")
    assert not folder(world).exists()
    [replaced_folder] = (world.log_of(conversation).parent / "replaced").iterdir()
    assert (replaced_folder / "a/i.js").read_text() == "1\n"
    world.turn(client, nth=2)
    world.script(call("terminal", command="mkdir node_modules && echo made"), say("New."))
    world.send(client, conversation, "again")
    world.turn(client, nth=3)
    assert content_of(items(client, "command")[2]).startswith("made\n")


def test_in_plan_nothing_is_offered(world: World) -> None:
    client, _ = install_and_start(world, mode="plan")
    world.turn(client)
    assert not items(client, "notice")
    assert not folder(world).exists()


def test_an_offer_outlives_a_restart_and_an_interrupt_and_says_when_it_is_too_late(
    world: World,
) -> None:
    client, conversation = install_and_start(world, **ASKS)
    world.turn(client)
    wait_for_approval(client)
    params = {"conversationId": conversation}
    client.request("conversation/interrupt", params)
    client.request("conversation/close", params)
    client.request("conversation/open", params)
    [offer] = [
        each
        for each in client.request("approval/list")["pending"]
        if each["conversationId"] == conversation
    ]
    answer(client, offer, "allow-once")
    notice = wait_for_notice(client, "Not kept: node_modules (2 files)")
    assert "run the command again" in notice["description"]


def test_a_rollback_takes_back_the_offer(world: World) -> None:
    client, conversation = install_and_start(world, **ASKS)
    world.turn(client)
    wait_for_approval(client)
    [message] = items(client, "userMessage")
    back = {"conversationId": conversation, "toItemId": message["id"], "files": "keep"}
    client.request("conversation/rollback", back)
    client.wait_for_event("approval.resolved")
    pending = client.request("approval/list")["pending"]
    assert conversation not in {each["conversationId"] for each in pending}


CACHES = (
    "mkdir -p build/empty node_modules/.cache; echo x > node_modules/.cache/x"
    "; mkdir -p lib/__pycache__ dist; echo x > lib/__pycache__/a.pyc; echo 1 > dist/a.js; rmdir out"
)


def test_empty_folders_and_caches_ask_nothing(world: World) -> None:
    subprocess.run(["git", "init", "-q", str(world.project)], check=True)
    names = ("build", "node_modules", "lib", "dist", "out")
    (world.project / ".gitignore").write_text("\n".join((*names, ".openhands")))
    (world.project / "node_modules/a").mkdir(parents=True)
    (world.project / "node_modules/a/i.js").write_text("1\n")
    (world.project / "out").mkdir()
    world.script(call("terminal", command=CACHES), say("Done."))
    client = world.daemon(settings=VIEW)
    world.start(client, options=ASKS)
    world.turn(client)
    offer = wait_for_approval(client)
    assert offer["title"] == "Keep dist (1 file) in the project?"
    answer(client, offer, "allow-once")
    wait_for_notice(client, "Kept: dist (1 file)")
    assert [item["title"] for item in items(client, "notice")] == [
        "dist (1 file)",
        "Kept: dist (1 file)",
    ]
