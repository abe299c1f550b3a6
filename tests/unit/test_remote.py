"""What a user types for another machine, and what is said to the daemon there."""

import shlex
from typing import Any

import pytest

from oh_daemon.contract.errors import InvalidParamsError
from oh_daemon.contract.settings import Layer, merge_settings
from oh_daemon.fronts.remote.opening import opened, problem_of
from oh_daemon.fronts.remote.target import parse_target

SSH = "ssh -T -o ServerAliveInterval=15 -o ServerAliveCountMax=4"


@pytest.mark.parametrize(
    ("text", "words", "folder"),
    [
        ("ssh://box", f"{SSH} -- box", ""),
        ("ssh://ana@box:2222/srv/a%20b/", f"{SSH} -p 2222 -- ana@box", "/srv/a b"),
        ("ssh://ana@[fe80::1]:22/x", f"{SSH} -p 22 -- ana@fe80::1", "/x"),
        ("docker://web_1/src?user=dev", "docker exec -i --user=dev web_1", "/src"),
        ("docker://web?context=far", "docker --context=far exec -i web", ""),
        ("podman://web/src", "podman exec -i web", "/src"),
        (
            "kubectl://pod-1/src?namespace=dev&container=app",
            "kubectl --namespace=dev exec -i --container=app pod-1 --",
            "/src",
        ),
        ("cmd:lxc exec 'my box' --", "lxc exec 'my box' --", ""),
    ],
)
def test_a_target_becomes_a_command_that_runs_others_there(
    text: str, words: str, folder: str
) -> None:
    target = parse_target(text)
    assert (shlex.join(target.words), target.folder) == (words, folder)


def test_only_ssh_gets_the_script_as_one_word_for_the_shell_there() -> None:
    assert parse_target("ssh://box").argv("echo 'a b'")[-2:] == [
        "box",
        """sh -c 'echo '"'"'a b'"'"''""",
    ]
    assert parse_target("docker://box").argv("echo 'a b'")[-3:] == ["sh", "-c", "echo 'a b'"]


@pytest.mark.parametrize(
    "text",
    [
        *("box", "ssh://", "ssh://-oProxyCommand=x/", "ssh://a:secret@box/", "ssh://box:x/"),
        *(
            "docker://-it/",
            "docker://a?user=-x",
            "docker://a?env=KEY",
            "cmd:",
            "cmd:'",
            "http://a/",
        ),
    ],
)
def test_what_is_no_target_or_could_be_an_option_is_refused(text: str) -> None:
    with pytest.raises(InvalidParamsError) as refused:
        parse_target(text)
    assert "secret" not in refused.value.message


def test_what_protects_goes_there_and_what_lowers_it_does_not() -> None:
    user = {
        "approval": "askAlways",
        "maxCostUsd": 2,
        "llm": {"apiKey": "sk-of-the-user"},
        "rules": [
            {"decision": "deny", "argv": ["rm"]},
            {"decision": "allow", "argv": ["make"]},
        ],
    }
    here = merge_settings([Layer("user", user)]).settings
    block: Any = {
        "settings": {"llm": {"apiKey": "k"}, "maxSteps": 7, "mcpServers": {"a": {"command": "x"}}},
        "trust": [
            {"folder": "file:///a", "trusted": True},
            {"folder": "file:///b", "trusted": False},
        ],
        "features": {"applyEdit2": True},
    }
    params = {"processId": 7, "initializationOptions": {"ohDaemon": block, "other": 1}}
    said = opened(params, {"default": "openai/x", "listed": []}, here)
    assert said["processId"] is None
    assert said["initializationOptions"]["other"] == 1
    assert said["initializationOptions"]["ohDaemon"] == {
        "features": {"applyEdit2": True, "modelRequests": True},
        "models": {"default": "openai/x", "listed": []},
        "trust": [{"folder": "file:///b", "trusted": False}],
        "settings": {
            "approval": "askAlways",
            "maxCostUsd": 2,
            "model": "openai/x",
            "maxSteps": 7,
            "rules": [
                {
                    "decision": "deny",
                    "tool": "terminal",
                    "argv": ["rm"],
                    "reason": "",
                    "match": [],
                    "notMatch": [],
                }
            ],
        },
    }
    assert opened({}, {}, here)["initializationOptions"]["ohDaemon"]["plain"] is True


def test_a_daemon_there_that_cannot_ask_for_models_is_refused_with_both_versions() -> None:
    old = {"result": {"capabilities": {}, "serverInfo": {"version": "0.0.9"}}}
    problem = problem_of(old, "0.1.0", "ssh://box")
    assert problem is not None
    assert "version 0.0.9, here it is 0.1.0" in problem.message
    assert problem_of({"error": {"code": 1}}, "0.1.0", "ssh://box") is None
