"""Which files of a project a command names: what it starts and is given, not what it shows."""

import hashlib
from pathlib import Path

import pytest

from oh_daemon.features.trust.named_files import named_files


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("./check.sh --all", {"./check.sh"}),
        ("bash hooks/lint.py && ./check.sh", {"hooks/lint.py", "./check.sh"}),
        ('"$CLAUDE_PROJECT_DIR"/check.sh', {"{folder}/check.sh"}),
        ("python3 ${OH_PROJECT_DIR}/hooks/lint.py", {"{folder}/hooks/lint.py"}),
        ("bash -c 'cd /; python3 hooks/lint.py'", {"hooks/lint.py"}),
        ("cd hooks && python3 lint.py", {"lint.py"}),
        ("CI=1 node --require=./check.sh x", {"./check.sh"}),
        ("bash < check.sh\ntrue", {"check.sh"}),
        ("echo `bash check.sh`", {"check.sh"}),
        ("echo $(bash check.sh)", {"check.sh"}),
        ("sh 'my check.sh'", {"my check.sh", "check.sh"}),
        ("sh 'check.sh", {"check.sh"}),
        ("cat check.sh | sh", set[str]()),
        ("git diff check.sh > check.sh", set[str]()),
        ("make > check.sh", set[str]()),
        ("sh ../outside.sh link.sh hooks missing.sh pipe '\0'", set[str]()),
        ("", set[str]()),
    ],
)
def test_a_command_names_the_files_that_it_runs(
    tmp_path: Path, command: str, names: set[str]
) -> None:
    folder = tmp_path / "project"
    (folder / "hooks").mkdir(parents=True)
    for name in ("check.sh", "my check.sh", "hooks/lint.py", "../outside.sh"):
        (folder / name).write_text("exit 0\n")
    (folder / "link.sh").symlink_to(tmp_path / "outside.sh")
    sha256 = hashlib.sha256(b"exit 0\n").hexdigest()
    files = named_files(command, folder, folder)
    assert files == sorted((name.replace("{folder}", str(folder)), sha256) for name in names)
