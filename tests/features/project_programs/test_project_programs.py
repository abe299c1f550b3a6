"""What a project runs by itself is listed, runs once the user said so, and asks when it changes."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mcp_server
import pytest
from command_line import end, environment, start
from fake_llm import call, say
from raw_client import RawClient
from starts import SCRIPT
from world import World, content_of, items

Json = dict[str, Any]
HOOK = "bash .openhands/check.sh"
COMMAND = "echo hello from the skill"


def wait_for_approval(client: RawClient, *, nth: int = 1) -> Json:
    return client.wait_for_event("approval.requested", nth=nth)["event"]["approval"]


def n_asked(client: RawClient) -> int:
    return sum(each["event"]["type"] == "approval.requested" for each in client.events)


def respond(client: RawClient, approval: Json, option: str) -> None:
    answer_params = {key: approval[key] for key in ("conversationId", "digest")}
    answer = {**answer_params, "approvalId": approval["id"], "optionId": option}
    client.request("approval/respond", answer)


def notices(client: RawClient) -> list[str]:
    return [item["title"] for item in items(client, "notice")]


class Project:
    """A project with a hook that denies `nope`, a skill with a command, and a server of it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.marker = world.home / "ran"
        self.script = world.project / ".openhands/check.sh"
        self.hooks = world.project / ".openhands/hooks.json"
        self.skill = world.project / ".agents/skills/shop/SKILL.md"
        self.server = self.skill.with_name("server.py")
        for path in (self.script, self.skill):
            path.parent.mkdir(parents=True, exist_ok=True)
        self.script.write_text(
            f"echo x >> '{self.marker}'\ngrep -q nope && {{ echo never >&2; exit 2; }}; exit 0\n"
        )
        self.hooks.write_text(json.dumps({"hooks": {"PreToolUse": [self.group()]}}))
        self.skill.write_text(self.text())
        self.server.write_text(Path(mcp_server.__file__).read_text())
        (self.skill.with_name("mcp.json")).write_text(json.dumps({"mcpServers": self.servers()}))

    def group(self) -> Json:
        return {"matcher": "Bash", "hooks": [{"type": "command", "command": HOOK}]}

    def text(self) -> str:
        return f"---\ndescription: Prices\ntriggers: [tea]\n---\nSay !`{COMMAND}`\n"

    def servers(self, **env: str) -> Json:
        args = ["${SKILL_ROOT}/server.py", *mcp_server.settings()["args"][1:]]
        return {"shop": {"command": sys.executable, "args": args, "env": env}}

    def n_ran(self) -> int:
        return len(self.marker.read_text().splitlines()) if self.marker.exists() else 0

    def works(self, client: RawClient, *, nth: int = 1) -> str:
        """Let the agent use all three in a new conversation, and return what the model read."""
        before = len(self.world.llm.requests)
        self.world.script(call("terminal", command="echo hi"), say("Done."))
        self.world.start(client, "tea, please")
        self.world.turn(client, nth=nth)
        return json.dumps([each.body for each in self.world.llm.requests[before:]])


def test_the_trust_question_lists_what_will_run_and_then_it_runs(world: World) -> None:
    project = Project(world)
    client = world.daemon(trust_value=None)
    world.script(call("terminal", command="echo hi"), say("Done."))
    world.start(client, "tea, please")
    trust = wait_for_approval(client)
    subject, uri = trust["subject"], world.project.as_uri()
    assert subject["folder"] == uri
    assert [(run["kind"], run["command"], run["uri"]) for run in subject["runs"]] == [
        ("hook", HOOK, f"{uri}/.openhands/hooks.json"),
        ("skillCommand", COMMAND, f"{uri}/.agents/skills/shop/SKILL.md"),
        (
            "server",
            " ".join([sys.executable, str(project.server), *mcp_server.settings()["args"][1:]]),
            f"{uri}/.agents/skills/shop/SKILL.md",
        ),
    ]
    counts_text = "1 hook, 1 skill command and 1 MCP server there will run without asking."
    assert trust["title"].endswith(counts_text)
    assert project.n_ran() == 0
    respond(client, trust, "allow-folder")
    world.turn(client)
    assert project.n_ran() == 1
    read = project.works(client, nth=2)
    assert "hello from the skill" in read
    assert "shop__price" in read
    assert (project.n_ran(), n_asked(client), notices(client)) == (2, 1, ["Skill used: shop"])
    client.close()

    # What was decided outlives the daemon.
    again = world.daemon(trust_value=None)
    project.works(again)
    assert (project.n_ran(), n_asked(again)) == (3, 0)


def edit_script(project: Project) -> None:
    project.script.write_text(f"{project.script.read_text()}#")


def edit_hook(project: Project) -> None:
    text = project.hooks.read_text()
    project.hooks.write_text(text.replace("check.sh", "check.sh -"))


