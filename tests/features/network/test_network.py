"""What commands in a sandbox reach: hosts by the proxy, services and ports as they are allowed."""

import json
import re
import socket
import subprocess
import sys
import tarfile
from pathlib import Path
from urllib.request import urlopen
from zipfile import ZipFile

import pytest
from fake_llm import call, say
from host_approvals import Json, answer, approvals, one_host, wait_for_host_approval
from network_hosts import host
from raw_client import RawClient
from world import World, content_of, items

from oh_daemon.conformance.rpc_process import NoAnswer
from oh_daemon.conversations.host_policy import PUBLIC

VIEW = {"sandbox": "overlay"}
ASKS = {"approval": "askRisky"}


def ports_told(client: RawClient, ports: list[Json]) -> Json:
    """Wait until the client is told that these ports, and no others, are listened on."""

    def is_told(message: Json) -> bool:
        return message.get("method") == "port/changed" and message["params"]["ports"] == ports

    return client.wait_for(is_told)["params"]


def run_commands(
    world: World, client: RawClient, *commands: str, options: Json | None = None
) -> list[str]:
    """Run commands, one in each step, and return what the model is told of each."""
    world.script(*(call("terminal", command=command) for command in commands), say("Done."))
    world.start(client, options=options or {"approval": "askNever"})
    world.turn(client)
    return [content_of(item) for item in items(client, "command")]


def test_a_host_that_the_setting_names_is_reached_and_no_other(
    world: World, tmp_path: Path
) -> None:
    (tmp_path / "page").write_text("hello\n")
    with host(tmp_path) as port, host(tmp_path) as other_port:
        client = world.daemon(settings={**VIEW, "hosts": [f"127.0.0.1:{port}"]})
        get, tunnel = "curl -sS --noproxy ''", "curl -sS -p --noproxy ''"
        outputs = run_commands(
            world,
            client,
            f"{get} http://127.0.0.1:{port}/page && {tunnel} http://127.0.0.1:{port}/page",
            f"curl -sS http://127.0.0.1:{port}/page",
            f"{get} -w '%{{http_code}}' http://127.0.0.1:{other_port}/page",
            f"{get} http://localhost.localdomain:{port}/ http://localhost:{port}/",
            f"{get} http://[::ffff:127.0.0.1]:{port}/page http://ip6-localhost:{port}/page",
            f"{get} http://169.254.169.254/latest/ http://[fd00:ec2::254]/ http://0.0.0.0:{port}/",
        )
    assert outputs[0].startswith("hello\nhello\n")
    assert outputs[1].startswith("hello\n")
    assert "403" in outputs[2]
    assert f"[no connection to 127.0.0.1:{other_port}: " in outputs[2]
    for each in outputs[2:]:
        assert "hello" not in each
        assert "this machine or as near" in each


def test_a_new_host_is_asked_about_while_the_command_waits_and_once_per_conversation(
    world: World,
) -> None:
    heard: list[str] = []
    with one_host(world, heard):
        get = {"command": "curl -sS http://one.test/a", "timeout_s": 0.2}
        again = {"command": "curl -sS http://one.test/a; curl -sSp http://one.test:80/c"}
        world.script(call("terminal", **get), call("terminal", **again), say("Done."))
        client = world.daemon(settings=VIEW)
        conversation = world.start(client, options=ASKS)
        approval = wait_for_host_approval(client)
        assert approval["title"] == "Let commands connect to one.test?"
        assert approval["subject"] == {"kind": "host", "host": "one.test", "port": 80}
        assert approval["reason"] == "`curl -sS http://one.test/a` connects to one.test"
        scopes = [option["scope"] for option in approval["options"]]
        assert scopes == ["turn", "conversation", "folder", "once"]
        actual_approvals = client.request("approval/list", {"conversationId": conversation})[
            "pending"
        ]
        assert actual_approvals == [approval]
        assert heard == []
        answer(client, approval, "allow-conversation")
        world.turn(client)
        first, second = (content_of(item) for item in items(client, "command"))
    assert first.startswith("this is one.test\n[exit code 0")
    assert second.startswith("this is one.test\ntunnel to one.test:80\n")
    assert len(approvals(client)) == 1
    assert heard[0] == "GET http://one.test/a Basic YW5hOnNlY3JldA=="
    assert heard[2].startswith("CONNECT one.test:80 Basic ")


