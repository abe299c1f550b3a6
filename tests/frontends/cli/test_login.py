"""`oh-daemon login`: what a person types, what a script pipes in, and who uses the key then."""

import json
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import Ran, end, environment, start, type_into
from fake_llm import call, error, say
from places import TESTS
from starts import SCRIPT
from world import World

KEY = "a key of no known form 3+4=7"


def file_of(world: World) -> Path:
    return world.home / "credentials.json"


def begin(world: World, *args: str, **options: Any) -> subprocess.Popen[str]:
    """Start a command whose environment has no key and names no model."""
    variables = options.pop("variables", {})
    env = environment(world.home, **variables)
    return start([SCRIPT, *args], world.project, env, **options)


def run_piped(world: World, *args: str, key: str = KEY, **options: Any) -> Ran:
    process = begin(world, "login", *args, "--key-stdin", stdin=subprocess.PIPE, **options)
    out, err = process.communicate(f"{key}\n", timeout=120)
    return Ran(process.returncode, out, err)


def signed_in(world: World) -> None:
    world.script(say("yes"))
    outcome = run_piped(world, "--provider", "openai", "--url", world.llm.url, "--model", "fake")
    assert outcome.code == 0, outcome.err


def key_of(world: World) -> str | None:
    """Return the key that the newest request to the model had."""
    return world.llm.requests[-1].headers.get("authorization")


def test_a_script_pipes_the_key_in_and_from_then_on_all_fronts_have_it(world: World) -> None:
    signed_in(world)
    assert key_of(world) == f"Bearer {KEY}", "it is tried at once"
    assert stat.S_IMODE(file_of(world).stat().st_mode) == 0o600
    command = f"env; cat {file_of(world)}"
    world.script(call("terminal", command=command), say("Done."))
    outcome = end(begin(world, "run", "Do it", "--ask", "never", "--json"))
    assert (outcome.code, key_of(world)) == (0, f"Bearer {KEY}")
    log = "".join(path.read_text() for path in world.project.rglob("events.jsonl"))
    assert KEY not in outcome.out + outcome.err + log + (world.home / "daemon.log").read_text()
    assert "<secret hidden>" in log
    assert KEY not in "".join(r.raw_body.decode() for r in world.llm.requests)


def test_the_editor_s_daemon_has_it_as_soon_as_it_is_there(world: World) -> None:
    world.variables |= dict.fromkeys(world.environment.keys() - {"OH_DAEMON_HOME", "HOME"}, "")
    client = world.daemon()
    refusal = client.error("conversation/start", {"folders": [world.project.as_uri()]})
    assert "oh-daemon login" in str(refusal)
    signed_in(world)
    assert client.request("model/list")["default"] == "openai/fake"


def test_a_program_names_it(world: World) -> None:
    signed_in(world)
    world.script(say("Hello."))
    code = (
        "from oh_daemon import LLM\n"
        "print(LLM.from_login().complete([{'role': 'user', 'content': 'Hi'}]))"
    )
    argv = [sys.executable, "-c", code]
    outcome = end(start(argv, world.project, environment(world.home)))
    assert "Hello." in outcome.out, outcome.err
    assert key_of(world) == f"Bearer {KEY}"


def test_a_person_types_it_unseen_and_logout_takes_it_back(world: World) -> None:
    world.script(say("yes"))
    answers = world.llm.url.encode() + b"\n", f"{KEY}\n".encode(), b"org/fake\n"
    questions: dict[str, bytes] = dict(zip(("Provider", "Key", "Model"), answers, strict=True))
    env = environment(world.home)
    code, output = type_into([SCRIPT, "login"], world.project, env, questions)
    assert code == 0, output
    assert KEY not in output
    assert f"{file_of(world)}" in output
    assert key_of(world) == f"Bearer {KEY}"
    assert world.llm.requests[-1].body["model"] == "org/fake"
    assert end(begin(world, "logout", "openai")).code == 2, "there is none of that provider"
    outcome = end(begin(world, "logout"))
    assert (outcome.code, file_of(world).exists()) == (0, False)
    outcome = end(begin(world, "run", "Do it"))
    assert (outcome.code, "oh-daemon login" in outcome.err) == (5, True)
    assert end(begin(world, "logout")).code == 0, "nothing is left"


def test_by_setting_the_key_is_in_the_system_keyring_which_has_two_seconds(world: World) -> None:
    pytest.importorskip("keyring")
    (world.home / "settings.json").write_text('{"keyStore": "keyring"}')
    secrets = world.home / "secrets"
    variables = {
        "PYTHONPATH": str(TESTS / "support"),
        "PYTHON_KEYRING_BACKEND": "keyring_in_file.FileKeyring",
        "KEYRING_FILE": str(secrets),
    }
    world.script(say("yes"), say("Done."))
    args = ("--provider", "openai", "--url", world.llm.url, "--model", "fake")
    outcome = run_piped(world, *args, variables=variables)
    assert (outcome.code, "keyring" in outcome.out) == (0, True), outcome.err
    assert KEY not in file_of(world).read_text()
    [(account, key)] = json.loads(secrets.read_text()).items()
    assert (account.split()[0], key) == ("oh-daemon", KEY)
    outcome = end(begin(world, "run", "Do it", "--json", variables=variables))
    assert (outcome.code, key_of(world)) == (0, f"Bearer {KEY}")
    locked_variables = {**variables, "KEYRING_FILE": str(world.home)}
    outcome = end(begin(world, "run", "Do it", variables=locked_variables))
    assert (outcome.code, "has not answered within 2 s" in outcome.err) == (5, True), outcome.err
    outcome = end(begin(world, "logout", variables=variables))
    assert (outcome.code, file_of(world).exists(), secrets.read_text()) == (0, False, "{}")


def test_a_key_that_is_refused_is_neither_stored_nor_shown(world: World) -> None:
    world.script(error(401, f"wrong key: {KEY}"))
    outcome = run_piped(world, "--provider", "openai", "--url", world.llm.url, "--model", "fake")
    assert (outcome.code, file_of(world).exists()) == (5, False)
    assert "refuses the key" in outcome.err
    assert KEY not in outcome.out + outcome.err


@pytest.mark.parametrize(
    ("args", "key", "problem"),
    [
        ((), KEY, "--provider"),
        (("--provider", "openai"), "", "no key"),
        (("--provider", "openai", "--url", "localhost"), KEY, "http://"),
        (("--provider", "nobody"), KEY, "--model"),
    ],
)
def test_a_script_is_told_what_is_missing(
    world: World, args: tuple[str, ...], key: str, problem: str
) -> None:
    outcome = run_piped(world, *args, key=key)
    assert (outcome.code, problem in outcome.err) == (2, True), outcome.err


def test_a_key_as_an_argument_is_refused(world: World) -> None:
    outcome = end(begin(world, "login", "--provider", "openai", "--api-key", KEY))
    assert (outcome.code, "process list" in outcome.err) == (2, True)