def edit_skill(project: Project) -> None:
    project.skill.write_text(project.text().replace("hello", "hallo"))


def edit_server(project: Project) -> None:
    changed_settings = {"mcpServers": project.servers(LEVEL="2")}
    project.skill.with_name("mcp.json").write_text(json.dumps(changed_settings))


def edit_server_script(project: Project) -> None:
    project.server.write_text(f"{project.server.read_text()}#")


EDITS: dict[Callable[[Project], None], str] = {
    edit_script: "hook",
    edit_hook: "hook",
    edit_skill: "skillCommand",
    edit_server: "server",
    edit_server_script: "server",
}


def test_one_changed_byte_asks_again_before_it_runs_and_only_once(world: World) -> None:
    project = Project(world)
    first = world.daemon()
    project.works(first)
    assert (n_asked(first), project.n_ran()) == (0, 1)
    assert notices(first)[0].startswith(
        "May run without asking: 1 hook, 1 skill command and 1 MCP server of "
    )
    first.close()
    client = world.daemon()
    for nth, (edit, kind) in enumerate(EDITS.items(), 1):
        edit(project)
        n_requests = len(world.llm.requests)
        world.script(call("terminal", command="echo hi"), say("Done."))
        world.start(client)
        approval = wait_for_approval(client, nth=nth)
        assert [run["kind"] for run in approval["subject"]["runs"]] == [kind]
        assert approval["subject"]["isTrusted"] is True
        assert approval["reason"] == "new or changed since you trusted the folder"
        assert (project.n_ran(), len(world.llm.requests)) == (nth, n_requests)
        respond(client, approval, "allow-folder")
        world.turn(client, nth=nth)
        assert project.n_ran() == nth + 1
    client.close()
    last = world.daemon()
    read = project.works(last)
    assert n_asked(last) == 0
    assert "hallo from the skill" in read
    assert "shop__price" in read


def test_what_is_rejected_stays_off_until_the_folder_is_trusted_again(world: World) -> None:
    project = Project(world)
    first = world.daemon()
    project.works(first)
    first.close()
    edit_script(project)
    edit_skill(project)
    edit_server(project)
    client = world.daemon()
    world.script(call("terminal", command="echo nope"), say("Done."))
    world.start(client, "tea, please")
    respond(client, wait_for_approval(client), "reject")
    world.turn(client)
    assert content_of(items(client, "command")[0]).startswith("nope")
    [notice, *_] = items(client, "notice")
    assert notice["title"].startswith("Not run: 1 hook, 1 skill command and 1 MCP server of ")
    assert HOOK in notice["description"]
    client.close()

    again = world.daemon()
    read = project.works(again)
    assert "hallo from the skill: not run" in read
    assert "shop__price" not in read
    assert (project.n_ran(), n_asked(again)) == (1, 0)
    trust = {"folder": world.project.as_uri(), "trusted": "full"}
    again.request("workspace/setTrust", trust)
    project.works(again, nth=2)
    assert (project.n_ran(), n_asked(again)) == (2, 0)


def test_a_guard_that_changed_holds_back_what_it_guards(world: World) -> None:
    """The agent itself changes the hook, and the next action of the same answer must wait."""
    project = Project(world)
    weaker = call("terminal", command="echo 'exit 0' > .openhands/check.sh")
    world.script(weaker, call("terminal", command="echo nope"), say("Done."))
    client = world.daemon()
    conversation = world.start(client)
    approval = wait_for_approval(client)
    assert approval["subject"]["runs"][0]["command"] == HOOK
    assert len(items(client, "command")) == 1
    # It waits as any question does: a message takes its place, and it is asked again.
    world.send(client, conversation, "well?")
    again = wait_for_approval(client, nth=2)
    assert again["subject"] == approval["subject"]
    respond(client, again, "allow-conversation")
    world.turn(client)
    assert project.n_ran() == 1


def test_where_nobody_can_be_asked_nothing_new_runs_and_its_guard_still_guards(
    world: World,
) -> None:
    project = Project(world)
    first = world.daemon()
    project.works(first)
    first.close()
    edit_script(project)
    client = world.daemon(features={"approvalRequests": False})
    world.script(call("terminal", command="echo hi"), say("Done."))
    world.start(client)
    world.turn(client)
    [command] = items(client, "command")
    assert "new or changed, and nobody said that it may run" in content_of(command)
    [notice] = items(client, "notice")
    assert notice["title"].startswith("Not run: 1 hook of ")
    assert "`oh-daemon run` in a terminal asks" in notice["description"]
    assert project.n_ran() == 1


