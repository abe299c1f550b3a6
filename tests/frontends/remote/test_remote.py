"""What a user types for another machine, and what is said to the daemon there."""

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from places import REPO

from oh_daemon.frontends.remote import uris as uris_module
from oh_daemon.frontends.remote.opening import opened_params, problem_of
from oh_daemon.frontends.remote.target import parse_target
from oh_daemon.frontends.remote.uris import UriMap, folders_of
from oh_daemon.protocol.errors import InvalidParamsError
from oh_daemon.protocol.settings import Layer, merge_settings
from oh_daemon.protocol.version import VERSION

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
    with pytest.raises(InvalidParamsError) as error_info:
        parse_target(text)
    assert "secret" not in error_info.value.message


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
    settings = merge_settings([Layer("user", user)]).settings
    block: Any = {
        "settings": {"llm": {"apiKey": "k"}, "maxSteps": 7, "mcpServers": {"a": {"command": "x"}}},
        "trust": [
            {"folder": "file:///a", "trusted": True},
            {"folder": "file:///b", "trusted": False},
        ],
        "features": {"applyEdit2": True},
    }
    params = {"processId": 7, "initializationOptions": {"ohDaemon": block, "other": 1}}
    request_params = opened_params(params, {"default": "openai/x", "listed": []}, settings)
    assert request_params["processId"] is None
    assert request_params["initializationOptions"]["other"] == 1
    assert request_params["initializationOptions"]["ohDaemon"] == {
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
    assert opened_params({}, {}, settings)["initializationOptions"]["ohDaemon"]["plain"] is True


def test_a_daemon_there_that_cannot_ask_for_models_is_refused_with_both_versions() -> None:
    old = {"result": {"capabilities": {}, "serverInfo": {"version": "0.0.9"}}}
    problem = problem_of(old, VERSION, "ssh://box")
    assert problem is not None
    assert f"version 0.0.9, here it is {VERSION}" in problem.message
    assert problem_of({"error": {"code": 1}}, VERSION, "ssh://box") is None


def test_where_a_folder_has_another_path_only_fields_with_uris_change() -> None:
    uris = UriMap({Path("/home/ana/shop"): Path("/src"), Path("/home/ana/shop/lib"): Path("/lib")})
    params: Any = {
        "method": "textDocument/didOpen",
        "params": {
            "textDocument": {
                "uri": "file:///home/ana/shop/a%2Bb.py",
                "text": "file:///home/ana/shop",
            },
            "changes": {"file:///home/ana/shop/lib/c": [{"newText": "uri"}]},
            "folders": ["file:///home/ana/shop"],
            "folder": "/home/ana/shop",
            "args": {"uri": "file:///home/ana/shop"},
            "targetUri": "file:///home/ana/shopping",
            "scopeUri": "oh-log:7",
        },
    }
    remote_message = uris.to_remote(params)
    assert remote_message["params"] == {
        "textDocument": {"uri": "file:///src/a%2Bb.py", "text": "file:///home/ana/shop"},
        "changes": {"file:///lib/c": [{"newText": "uri"}]},
        "folders": ["file:///src"],
        "folder": "/src",
        "args": {"uri": "file:///home/ana/shop"},
        "targetUri": "oh-elsewhere:///home/ana/shopping",
        "scopeUri": "oh-log:7",
    }
    assert uris.to_local(remote_message) == params
    assert uris.to_local({"uri": "file:///usr/lib/x.py"}) == {"uri": "oh-elsewhere:///usr/lib/x.py"}


def test_a_uri_comes_back_in_the_form_in_which_the_editor_sent_it() -> None:
    uris = UriMap({Path("/a"): Path("/b")})
    assert uris.to_remote({"uri": "file:///a/x(1)%3a"}) == {"uri": "file:///b/x%281%29%3A"}
    assert uris.to_local({"uri": "file:///b/x%281%29%3A"}) == {"uri": "file:///a/x(1)%3a"}


def test_folders_have_the_same_path_there_and_what_is_in_none_is_out_of_reach() -> None:
    params = {"workspaceFolders": [{"uri": "file:///a", "name": "a"}]}
    assert folders_of(params, "", {}) == {Path("/a"): Path("/a")}
    assert folders_of(params, "/b", {}) == {Path("/a"): Path("/b")}
    assert folders_of(params, "/b", {Path("/a"): Path("/c")}) == {Path("/a"): Path("/c")}
    uris = UriMap(folders_of(params, "", {}))
    edit = {"documentChanges": [{"textDocument": {"uri": "file:///home/ana/.bashrc"}}]}
    request_params = {
        "documentChanges": [{"textDocument": {"uri": "oh-elsewhere:///home/ana/.bashrc"}}]
    }
    assert uris.to_local(edit) == request_params
    uris.add({Path("/home/ana"): Path("/home/ana")})
    assert uris.to_local(edit) == edit


def test_every_field_of_the_protocol_that_holds_a_uri_is_known() -> None:
    schema = (REPO / "docs/schema.json").read_text()
    assert set(re.findall(r'"(uris?|folders?|\w+Uris?)": \{', schema)) <= uris_module.FIELDS


def test_the_feature_for_dev_containers_uses_its_options_and_says_what_it_needs() -> None:
    folder = REPO / "packaging/devcontainer/src/oh-daemon"
    feature = json.loads((folder / "devcontainer-feature.json").read_text())
    script = (folder / "install.sh").read_text()
    assert feature["id"] == folder.name
    assert all(f"${{{name.upper()}:-" in script for name in feature["options"])
    nothing = {"PATH": "/nonexistent"}
    outcome = subprocess.run(
        ["/bin/sh", folder / "install.sh"], env=nothing, capture_output=True, text=True, check=False
    )
    assert (outcome.returncode, "needs Python 3.11" in outcome.stderr) == (1, True)
