"""Commands in an overlay, while programs of the user have the same files open."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from applying import VIEW, answer, wait_for_approval
from fake_llm import call, say
from open_files import APPENDING, DATABASE_SERVER, check_rows, contents, running
from world import World, content_of, items

pytestmark = pytest.mark.one_daemon

Json = dict[str, Any]
INSERT = (
    "python3 -c \"import sqlite3; db = sqlite3.connect('data/app.db')"
    "; db.execute('INSERT INTO t VALUES (1)'); db.commit()\"; echo agent >> data/dev.log"
)


def files_of(world: World) -> tuple[Path, Path]:
    (world.project / "data").mkdir()
    log = world.project / "data/dev.log"
    log.write_text("one\n")
    return world.project / "data/app.db", log


def test_open_database_is_asked_about_and_an_open_log_is_appended_to(world: World) -> None:
    database, log = files_of(world)
    inode = log.stat().st_ino
    world.script(call("terminal", command=INSERT), say("Done."))
    server = (sys.executable, "-c", DATABASE_SERVER, "FILE", "WAL")
    with running(*server, file=database) as process, running(*APPENDING["shell"], file=log):
        before = contents(database.parent)
        client = world.daemon(settings=VIEW)
        world.start(client, options={"mode": "autoEdit"})
        approval = wait_for_approval(client)
        assert "app.db is open for writing in python" in approval["reason"]
        assert f"(process {process.pid})" in approval["reason"]
        assert "dev.log" not in approval["reason"]
        answer(client, approval, "reject")
        world.turn(client)
        assert contents(database.parent) == before
        check_rows(database, 10)
        world.script(call("terminal", command="echo agent >> data/dev.log"), say("Done."))
        world.send(client, approval["conversationId"], "only the log")
        assert world.turn(client, nth=2)["status"] == "completed"
    assert (log.read_text(), log.stat().st_ino) == ("one\nagent\n", inode)


@pytest.mark.parametrize("ignored", ["data", "*.db"])
def test_open_files_that_git_ignores_stay_as_they_are_without_a_question(
    world: World, ignored: str
) -> None:
    subprocess.run(["git", "init", "-q", str(world.project)], check=True)
    (world.project / ".gitignore").write_text(f"{ignored}\n.openhands\n")
    database, _ = files_of(world)
    world.script(call("terminal", command=f"{INSERT}; echo new > data/new.txt"), say("Done."))
    server = (sys.executable, "-c", DATABASE_SERVER, "FILE", "WAL")
    with running(*server, file=database):
        before = contents(database.parent)
        client = world.daemon(settings=VIEW)
        world.start(client, options={"mode": "autoEdit"})
        refusal = client.wait_for_event(is_refusal)["event"]["item"]
        world.turn(client)
        news = {"dev.log": b"one\nagent\n", "new.txt": b"new\n"} if ignored == "*.db" else {}
        assert contents(database.parent) == {**before, **news}
        check_rows(database, 10)
    assert " is open for writing in python" in refusal["description"]


SERVE = (
    "python3 -c \"import sqlite3, time; db = sqlite3.connect('app.db')"
    "; db.execute('PRAGMA journal_mode=WAL'); db.execute('CREATE TABLE t (n)')"
    "; db.execute('INSERT INTO t VALUES (1)'); db.commit(); open('up', 'w'); time.sleep(600)\" &"
    " until [ -e up ]; do :; done"
)


def test_database_of_a_background_job_is_applied_when_the_job_has_ended(world: World) -> None:
    world.script(call("terminal", command=SERVE), say("It serves."))
    world.script(call("terminal", command="kill $!; wait"), say("Ended."))
    client = world.daemon(settings=VIEW)
    conversation = world.start(client, options={"mode": "autoEdit"})
    world.turn(client)
    names = {path.name for path in world.project.iterdir()}
    assert "up" in names
    assert not any(name.startswith("app.db") for name in names)
    words = "".join(map(content_of, items(client, "fileChange")))
    assert "Left as it was: app.db-wal: a program in the sandbox has this database open" in words
    world.send(client, conversation, "end it")
    world.turn(client, nth=2)
    check_rows(world.project / "app.db", 1)


def is_refusal(params: Json) -> bool:
    return (params["event"].get("item") or {}).get("title", "").startswith("Not kept: ")
