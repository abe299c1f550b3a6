"""The system prompt: it begins the same for all conversations, and differs only at the end."""

from oh_daemon.core.prompt import render_system_prompt

HERE = {"date": "2026-01-31", "mode": "ask"}


def test_conversations_share_all_that_comes_before_their_folders():
    one = render_system_prompt(["/a"], environment=HERE)
    two = render_system_prompt(["/b"], environment=HERE)
    end = next(n for n, (a, b) in enumerate(zip(one, two, strict=True)) if a != b)
    shared = one[:end]
    assert shared.endswith("- /")
    assert "Explore" in shared
    assert "Verify" in shared
    assert one == f"{shared}a\n# Environment\ndate: 2026-01-31\nmode: ask\n"


def test_the_users_instructions_come_last():
    prompt = render_system_prompt([], environment=HERE, instructions=" Speak French.\n")
    assert prompt.endswith("mode: ask\n# From the user\nSpeak French.\n")
    assert "there is no workspace\n# Environment" in prompt