def test_a_run_without_a_terminal_says_on_stderr_what_it_did_not_run(world: World) -> None:
    project = Project(world)
    argv, env = [SCRIPT, "run", "go"], environment(world.home, **world.environment)
    world.script(say("One."))
    assert "May run without asking: 1 hook" in end(start(argv, world.project, env)).out
    edit_script(project)
    world.script(say("Two."))
    outcome = end(start(argv, world.project, env))
    assert (outcome.code, project.n_ran()) == (0, 0)
    [actual_line] = [
        line for line in outcome.err.splitlines() if "Not run: 1 hook of project" in line
    ]
    assert actual_line.endswith("`oh-daemon run` in a terminal asks, and so do editors")


def test_the_question_outlives_the_daemon(world: World) -> None:
    project = Project(world)
    first = world.daemon()
    project.works(first)
    edit_script(project)
    world.script(call("terminal", command="echo hi"), say("Done."))
    conversation = world.start(first)
    approval = wait_for_approval(first)
    first.kill()
    client = world.daemon()
    open_result = client.request("conversation/open", {"conversationId": conversation})
    assert [each["id"] for each in open_result["pending"]] == [approval["id"]]
    respond(client, approval, "allow-folder")
    client.request("conversation/resume", {"conversationId": conversation})
    assert world.turn(client)["finalText"] == "Done."
    assert (n_asked(client), project.n_ran()) == (0, 2)


def test_an_old_decision_without_a_list_covers_what_is_there(world: World) -> None:
    project = Project(world)
    world.home.joinpath("decisions.json").write_text(
        json.dumps({f"{world.project}\n{world.project}": {"trust": "full"}})
    )
    client = world.daemon(trust_value=None)
    project.works(client)
    assert (n_asked(client), project.n_ran()) == (0, 1)
    edit_script(project)
    world.script(say("Done."))
    world.start(client)
    assert wait_for_approval(client)["subject"]["isTrusted"] is True


MAKE = {"PreToolUse": [{"hooks": [{"type": "command", "command": "make -s"}]}]}
OUTLASTS = ", also after the agent changes what it runs"


def hook_of_make(world: World) -> tuple[Path, Path]:
    """Let a makefile be the hook of the project; return it and the file to which it adds lines."""
    makefile, marker = world.project / "Makefile", world.home / "ran"
    makefile.write_text(f"all:\n\t@echo x >> '{marker}'\n")
    (world.project / ".openhands").mkdir()
    (world.project / ".openhands/hooks.json").write_text(json.dumps({"hooks": MAKE}))
    return makefile, marker


@pytest.mark.parametrize("level", ["off", "landlock"])
def test_hook_whose_files_are_not_known_runs_after_a_choice_that_says_so(
    world: World, level: str
) -> None:
    makefile, marker = hook_of_make(world)
    run = call("terminal", command="ls")
    world.script(run, say("One."), run, say("Two."))
    client = world.daemon(settings={"sandbox": level})
    conversation = world.start(client)
    approval = wait_for_approval(client)
    assert not marker.exists()
    assert approval["reason"] == "the agent can change what it runs"
    assert approval["subject"]["runs"][0]["runsOtherFiles"] is True
    *allow_options, _ = approval["options"]
    assert [option["label"] for option in allow_options] == [
        f"Allow for now{OUTLASTS}",
        f"Allow from now on{OUTLASTS}",
    ]
    respond(client, approval, "allow-folder")
    world.turn(client)
    makefile.write_text(f"{makefile.read_text()}# changed\n")
    world.send(client, conversation, "again")
    world.turn(client, nth=2)
    assert (n_asked(client), marker.read_text()) == (1, "x\nx\n")


def test_decision_about_a_hook_in_the_sandbox_does_not_hold_outside(world: World) -> None:
    _, marker = hook_of_make(world)
    world.script(call("terminal", command="ls"), say("One."))
    client = world.daemon(settings={"sandbox": "overlay"})
    world.start(client)
    world.turn(client)
    assert (n_asked(client), notices(client)) == (0, ["May run without asking: 1 hook of project"])
    client.close()
    world.script(call("terminal", command="ls"), say("Two."))
    outside = world.daemon(settings={"sandbox": "off"})
    world.start(outside)
    respond(outside, wait_for_approval(outside), "reject")
    world.turn(outside)
    assert not marker.exists()


def test_trust_question_says_that_it_covers_changes_of_programs(world: World) -> None:
    _, marker = hook_of_make(world)
    world.script(call("terminal", command="touch a"), say("One."))
    client = world.daemon(trust_value=None, settings={"sandbox": "off"})
    world.start(client)
    trust = wait_for_approval(client)
    labels = [option["label"] for option in trust["options"]]
    assert labels == [f"Trust for now{OUTLASTS}", f"Trust this folder{OUTLASTS}", "Reject"]
    respond(client, trust, "allow-folder")
    world.turn(client)
    assert (n_asked(client), marker.read_text()) == (1, "x\n")
