"""The user's lasting decisions: kept per folder, and none is lost when several come at once."""

import os
import subprocess
import sys
import threading
from pathlib import Path

from noon import where_it_is_noon

from oh_daemon.protocol.problems import render_problem
from oh_daemon.storage.user_state import UserState


def test_a_folder_that_moved_or_became_another_repository_is_not_trusted(tmp_path: Path) -> None:
    folder, inner = tmp_path / "work", tmp_path / "work/lib"
    (folder / ".git").mkdir(parents=True)
    inner.mkdir()
    state = UserState(tmp_path / "decisions.json")
    for each in (folder, inner):
        state.set_trust(each, "full")
    (tmp_path / "link").symlink_to(folder)
    assert state.trust(tmp_path / "link") == "full"
    (inner / ".git").mkdir()
    assert (state.trust(folder), state.trust(inner)) == ("full", None)
    folder.rename(tmp_path / "moved")
    assert state.trust(tmp_path / "moved") is None


def test_grants_that_are_given_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    state = UserState(tmp_path / "decisions.json")
    state.set_trust(tmp_path, "full")
    start = threading.Barrier(8)

    def grant(name: int) -> None:
        start.wait()
        for number in range(10):
            state.add_grant(tmp_path, f"{name}-{number}")

    threads = [threading.Thread(target=grant, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    again = UserState(tmp_path / "decisions.json")
    every = (f"{name}-{number}" for name in range(8) for number in range(10))
    assert [key for key in every if key not in again.grants(tmp_path)] == []
    assert again.trust(tmp_path) == "full"


def test_a_damaged_file_is_told_of_and_kept_beside_the_new_one(tmp_path: Path) -> None:
    path, kept_path = tmp_path / "decisions.json", tmp_path / "decisions.json.damaged"
    state = UserState(path)
    assert state.problem is None
    state.set_trust(tmp_path, "full")
    assert state.problem is None
    damaged_data = path.read_bytes()[:-5]
    path.write_bytes(damaged_data)
    assert state.trust(tmp_path) is None
    assert state.problem is not None
    assert str(kept_path) in render_problem(state.problem)
    state.add_grant(tmp_path, "command")
    assert (state.problem, kept_path.read_bytes()) == (None, damaged_data)
    assert "command" in state.grants(tmp_path)


SPEND = """
import sys
from pathlib import Path
from oh_daemon.storage.user_state import UserState
state = UserState(Path(sys.argv[1]))
sys.stdin.readline()
for number in range(50):
    state.spend(0.25)
    state.add_grant(Path("/w"), f"{sys.argv[2]}-{number}")
"""
READ = """
import sys
from pathlib import Path
from oh_daemon.storage.user_state import UserState
state = UserState(Path(sys.argv[1]))
print(state.spend(0), state.spend(0.5))
"""


def test_what_two_daemons_spend_at_the_same_time_is_all_counted(tmp_path: Path) -> None:
    path = tmp_path / "decisions.json"
    env = {**os.environ, "TZ": where_it_is_noon()}
    daemons = [
        subprocess.Popen(
            [sys.executable, "-c", SPEND, str(path), name],
            stdin=subprocess.PIPE,
            text=True,
            env=env,
        )
        for name in "ab"
    ]
    for daemon in daemons:
        assert daemon.stdin is not None
        daemon.stdin.write("go\n")
        daemon.stdin.flush()
    assert [daemon.communicate(timeout=120) and daemon.returncode for daemon in daemons] == [0, 0]
    read = [sys.executable, "-c", READ, str(path)]
    assert subprocess.check_output(read, text=True, env=env) == "25.0 25.5\n"
    state = UserState(path)
    every = (f"{name}-{number}" for name in "ab" for number in range(50))
    assert [key for key in every if key not in state.grants(Path("/w"))] == []
    assert state.trusted_folders() == {}
