"""`make test-changed`: which tests a change runs."""

import pytest
from changed import SMOKE, choose
from places import REPO

IMPORTERS = {
    "kernel/turns": {"conversations/open_conversation", "features/memory/memory"},
    "features/memory/notes": {"features/memory/memory"},
    "features/memory/memory": {"conversations/conversation_runtime"},
    "conversations/conversation_runtime": {"conversations/open_conversation"},
    "conversations/open_conversation": {"frontends/acp/session", "frontends/lsp/composition"},
    "protocol/events": {"kernel/turns"},
}
FILES = (
    "tests/clients/test_typescript_client.py",
    "tests/conversations/test_ends.py",
    "tests/editors/neovim/test_keys.py",
    "tests/editors/vscode/test_turns.py",
    "tests/features/memory/test_memory.py",
    "tests/frontends/acp/test_acp_turns.py",
    "tests/frontends/cli/test_cli.py",
    "tests/frontends/lsp/test_methods.py",
    "tests/kernel/test_turns.py",
    "tests/protocol/test_problems.py",
    "tests/test_repository.py",
)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ("oh_daemon/features/memory/notes.py", {"conversations", "features/memory"}),
        ("oh_daemon/features/memory/words.json", {"conversations", "features/memory"}),
        ("oh_daemon/kernel/turns.py", {"conversations", "features/memory", "kernel"}),
        (
            "oh_daemon/conversations/open_conversation.py",
            {"conversations", "frontends/acp", "frontends/lsp"},
        ),
        ("oh_daemon/frontends/acp/session.py", {"frontends/acp"}),
        ("oh_daemon/__main__.py", {"frontends/cli"}),
        (
            "oh_daemon/protocol/events.py",
            {"clients", "conversations", "editors", "features/memory", "kernel", "protocol"},
        ),
        ("editors/neovim/plugin/oh.lua", {"editors/neovim"}),
        ("clients/typescript/src/client.ts", {"clients", "editors/vscode"}),
        ("docs/settings.md", {"protocol", "test_repository.py"}),
        ("tests/frontends/acp/test_acp_turns.py", {"frontends/acp/test_acp_turns.py"}),
        ("tests/frontends/acp/conftest.py", {"frontends/acp"}),
        ("tests/golden/v2/log.jsonl", {""}),
        ("tests/kernel/test_gone.py", set[str]()),
        ("Makefile", set[str]()),
        ("tests/support/world.py", {""}),
        ("tests/conftest.py", {""}),
    ],
)
def test_a_change_runs_the_tests_of_its_unit_and_its_importers(
    changed: str, expected: set[str]
) -> None:
    chosen = choose([changed], IMPORTERS, FILES)
    assert {path for path in chosen if path not in SMOKE} == {
        f"tests/{path}".rstrip("/") for path in expected
    }


def test_smoke_tests_run_once_with_any_change() -> None:
    assert choose([], IMPORTERS, FILES) == sorted(SMOKE)
    with_kernel = choose(["oh_daemon/kernel/turns.py"], IMPORTERS, FILES)
    assert not any(path.startswith("tests/kernel/") for path in with_kernel)
    for path in SMOKE:
        file, _, name = path.partition("::")
        assert f"def {name}(" in (REPO / file).read_text("utf-8")
