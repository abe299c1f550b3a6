"""The system prompt: it begins the same for all conversations, and differs only at the end."""

from oh_daemon.core.prompt import render_system_prompt


def test_conversations_share_all_that_comes_before_their_folders():
    one = render_system_prompt(["/a"], platform="linux")
    two = render_system_prompt(["/b"], platform="linux")
    end = next(n for n, (a, b) in enumerate(zip(one, two, strict=True)) if a != b)
    shared = one[:end]
    assert shared.endswith("- /")
    assert "Explore" in shared
    assert "Verify" in shared
    assert one == shared + "a\n"


def test_the_users_instructions_come_last():
    prompt = render_system_prompt([], platform="linux", instructions=" Speak French.\n")
    assert prompt.endswith("there is no workspace\n# From the user\nSpeak French.\n")
