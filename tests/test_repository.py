"""Promises of the whole repository: clean files, lock files in step, documented errors."""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, cast

import jsonschema
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from places import REPO
from pydantic import TypeAdapter
from typer.main import get_group
from typer.testing import CliRunner

from oh_daemon.frontends.cli.app import app
from oh_daemon.protocol import approvals, errors, events, items, messages
from oh_daemon.protocol import methods as protocol
from oh_daemon.protocol.errors import DaemonError
from oh_schema.files import PAGES, write_schema

ROOT = REPO

# Folders of a developer's machine, and hosts of registries, since a user may install from others.
# The bars keep these words themselves out of this file.
FORBIDDEN = """
/work|/main  /work|/shared  /tmp|/venv  /opt|/pypi  /opt|/wheels
pypi|.org  python|hosted  registry.|npmjs  deb.|debian
"""

OF_THE_PRODUCT = "oh_daemon/conversations/host_policy.py"
"""It has the public registries, which users allow together."""


def _forbidden_words() -> list[str]:
    words = re.split(r"\s{2,}|\n", FORBIDDEN.strip())
    return [word.replace("|", "") for word in words]


@cache
def _texts() -> dict[str, str]:
    """Return every text file that git knows or would add, by its name in the repository."""
    safe = ["-c", f"safe.directory={ROOT}"]  # In a container, the folder may have another owner.
    command = ["git", *safe, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    outcome = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    names = [name for name in outcome.split("\0") if (ROOT / name).is_file()]
    contents = {name: (ROOT / name).read_bytes() for name in names}
    # Like git, take a file that has a NUL byte for binary.
    return {n: c.decode("utf-8", "replace") for n, c in contents.items() if b"\0" not in c}


@pytest.mark.parametrize("forbidden_word", _forbidden_words())
def test_no_file_names_a_machine_or_a_registry(forbidden_word: str) -> None:
    file_names = [name for name, text in _texts().items() if forbidden_word in text.lower()]
    holders = [name for name in file_names if name != OF_THE_PRODUCT]
    assert holders == [], f"{forbidden_word!r} does not belong in the repository"


def _lock(name: str) -> dict[str, str]:
    """Return package -> version of a lock file."""
    pins = re.findall(r"^([\w.-]+)==(\S+)", (ROOT / name).read_text("utf-8"), re.MULTILINE)
    return {canonicalize_name(package): version for package, version in pins}


def _expected_pairs() -> Iterator[tuple[str, str]]:
    """Yield every requirement of pyproject.toml with the lock file that must meet it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    for requirement in project["project"]["dependencies"]:
        yield requirement, "requirements.lock"
    for requirement in project["dependency-groups"]["dev"]:
        yield requirement, "requirements-dev.lock"


@pytest.mark.parametrize(("text", "lock"), list(_expected_pairs()))
def test_a_requirement_is_met_by_its_lock_file(text: str, lock: str) -> None:
    requirement = Requirement(text)
    version = _lock(lock).get(canonicalize_name(requirement.name))
    assert version is not None, f"{requirement.name} is not in {lock}; run `make lock`"
    assert requirement.specifier.contains(version), f"{lock} has {version}; run `make lock`"


def test_the_daemon_is_tested_with_the_versions_that_it_ships_with() -> None:
    product_lock, test_lock = _lock("requirements.lock"), _lock("requirements-dev.lock")
    assert {name: test_lock.get(name) for name in product_lock} == product_lock, "run `make lock`"


@pytest.mark.parametrize(
    "name", ["requirements.lock", "requirements-dev.lock", "tests/acp_clients/requirements.lock"]
)
def test_every_locked_package_has_a_hash_and_no_address(name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    packages = re.split(r"^(?=\S)", text, flags=re.MULTILINE)[1:]
    assert [package for package in packages if "==" not in package] == []
    assert [package for package in packages if "--hash=sha256:" not in package] == []
    assert "://" not in text


def _errors() -> list[type[DaemonError]]:
    classes = vars(errors).values()
    return [c for c in classes if isinstance(c, type) and issubclass(c, DaemonError)]


def test_every_error_has_its_own_code_and_kind() -> None:
    codes, kinds = [error.code for error in _errors()], [error.kind for error in _errors()]
    assert len(codes) > 30
    assert sorted(set(codes)) == sorted(codes)
    assert sorted(set(kinds)) == sorted(kinds)


@pytest.mark.parametrize("error", _errors(), ids=lambda error: error.kind)
def test_every_error_is_in_the_protocol(error: type[DaemonError]) -> None:
    page = (ROOT / "docs/protocol/errors.md").read_text("utf-8")
    rows = [line for line in page.splitlines() if str(error.code) in line]
    assert any(error.kind in row for row in rows), f"errors.md lacks {error.code} {error.kind}"


# Examples in docs/protocol: JSON fences named `method.params`, `method.result` or after a type.

NOT_IN_THE_CONTRACT = {"initialize.result", "Error"}
TYPES: dict[str, Any] = {"Item": items.Item} | {
    name: getattr(module, name)
    for module, names in (
        (events, ("Record",)),
        (
            approvals,
            ("InputRequest", "Approval", "FileChangeSubject", "TrustSubject", "HostSubject"),
        ),
        (items, ("FileChange", "Turn")),
        (messages, ("ConversationInfo", "Option")),
    )
    for name in names
}


@cache
def _examples() -> tuple[tuple[str, Any], ...]:
    pages = "".join(page.read_text("utf-8") for page in sorted(ROOT.glob("docs/protocol/*.md")))
    fences = re.findall(r"^```json (\S+)\n(.*?)^```$", pages, re.MULTILINE | re.DOTALL)
    return tuple((name, json.loads(text)) for name, text in fences)


def _types() -> dict[str, Any]:
    params = {f"{method.name}.params": method.params for method in protocol.METHODS}
    results = {f"{m.name}.result": m.result for m in protocol.METHODS if m.result is not None}
    return TYPES | params | results


def _with_stand_ins(value: Any) -> Any:
    """Return the example with every "<Type>" in it replaced by the example of that type."""
    if isinstance(value, dict):
        return {k: _with_stand_ins(v) for k, v in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_with_stand_ins(v) for v in cast("list[Any]", value)]
    if isinstance(value, str) and (match := re.fullmatch(r"<(\w+)>", value)):
        return _with_stand_ins(next(v for name, v in _examples() if name == match[1]))
    return value


@pytest.mark.parametrize("n", range(len(_examples())), ids=lambda n: _examples()[n][0])
def test_an_example_of_the_protocol_fits_its_type_and_holds_nothing_else(n: int) -> None:
    name, text = _examples()[n]
    if name in NOT_IN_THE_CONTRACT:
        return
    example, expected_type = _with_stand_ins(text), _types()[name]
    adapter: TypeAdapter[Any] = TypeAdapter(expected_type)
    value = adapter.validate_python(example)
    assert adapter.dump_python(value, mode="json", exclude_unset=True) == example


@cache
def _schema() -> dict[str, Any]:
    return json.loads((ROOT / "docs/schema.json").read_text("utf-8"))


@pytest.mark.parametrize("n", range(len(_examples())), ids=lambda n: _examples()[n][0])
def test_an_example_of_the_protocol_fits_the_json_schema(n: int) -> None:
    name, text = _examples()[n]
    method, _, role = name.rpartition(".")
    schema_ref = {"$ref": f"#/$defs/{_schema()['methods'].get(method, {}).get(role, name)}"}
    if name == "Item":
        schema_ref = _schema()["$defs"]["ReadResult"]["properties"]["items"]["items"]
    if name not in NOT_IN_THE_CONTRACT:
        schema = {**schema_ref, "$defs": _schema()["$defs"]}
        jsonschema.Draft202012Validator(schema).validate(_with_stand_ins(text))


def test_the_json_schema_says_who_sends_a_message_and_what_a_field_means() -> None:
    methods, types = _schema()["methods"], _schema()["$defs"]
    assert (methods["tool/call"]["from"], methods["tool/list"]["from"]) == ("daemon", "client")
    assert types["StartParams"]["properties"]["maxSteps"]["description"]
    assert types["ToolCallItem"]["properties"]["outputRef"]["description"]
    assert types["StartParams"]["properties"]["title"].keys() == {"anyOf", "default", "description"}


def test_what_is_generated_from_the_contract_is_up_to_date(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert (write_schema(ROOT, check=True), capsys.readouterr().err) == (0, "")


def test_a_type_of_the_editors_that_was_edited_by_hand_is_found(tmp_path: Path) -> None:
    for folder in (
        "docs/protocol",
        "oh_daemon/protocol",
        "oh_daemon/conformance",
        "oh_daemon/frontends/acp",
        "oh_daemon/frontends/client",
        "clients/typescript/src",
        "editors/neovim/lua/oh",
    ):
        (tmp_path / folder).mkdir(parents=True)
    for page in PAGES:
        (tmp_path / page).write_text((ROOT / page).read_text("utf-8"), "utf-8")
    assert write_schema(tmp_path, check=False) == 0
    types = tmp_path / "editors/neovim/lua/oh/protocol.lua"
    assert types.read_bytes() == (ROOT / types.relative_to(tmp_path)).read_bytes()
    types.write_text(types.read_text("utf-8") + "-- by hand\n", "utf-8")
    assert write_schema(tmp_path, check=True) == 1


def test_every_method_of_the_protocol_has_an_example() -> None:
    missing_names = _types().keys() - {name for name, _ in _examples()}
    assert missing_names == set()


# Documents: their links lead somewhere, and the commands that they name exist


def _documents() -> dict[str, str]:
    return {name: text for name, text in _texts().items() if name.endswith(".md")}


def _prose(text: str) -> str:
    """Return the text without code, in which brackets and hashes mean something else."""
    return re.sub(r"^```.*?^```$|`[^`\n]*`", "", text, flags=re.MULTILINE | re.DOTALL)


def _anchors(text: str) -> set[str]:
    """Return the anchors that the headings of a page get when it is rendered."""
    headings = re.findall(r"^#+ +(.+)$", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_link_of_a_document_leads_somewhere() -> None:
    broken_links: list[str] = []
    for name, text in _documents().items():
        for link in re.findall(r"\]\(([^)\s]+)\)", _prose(text)):
            target, _, anchor = link.partition("#")
            if "://" in link:
                continue
            path = (ROOT / name).parent / target if target else ROOT / name
            anchors = _anchors(path.read_text("utf-8")) if anchor and path.is_file() else {anchor}
            if not path.exists() or anchor not in anchors:
                broken_links.append(f"{name}: {link}")
    assert broken_links == []


def test_every_feature_leads_to_the_heading_that_describes_it() -> None:
    """Whether those headings exist is up to the test of all links."""
    rows = re.findall(r"^\| ([^|]+) \| (.+) \|$", _documents()["docs/features.md"], re.MULTILINE)
    assert len(rows) > 40
    links = {feature: re.findall(r"\]\(([^)]+)\)", where) for feature, where in rows[1:]}
    vague = [
        f for f, headings in links.items() if not headings or any("#" not in x for x in headings)
    ]
    assert vague == []


def test_every_function_that_a_document_links_to_is_in_that_file() -> None:
    missing_names: list[str] = []
    for name, text in _documents().items():
        for linked_name, target in re.findall(r"\[`([\w.]+)`\]\(([\w./]+\.py)\)", text):
            source = (ROOT / name).parent.joinpath(target).read_text("utf-8")
            name_parts = linked_name.split(".")
            if not all(
                re.search(rf"^ *(?:def|class) {part}\b", source, re.M) for part in name_parts
            ):
                missing_names.append(f"{name}: {linked_name} is not in {target}")
    assert missing_names == []


def test_every_decision_that_is_referred_to_exists_and_is_in_the_index() -> None:
    page = _documents()["docs/decisions.md"]
    headings = re.findall(r"^## (\d+)\. (.+)$", page, re.MULTILINE)
    assert [int(number) for number, _ in headings] == list(range(1, len(headings) + 1))
    index = re.findall(r"^\| \[(\d+)\]\(#([^)]+)\) \| (.+?) \|", page, re.MULTILINE)
    assert [(number, title) for number, _, title in index] == headings
    assert all(anchor.startswith(f"{number}-") for number, anchor, _ in index)
    numbers = {number for number, _ in headings}
    wrong = [
        f"{name}: {reference}"
        for name, text in _texts().items()
        for reference, more in re.findall(r"[Dd]ecisions? (\d+)(?:,? (?:and|to) (\d+))?", text)
        if not {reference, more or reference} <= numbers
    ]
    assert wrong == []


FOR_USERS = (
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    *(
        f"docs/{name}.md"
        for name in ("cli", "fleet", "neovim", "python", "questions", "resolve", "vscode")
    ),
    *(f"docs/{name}.md" for name in ("safety", "settings", "skills")),
)


def _commands(pattern: str) -> set[str]:
    """Return what the documents tell the reader to type, in a fence or between backticks."""
    pages = "\n".join(_documents()[name] for name in FOR_USERS)
    return set(re.findall(rf"(?:^|`|\$ ){pattern}", pages, re.MULTILINE))


def test_every_command_of_the_documents_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert (target_names := _commands(r"make ([a-z-]+)"))
    assert target_names - targets == set()
    assert (target_names := _commands(r"oh-daemon ([a-z]+)"))
    assert [name for name in target_names if "Usage" not in _help(name)] == []


def test_every_option_of_the_command_line_in_the_documents_exists() -> None:
    pages = "\n".join(_documents()[name] for name in FOR_USERS)
    lines = re.findall(r"^oh-daemon (\w+) (.*)$", pages, re.MULTILINE)
    help_of = {command: _help(command) for command, _ in lines}
    missing_options = [
        f"{command} {option}"
        for command, options_text in lines
        for option in re.findall(r"(?<!\S)(--[a-z-]+)", options_text)
        if option not in help_of[command]
    ]
    assert missing_options == []


def test_the_help_describes_every_command_in_one_line_that_is_not_cut() -> None:
    """Its first sentence is shown, as far as it fits into 80 columns."""
    help_result = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "80"}).output
    commands = re.findall(
        r"^  ([a-z]+)  +(.+)$", help_result.partition("Commands:")[2], re.MULTILINE
    )
    assert [name for name, _ in commands] == [*get_group(app).commands]
    assert [name for name, text in commands if text.endswith("...")] == []


@pytest.mark.parametrize("page", ["README.md", "docs/python.md"])
def test_the_program_of_a_page_runs_as_it_stands(page: str, tmp_path: Path) -> None:
    [program] = re.findall(r"^```python\n(.*?)^```$", _documents()[page], re.M | re.S)
    outcome = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert outcome.returncode == 0, outcome.stderr
    assert "completed " in outcome.stdout


def _help(command: str) -> str:
    help_result = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"})
    return help_result.output


def test_the_changelog_has_room_for_the_next_change() -> None:
    headings = re.findall(r"^## (.+)$", _texts()["CHANGELOG.md"], re.MULTILINE)
    assert headings[0] == "[Unreleased]"


def test_every_script_can_be_run() -> None:
    scripts = [name for name, text in _texts().items() if text.startswith("#!")]
    assert scripts
    assert [name for name in scripts if not os.access(ROOT / name, os.X_OK)] == []


def test_a_skip_is_a_failure_in_ci_and_only_there(tmp_path: Path) -> None:
    test = "import pytest\ndef test_a() -> None: pytest.skip('no strace here')"
    assert _pytest_exit_code(tmp_path, test, {"CI": "true"}) == pytest.ExitCode.TESTS_FAILED
    assert _pytest_exit_code(tmp_path, test, {"CI": ""}) == pytest.ExitCode.OK


def test_a_long_loop_runs_only_when_asked_for(tmp_path: Path) -> None:
    test = "import pytest\n@pytest.mark.full\ndef test_a() -> None: assert False"
    assert _pytest_exit_code(tmp_path, test) == pytest.ExitCode.NO_TESTS_COLLECTED
    assert _pytest_exit_code(tmp_path, test, None, "--full") == pytest.ExitCode.TESTS_FAILED


@pytest.mark.full
def test_a_process_that_a_test_leaves_behind_fails_the_run(tmp_path: Path) -> None:
    # Wait until the process has begun: only then does its environment show that it is of this run.
    sleep = "Popen(['setsid', 'sh', '-c', 'echo; sleep 600; :'], stdout=PIPE).stdout.readline()"
    test = f"from subprocess import PIPE, Popen\ndef test_a() -> None: {sleep}"
    assert _pytest_exit_code(tmp_path, test) == pytest.ExitCode.TESTS_FAILED


def _pytest_exit_code(
    folder: Path, test: str, env: dict[str, str] | None = None, *options: str
) -> int:
    """Run one test under the repository's conftest, in a folder of its own."""
    (folder / "conftest.py").write_text((ROOT / "tests/conftest.py").read_text("utf-8"), "utf-8")
    ini = f"[pytest]\nmarkers = full\npythonpath = {ROOT / 'tests/support'}\n"
    (folder / "pytest.ini").write_text(ini, "utf-8")
    (folder / "test_one.py").write_text(test, "utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    # The run under test is not an xdist worker of this one, and it starts faster without plugins.
    outer = {name: value for name, value in os.environ.items() if "XDIST" not in name}
    outer["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    outcome = subprocess.run(
        command, cwd=folder, env={**outer, **(env or {})}, capture_output=True, check=False
    )
    return outcome.returncode
