"""What the repository promises as a whole: clean files, locks in step, documented errors."""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from oh_daemon.contract import errors
from oh_daemon.contract.errors import DaemonError

ROOT = Path(__file__).parents[2]

# Folders of the machine it was written on; hosts of registries, since whoever installs may use
# another; who or what wrote it. Split by a bar, so that this file does not hold them itself.
FORBIDDEN = """
/work|/main  /work|/shared  /tmp|/venv  /opt|/pypi  /opt|/wheels
pypi|.org  python|hosted  registry.|npmjs  deb.|debian
co-authored|-by  generated| with  as an ai| model  written| by an  claude| code
"""


def _forbidden() -> list[str]:
    words = re.split(r"\s{2,}|\n", FORBIDDEN.strip())
    return [word.replace("|", "") for word in words]


@cache
def _texts() -> dict[str, str]:
    """Every text file that git knows or would add, by its name in the repository."""
    safe = ["-c", f"safe.directory={ROOT}"]  # A container may see another owner.
    command = ["git", *safe, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    names = [name for name in listed.split("\0") if (ROOT / name).is_file()]
    contents = {name: (ROOT / name).read_bytes() for name in names}
    # Like git: what has a NUL byte is not text.
    return {n: c.decode("utf-8", "replace") for n, c in contents.items() if b"\0" not in c}


@pytest.mark.parametrize("forbidden", _forbidden())
def test_no_file_names_its_machine_its_registry_or_its_author(forbidden: str) -> None:
    holders = [name for name, text in _texts().items() if forbidden in text.lower()]
    assert holders == [], f"{forbidden!r} does not belong into the repository"


def _lock(name: str) -> dict[str, str]:
    """Package -> version of a lock file."""
    pins = re.findall(r"^([\w.-]+)==(\S+)", (ROOT / name).read_text("utf-8"), re.MULTILINE)
    return {canonicalize_name(package): version for package, version in pins}


def _wanted() -> Iterator[tuple[str, str]]:
    """Every requirement of pyproject.toml with the lock file it must be in."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    for requirement in project["project"]["dependencies"]:
        yield requirement, "requirements.lock"
    for requirement in project["dependency-groups"]["dev"]:
        yield requirement, "requirements-dev.lock"


@pytest.mark.parametrize(("text", "lock"), list(_wanted()))
def test_a_requirement_is_met_by_its_lock_file(text: str, lock: str) -> None:
    requirement = Requirement(text)
    version = _lock(lock).get(canonicalize_name(requirement.name))
    assert version is not None, f"{requirement.name} is not in {lock}; run `make lock`"
    assert requirement.specifier.contains(version), f"{lock} has {version}; run `make lock`"


def test_the_daemon_is_tested_with_the_versions_that_it_ships_with() -> None:
    shipped, tested = _lock("requirements.lock"), _lock("requirements-dev.lock")
    assert {name: tested.get(name) for name in shipped} == shipped, "run `make lock`"


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dev.lock"])
def test_every_locked_package_has_a_hash_and_no_address(name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    packages = re.split(r"^(?=\S)", text, flags=re.MULTILINE)[1:]
    assert [package for package in packages if "==" not in package] == []
    assert [package for package in packages if "--hash=sha256:" not in package] == []
    assert "://" not in text


def _errors() -> list[type[DaemonError]]:
    named = vars(errors).values()
    return [c for c in named if isinstance(c, type) and issubclass(c, DaemonError)]


def test_every_error_has_its_own_code_and_kind() -> None:
    codes, kinds = [error.code for error in _errors()], [error.kind for error in _errors()]
    assert len(codes) > 30
    assert sorted(set(codes)) == sorted(codes)
    assert sorted(set(kinds)) == sorted(kinds)


@pytest.mark.parametrize("error", _errors(), ids=lambda error: error.kind)
def test_every_error_is_in_the_protocol(error: type[DaemonError]) -> None:
    protocol = (ROOT / "protocol.md").read_text("utf-8")
    rows = [line for line in protocol.splitlines() if str(error.code) in line]
    assert any(error.kind in row for row in rows), f"protocol.md lacks {error.code} {error.kind}"


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
    sleep = "subprocess.Popen(['setsid', 'sleep', '600'])"
    test = f"import subprocess\ndef test_a() -> None: {sleep}"
    assert _pytest_exit_code(tmp_path, test) == pytest.ExitCode.TESTS_FAILED


def _pytest_exit_code(
    folder: Path, test: str, env: dict[str, str] | None = None, *options: str
) -> int:
    """Run one test under the repository's conftest, in a folder of its own."""
    (folder / "conftest.py").write_text((ROOT / "tests/conftest.py").read_text("utf-8"), "utf-8")
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = full\n", "utf-8")
    (folder / "test_one.py").write_text(test, "utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    # The run under test is not a worker of this one, and starts faster without its plugins.
    outer = {name: value for name, value in os.environ.items() if "XDIST" not in name}
    outer["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    done = subprocess.run(
        command, cwd=folder, env={**outer, **(env or {})}, capture_output=True, check=False
    )
    return done.returncode