def test_a_host_that_the_user_rejects_is_refused_once_for_the_turn_with_his_words(
    world: World,
) -> None:
    with one_host(world):
        get = "curl -sS http://one.test/a; curl -sSp https://one.test/ || echo $?"
        world.script(call("terminal", command=get), say("Done."))
        client = world.daemon(settings=VIEW)
        world.start(client, options=ASKS)
        answer(client, wait_for_host_approval(client), "reject", feedback="use the mirror")
        world.turn(client)
    [content] = (content_of(item) for item in items(client, "command"))
    assert content.startswith(
        "oh-daemon: no connection to one.test: the user does not allow it: use "
    )
    assert len(approvals(client)) == 1
    assert "[no connection to one.test: the user does not allow it" in content


@pytest.mark.parametrize(
    ("option", "ending"),
    [
        ("allow-once", "this is one.test\n"),
        ("reject", "[no connection to one.test: the user does not allow it]"),
    ],
)
def test_question_about_a_job_is_reported_as_the_jobs(
    world: World, option: str, ending: str
) -> None:
    """The job connects between commands; the agent's own question keeps the model from going on."""
    with one_host(world):
        job = {"terminal_id": "web"}
        get = "sleep 2; curl -sS http://one.test/a; sleep 60"
        world.script(
            call("terminal", command=get, background=True, timeout_s=0, **job),
            call("terminal", command="echo last"),
            call("ask", question="Which port?"),
            call("terminal", command="echo other"),
            call("terminal", command="", is_input=True, timeout_s=1, **job),
            call("terminal", command="echo next"),
            say("Done."),
        )
        client = world.daemon(settings=VIEW, features={"inputRequests": True})
        client.answer("input/request", keep_waiting)
        world.start(client, options=ASKS)
        question = client.wait_for_event("input.requested")["event"]["input"]
        approval = wait_for_host_approval(client)
        assert "curl" in approval["reason"]
        client.request("input/respond", {"inputId": question["id"], "action": "cancel"})
        client.wait_for(lambda _message: len(items(client, "command")) == 3)
        answer(client, approval, option)
        world.turn(client)
    first, last, other, polled, later = (content_of(item) for item in items(client, "command"))
    assert "[web waits for the user's answer about one.test]\n" in other
    assert ending in polled
    assert re.search(r"\[still running after .* s; it waited .* s of them for the user's", polled)
    assert "one.test" not in f"{first}{last}{later}"
    assert len(approvals(client)) == 1


def keep_waiting(_params: Json) -> None:
    raise NoAnswer


def test_question_that_comes_too_late_is_reported_with_its_own_command(world: World) -> None:
    with one_host(world):
        world.script(
            call("terminal", command="curl -sS --max-time 1 http://one.test/a"),
            call("terminal", command="echo next"),
            say("Done."),
        )
        client = world.daemon(settings=VIEW)
        world.start(client, options=ASKS)
        world.turn(client)
    first, later = (content_of(item) for item in items(client, "command"))
    assert "[no connection to one.test: the user was asked and did not answer]" in first
    assert "one.test" not in later


def test_an_interrupt_withdraws_the_question_about_a_host_and_ends_the_command(
    world: World,
) -> None:
    with one_host(world):
        world.script(call("terminal", command="curl -sS http://one.test/"))
        client = world.daemon(settings=VIEW)
        conversation = world.start(client, options=ASKS)
        approval = wait_for_host_approval(client)
        client.request("conversation/interrupt", {"conversationId": conversation})
        resolution = client.wait_for_event("approval.resolved")["event"]
        assert resolution["approvalId"] == approval["id"]
        assert resolution["decision"]["effect"] == "reject"
        assert world.turn(client)["status"] == "interrupted"
        [item] = items(client, "command")
        assert item["status"] == "cancelled"
        pending = client.request("approval/list", {"conversationId": conversation})["pending"]
        assert pending == []


