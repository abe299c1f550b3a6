"""Many files are one landing: shown as a list, reviewed and rolled back as one."""

from pathlib import Path
from typing import Any

import pytest
from applying import ASKS, VIEW, answer, wait_for_approval
from fake_llm import call, say
from world import World, content_of, items

pytestmark = pytest.mark.one_daemon

Json = dict[str, Any]


@pytest.mark.parametrize("n", [300, pytest.param(5_000, marks=pytest.mark.full)])
def test_reformatting_many_files_is_one_landing_and_one_review(world: World, n: int) -> None:
    paths = [world.project / f"src{i // 100}" / f"m{i}.py" for i in range(n)]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.write_text("x = 1\ny = 2\n")
    world.script(call("terminal", command="sed -i 's/ = /=/' src*/*.py"), say("Done."))
    client = world.daemon(settings=VIEW)
    conversation = world.start(client, options=ASKS)
    approval = wait_for_approval(client)
    assert approval["title"] == f"Keep changes to {n} files"
    changes = approval["subject"]["changes"]
    assert (len(changes), any("patch" in change for change in changes)) == (n, False)
    answer(client, approval, "allow-once")
    world.turn(client)
    assert {path.read_text() for path in paths} == {"x=1\ny=2\n"}
    [item] = items(client, "command")
    assert len(item["changes"]) == n
    assert len(content_of(item)) < 5_000
    assert _size_of_log(world, conversation) < n * 1_500 + 100_000
    params = {"conversationId": conversation}
    assert len(client.request("changes/list", params)["files"]) == n
    [message] = items(client, "userMessage")
    back = {**params, "toItemId": message["id"], "files": "restore"}
    client.request("conversation/rollback", back)
    assert {path.read_text() for path in paths} == {"x = 1\ny = 2\n"}


def _size_of_log(world: World, conversation: str) -> int:
    log_folder: Path = world.log_of(conversation)
    return log_folder.stat().st_size
