"""`oh-daemon demo` as a child process: what it prints, what it leaves, and when it ends badly."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import Ran, end, environment, start
from fake_llm import FakeLLM, say
from places import REPO
from starts import SCRIPT

ROOT = REPO


def demo(tmp_path: Path, script: Path = SCRIPT, **more: str) -> tuple[Ran, Path]:
    """Run the demo from an unrelated folder; return how it ended, and its project."""
    outside, project = tmp_path / "elsewhere", tmp_path / "project"
    outside.mkdir()
    env = environment(tmp_path, **more)
    return end(start([script, "demo", "--folder", project], outside, env)), project


def test_the_demo_fixes_the_bug_by_the_unsaved_rule_and_shows_how(tmp_path: Path) -> None:
    demo_run, project = demo(tmp_path)
    assert (demo_run.code, demo_run.err) == (0, "")
    steps = (
        *(
            "Plan\n",
            "$ python3 run_tests.py",
            "1 failed",
            "exit code 1",
            "@@",
            "* 90 //",
            "* 85 //",
        ),
        *("1 passed", "exit code 0", "8 steps", "tokens", "cost $0", "Used:", "Log:"),
    )
    places = [demo_run.out.find(step) for step in steps]
    assert -1 not in places
    assert places == sorted(places)
    assert "* 85 // 100" in (project / "prices.py").read_text()
    assert "10 % off" in (project / "RULES.md").read_text()
    for check in ("the test is green", "prices.py is saved", "RULES.md still has your unsaved"):
        assert f"✓ {check}" in demo_run.out
    log = Path(re.search(r"^Log: +(.+)$", demo_run.out, re.MULTILINE)[1])  # type: ignore[index]
    assert log.is_file()
    command = re.search(r"^Show: +(.+)$", demo_run.out, re.MULTILINE)[1]  # type: ignore[index]
    args = shlex.split(command)
    assert Path(args[0]).name == SCRIPT.name
    replay_result = end(start(args, tmp_path / "elsewhere", environment(tmp_path)))
    assert replay_result.code == 0
    for step in ("Plan\n", "$ python3 run_tests.py", "1 failed", "* 85 // 100", "1 passed"):
        assert step in replay_result.out


def test_the_demo_says_before_it_starts_which_model_it_uses_and_that_it_approves_everything(
    tmp_path: Path,
) -> None:
    demo_run, project = demo(tmp_path)
    head = demo_run.out[: demo_run.out.index("Plan\n")]
    assert f"Project: {project}, a new folder\n" in head
    assert "Model: demo model: a script, no AI." in head
    assert "Approvals: the demo answers yes to each one" in head


def test_the_demo_ends_badly_when_the_test_is_not_green(tmp_path: Path) -> None:
    with FakeLLM([say("I would rather not.")]) as llm:
        model = "openai/fake"
        demo_run, _ = demo(
            tmp_path, OH_DAEMON_MODEL=model, OH_DAEMON_API_KEY="sk-x", OH_DAEMON_BASE_URL=llm.url
        )
    assert demo_run.code == 1
    head = demo_run.out[: demo_run.out.index("I would rather not.")]
    assert "Model: openai/fake, since it is set up on this machine. This run costs nothing" in head
    assert "Approvals: the demo answers yes" in head
    assert "✗ the test is green" in demo_run.out
    assert "✓ RULES.md still has your unsaved change" in demo_run.out


def test_the_demo_refuses_a_folder_that_is_there_already(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project/prices.py").write_text("mine")
    demo_run, project = demo(tmp_path)
    assert demo_run.code == 2
    assert demo_run.err.count("\n") == 1
    assert "a new folder" in demo_run.err
    assert (project / "prices.py").read_text() == "mine"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the script of a wheel, in an environment with the packages of this one but not us."""
    folder = tmp_path_factory.mktemp("wheel")
    uv, python = [Path(sys.executable).with_name(name) for name in ("uv", "python")]
    quiet = ["--quiet", "--offline", "--python"]
    build = [uv, "build", "--wheel", "--no-build-isolation", *quiet, python, "-o", folder, ROOT]
    subprocess.run(build, check=True, cwd=folder, timeout=300)
    venv = folder / "venv"
    subprocess.run([uv, "venv", *quiet, python, venv], check=True, timeout=300)
    [wheel] = folder.glob("*.whl")
    target = [*quiet, venv / "bin/python"]
    install = [uv, "pip", "install", "--no-deps", *target, wheel]
    subprocess.run(install, check=True, timeout=300)
    [site_packages] = venv.glob("lib/python3*/site-packages")
    own_packages = Path(sys.executable).parents[1] / site_packages.relative_to(venv)
    # A plain path adds the packages there without their .pth files, which would add our sources.
    (site_packages / "packages.pth").write_text(f"{own_packages}\n")
    return venv / "bin/oh-daemon"


def test_the_demo_works_when_installed_from_a_wheel(tmp_path: Path, installed: Path) -> None:
    demo_run, project = demo(tmp_path, installed)
    assert (demo_run.code, demo_run.err) == (0, "")
    assert "1 passed" in demo_run.out
    assert "* 85 // 100" in (project / "prices.py").read_text()
    where = "import oh_daemon; print(oh_daemon.__file__)"
    python = installed.with_name("python")
    import_result = subprocess.run(
        [python, "-c", where],
        check=True,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert Path(import_result.stdout.strip()).is_relative_to(installed.parents[1])
