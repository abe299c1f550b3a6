"""The user's lasting decisions: kept for a folder, and none lost when several come at once."""

import threading
from pathlib import Path

from oh_daemon.store.user_state import UserState


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
    assert [key for key in every if not again.is_granted(tmp_path, key)] == []
    assert again.trust(tmp_path) == "full"