def test_a_question_about_a_host_ends_with_a_killed_daemon(world: World) -> None:
    with one_host(world):
        world.script(call("terminal", command="curl -sS http://one.test/"))
        client = world.daemon(settings=VIEW)
        conversation = world.start(client, options=ASKS)
        wait_for_host_approval(client)
        client.process.kill()
        client.process.wait()
        again = world.daemon(settings=VIEW)
        open_result = again.request("conversation/open", {"conversationId": conversation})
        assert open_result["pending"] == []
        last = [record["event"]["type"] for record in world.records_of(conversation)]
        assert "approval.resolved" in last


def test_nobody_is_asked_with_ask_never_and_full_reaches_what_is_public(world: World) -> None:
    with one_host(world):
        client = world.daemon(settings=VIEW)
        get = "curl -sS http://one.test/a; curl -sS http://10.99.99.99/"
        [output] = run_commands(world, client, get)
        assert output.count("the user is not asked") == 4
        world.script(call("terminal", command=get), say("Done."))
        world.start(client, options={"mode": "full"})
        world.turn(client, nth=2)
        full = content_of(items(client, "command")[-1])
    assert full.startswith("this is one.test\noh-daemon: no connection to 10.99.99.99: ")


def test_package_registries_are_one_question_and_include_the_users_mirrors(world: World) -> None:
    (world.home / ".npmrc").write_text("registry=http://npm.mirror.test:8081/\n")
    (world.project / ".npmrc").write_text("registry=http://evil.test/\n")
    with one_host(world) as server:
        (server / "npm.mirror.test").mkdir()
        (server / "npm.mirror.test/left-pad").write_text("found\n")
        get = "curl -sS http://npm.mirror.test:8081/left-pad; "
        get += f"curl -sSp http://{PUBLIC[0]}:443/"
        world.script(call("terminal", command=get), say("Done."))
        client = world.daemon(settings=VIEW)
        world.start(client, options=ASKS)
        approval = wait_for_host_approval(client)
        assert approval["title"].startswith("Let commands connect to the package registries (pip,")
        hosts = approval["subject"]["hosts"]
        assert {*PUBLIC, "npm.mirror.test:8081"} <= set(hosts)
        assert "evil.test" not in hosts
        answer(client, approval, "allow-once")
        world.turn(client)
        assert len(approvals(client)) == 1
        assert content_of(items(client, "command")[0]).startswith("found\ntunnel to ")


def test_only_the_proxy_leads_out(world: World) -> None:
    client = world.daemon(settings=VIEW)
    script = """
import socket
def attempt(name, act):
    try: act(); print(name, "done")
    except OSError as exc: print(name, "refused")
tcp = lambda place: socket.create_connection(place, 2)
attempt("tcp", lambda: tcp(("192.0.2.1", 80)))
attempt("tcp6", lambda: tcp(("2001:db8::1", 80)))
attempt("udp", lambda: socket.socket(type=socket.SOCK_DGRAM).sendto(b"x", ("192.0.2.1", 53)))
attempt("dns", lambda: socket.getaddrinfo("one.test", 80))
attempt("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
attempt("unix", lambda: socket.socketpair())
attempt("proxy", lambda: tcp(("127.0.0.1", 3128)))
"""
    [output] = run_commands(world, client, f"python3 -c '{script}'")
    assert output.splitlines()[:7] == [
        *("tcp refused", "tcp6 refused", "udp refused", "dns refused", "raw refused"),
        *("unix done", "proxy done"),
    ]


def test_a_service_of_this_machine_is_asked_about_and_reached_under_its_address(
    world: World, tmp_path: Path
) -> None:
    (tmp_path / "page").write_text("rows\n")
    with host(tmp_path) as port:
        place = f"127.0.0.1:{port}"
        get = f"curl -sS http://{place}/page"
        world.script(
            call("terminal", command=get),
            call("terminal", command=get, services=[place]),
            call("terminal", command=get),
            say("Done."),
        )
        client = world.daemon(settings=VIEW)
        world.start(client, options=ASKS)
        approval = wait_for_host_approval(client)
        assert approval["title"] == f"Let commands connect to {place} on this machine?"
        assert approval["subject"] == {"kind": "host", "host": "127.0.0.1", "port": port}
        answer(client, approval, "allow-conversation")
        world.turn(client)
        before, *after = (content_of(item) for item in items(client, "command"))
        assert "rows" not in before
        assert [output.partition("\n")[0] for output in after] == ["rows", "rows"]
        refused_call = call("terminal", command=get, services=["127.0.0.1:1"])
        world.script(refused_call, say("Done."))
        world.start(client, options={"approval": "askNever"})
        world.turn(client, nth=2)
        assert "no access to 127.0.0.1:1" in content_of(items(client, "command")[-1])


def test_ports_are_listed_and_opened_until_what_listens_ends(world: World) -> None:
    (world.project / "page").write_text("from inside\n")
    serve = "exec python3 -m http.server 18765 --bind ::1"
    world.script(
        call("terminal", command=serve, background=True, terminal_id="web"),
        say("It runs."),
    )
    client = world.daemon(settings=VIEW)
    conversation = world.start(client)
    of_it = {"conversationId": conversation}
    assert ports_told(client, [{"port": 18765}])["conversationId"] == conversation
    world.turn(client)
    assert client.request("port/list", of_it) == {"ports": [{"port": 18765}]}
    address = client.request("port/open", {**of_it, "port": 18765})["address"]
    with urlopen(f"http://{address}/page") as page:
        assert page.read() == b"from inside\n"
    ports_result = {"ports": [{"port": 18765, "address": address}]}
    assert client.request("port/list", of_it) == ports_result
    client.request("terminal/kill", {**of_it, "terminalId": "web"})
    ports_told(client, [])
    name, port = address.split(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((name, int(port)))
    assert "no command listens" in client.error("port/open", {**of_it, "port": 18765}).message


def test_pip_npm_and_git_work_through_the_proxy(world: World) -> None:
    with one_host(world) as server:
        folder = server / "one.test"
        publish_wheel(folder)
        publish_npm(folder)
        publish_git(folder)
        client = world.daemon(settings={**VIEW, "hosts": ["*.test"]})
        pip = f"{sys.executable} -m pip download --no-deps --no-cache-dir -d wheels"
        outputs = run_commands(
            world,
            client,
            f"{pip} --index-url http://one.test/simple --trusted-host one.test demo && ls wheels",
            "npm install --registry http://one.test demo-npm && cat node_modules/*/index.js",
            "git clone -q http://one.test/demo.git && cat demo/file",
        )
    assert "demo-1.0-py3-none-any.whl" in outputs[0]
    assert "demo of npm" in outputs[1]
    assert outputs[2].startswith("demo of git\n")
    assert all("exit code 0" in each for each in outputs)


def publish_wheel(folder: Path) -> None:
    index = folder / "simple/demo"
    index.mkdir(parents=True)
    name = "demo-1.0-py3-none-any.whl"
    (index / "index.html").write_text(f'<a href="{name}">{name}</a>')
    with ZipFile(index / name, "w") as wheel:
        of_wheel = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        wheel.writestr(
            "demo-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n"
        )
        wheel.writestr("demo-1.0.dist-info/WHEEL", of_wheel)
        wheel.writestr("demo-1.0.dist-info/RECORD", "")


def publish_npm(folder: Path) -> None:
    package = folder / "package"
    package.mkdir()
    actual_package = {"name": "demo-npm", "version": "1.0.0"}
    (package / "package.json").write_text(json.dumps(actual_package))
    (package / "index.js").write_text("// demo of npm\n")
    with tarfile.open(folder / "demo-npm.tgz", "w:gz") as archive:
        archive.add(package, "package")
    version = {**actual_package, "dist": {"tarball": "http://one.test/demo-npm.tgz"}}
    package_info = {
        "name": "demo-npm",
        "dist-tags": {"latest": "1.0.0"},
        "versions": {"1.0.0": version},
    }
    (folder / "demo-npm").write_text(json.dumps(package_info))


def publish_git(folder: Path) -> None:
    def git(*words: str) -> None:
        identity = ("-c", "user.name=Ana", "-c", "user.email=ana@example.com")
        subprocess.run(["git", *identity, "-C", str(folder), *words], check=True)

    git("init", "-q", "work")
    (folder / "work/file").write_text("demo of git\n")
    git("-C", "work", "add", "file")
    git("-C", "work", "commit", "-qm", "one")
    git("clone", "-q", "--bare", "work", "demo.git")
    git("-C", "demo.git", "update-server-info")
