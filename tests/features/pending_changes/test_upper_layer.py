"""What commands in a real view changed: found, read, and taken out of the layer again."""

from __future__ import annotations

import hashlib
import itertools
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet
from msgspec.structs import replace
from sandbox_workspace import Workspace, workspace_at

from oh_daemon.features.pending_changes.upper_layer import Change, ChangeSet, OverlayEntry
from oh_daemon.features.sandbox.layer import read
from oh_daemon.system.proc import held_open

FILES = {"d/1": "1", "d/2": "2", "d/deep/3": "3", "e/x": "x", "e/y": "y", "run.sh": "true\n"}


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    with workspace_at(tmp_path) as workspace:
        for name, text in FILES.items():
            (workspace.project / name).parent.mkdir(parents=True, exist_ok=True)
            (workspace.project / name).write_text(text)
        for place in (workspace.project, *workspace.project.rglob("*")):
            place.chmod(0o755 if place.is_dir() else 0o644)
        (workspace.project / "link").symlink_to("a.txt")
        workspace.run("umask 022")
        yield workspace


FOLDER = OverlayEntry("folder", 0o755, 0)
LINK = OverlayEntry("link", 0o777, 0, "a.txt")


def file(size: int, mode: int = 0o644) -> OverlayEntry:
    return OverlayEntry("file", mode, size)


def change(name: str, before: OverlayEntry | None, after: OverlayEntry | None) -> Change:
    return Change(Path(name), before, after, is_stale=False)


def collect_changes(
    changes: Sequence[Change] = (),
    *,
    same: Sequence[str] = (),
    sizes: Mapping[str, int] | None = None,
    in_use: Sequence[str] = (),
) -> ChangeSet:
    return ChangeSet(
        changes=[*changes],
        same=[*map(Path, same)],
        ignored_files={Path(name): n for name, n in (sizes or {}).items()},
        git=[],
        in_use=frozenset(map(Path, in_use)),
    )


CASES: dict[str, tuple[str, Sequence[Change]]] = {
    "edit": ("echo new >> a.txt", [change("a.txt", file(6), file(10))]),
    "same size": ("sed -i s/below/ABOVE/ a.txt", [change("a.txt", file(6), file(6))]),
    "create": ("mkdir n; echo 1 > n/x", [change("n/x", None, file(2))]),
    "delete": ("rm a.txt", [change("a.txt", file(6), None)]),
    "delete a folder": (
        "rm -r d",
        [change(name, file(1), None) for name in ("d/1", "d/2", "d/deep/3")],
    ),
    "make a folder anew": (
        "rm -r d; mkdir d; echo one > d/1; mkdir d/deep",
        [
            change("d/1", file(1), file(4)),
            change("d/2", file(1), None),
            change("d/deep/3", file(1), None),
        ],
    ),
    "make an equal folder anew": (
        "cp -r d c; rm -r d; mv c d; rm d/2",
        [change("d/2", file(1), None)],
    ),
    "move a file": (
        "mv a.txt b.txt",
        [change("a.txt", file(6), None), change("b.txt", None, file(6))],
    ),
    "move a folder": (
        "mv e f",
        [
            *(change(name, file(1), None) for name in ("e/x", "e/y")),
            *(change(name, None, file(1)) for name in ("f/x", "f/y")),
        ],
    ),
    "mode of a file": ("chmod 755 run.sh", [change("run.sh", file(5), file(5, 0o755))]),
    "mode of a folder": (
        "chmod 700 d; echo one > d/1",
        [change("d", FOLDER, OverlayEntry("folder", 0o700, 0)), change("d/1", file(1), file(4))],
    ),
    "setuid, setgid and sticky": (
        "chmod 7644 run.sh; cp run.sh tool; chmod 6755 tool; mkdir -m 7755 n; chmod 3755 d",
        [change("n", None, FOLDER), change("tool", None, file(5, 0o755))],
    ),
    "no rights": (
        "chmod 000 d",
        [change("d", FOLDER, OverlayEntry("folder", 0, 0))],
    ),
    "empty folders": (
        "mkdir -p n/m; mkdir empty; rmdir empty",
        [change("n/m", None, FOLDER)],
    ),
    "links": (
        "ln -s a.txt new; ln -sf run.sh link; ln -sf a.txt run.sh",
        [
            change("link", LINK, OverlayEntry("link", 0o777, 0, "run.sh")),
            change("new", None, LINK),
            change("run.sh", file(5), LINK),
        ],
    ),
    "hard links": ("ln a.txt b.txt", [change("b.txt", None, file(6))]),
    "other": (
        "mkfifo q; python3 -c 'import socket; socket.socket(1).bind(\"s\")'",
        [
            change("q", None, OverlayEntry("other", 0o644, 0)),
            change("s", None, OverlayEntry("other", 0o755, 0)),
        ],
    ),
    "file for folder": (
        "rm -r e; echo e > e; rm a.txt; mkdir a.txt; echo x > a.txt/x",
        [
            change("a.txt", file(6), FOLDER),
            change("a.txt/x", None, file(2)),
            change("e", FOLDER, file(2)),
            change("e/x", file(1), None),
            change("e/y", file(1), None),
        ],
    ),
    "odd names": (
        r"""touch 'a b' $'new\nline' $'\xff' '*' ':(top)x' '\012'; mkdir -- -d; touch -- -d/'"'""",
        [
            change(name, None, file(0))
            for name in sorted(
                ("a b", "new\nline", os.fsdecode(b"\xff"), "*", ":(top)x", r"\012", '-d/"')
            )
        ],
    ),
    "many": (
        "mkdir m; for n in {1..300}; do echo $n > m/$n; done; sed -i s/1/2/ m/*",
        [change(f"m/{n}", None, file(len(f"{n}\n"))) for n in sorted(map(str, range(1, 301)))],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_each_change_is_found_and_taken_out_again(workspace: Workspace, case: str) -> None:
    command, changes = CASES[case]
    before = listing(workspace)
    workspace.run(command)
    collection = workspace.collect()
    assert collection.changes == changes
    assert (collection.ignored_files, collection.git, collection.in_use) == ({}, [], frozenset())
    workspace.take_out(*collection.same, *(each.name for each in changes))
    assert listing(workspace) == before
    assert workspace.collect() == collect_changes()
    assert not [path for path in workspace.upper.rglob("*") if not path.is_dir()]


def listing(workspace: Workspace) -> str:
    return workspace.run("find . -printf '%p %y %m %l\\n' -type f -exec cat {} + | sort")


def job(script: str) -> str:
    """Start a job, and wait until it has written a line."""
    return f"exec 7< <({script}); read -u 7; "


HOLDERS = {
    "nothing": "",
    "a job in the folder": job("cd d; echo; exec sleep 100"),
    "a reader": job("exec 8< d/1; echo; exec sleep 100"),
    "a job that keeps the folder open": job("exec 8< d; echo; exec sleep 100"),
    "a watcher": job('exec python3 -c "$WATCH"'),
}
WATCH = """
import ctypes, os, time
notify = ctypes.CDLL(None).inotify_init()
for name in (b"d", b"d/1", b"d/deep"):
    assert ctypes.CDLL(None).inotify_add_watch(notify, name, 0xFFF) > 0
print(flush=True)
time.sleep(100)
"""
EFFECTS = {
    "edit": "echo one > d/1",
    "replace": "echo one > new; mv new d/1",
    "delete": "rm d/1",
    "delete all": "rm -r d",
    "make anew": "rm -r d; mkdir d; echo one > d/1",
    "create": "mkdir d/new; echo x > d/new/x",
    "mode": "chmod 700 d; chmod 755 d/1",
    "no rights": "chmod 000 d",
}


def _pairs() -> Iterator[ParameterSet]:
    """Yield each effect with each holder; three of four only in `make test-full`."""
    for number, (effect, holder) in enumerate(itertools.product(EFFECTS, HOLDERS)):
        yield pytest.param(effect, holder, marks=[pytest.mark.full] if number % 4 else [])


@pytest.mark.parametrize(("effect", "holder"), [*_pairs()])
def test_what_was_taken_out_is_gone_also_where_a_process_holds_on_to_it(
    workspace: Workspace, effect: str, holder: str
) -> None:
    before = listing(workspace)
    workspace.run(f"WATCH={shlex.quote(WATCH)}; {HOLDERS[holder]}{EFFECTS[effect]}")
    collection = workspace.collect()
    workspace.take_out(*collection.same, *(each.name for each in collection.changes))
    assert listing(workspace) == before
    assert workspace.run("echo 2 > d/z; echo 2 >> d/1; cat d/1 d/z d/deep/3; rm d/z") == "12\n2\n3"
    assert workspace.collect().changes == [change("d/1", file(1), file(3))]


@pytest.mark.parametrize("way", ["", "cd n", job("cd n; echo; exec sleep 100")])
def test_what_landed_is_seen_where_it_was_made(workspace: Workspace, way: str) -> None:
    workspace.run(f"mkdir n; echo x > n/x; {way}")
    (workspace.project / "n").mkdir()
    (workspace.project / "n/x").write_text("x\n")
    collection = workspace.collect()
    assert collection == collect_changes(same=["n/x"])
    workspace.take_out(*collection.same)
    assert (
        workspace.run(f"cat {workspace.project}/n/x; cd {workspace.project}/n && cat x") == "x\nx\n"
    )
    assert workspace.collect().changes == []


def test_a_folder_that_is_only_left_over_says_nothing_of_the_disk(workspace: Workspace) -> None:
    workspace.run("echo one > d/1; echo one > d/deep/3; echo one > e/x")
    workspace.take_out(Path("d/1"), Path("d/deep/3"), Path("e/x"))
    for name in ("d/deep", "e"):
        shutil.rmtree(workspace.project / name)
    (workspace.project / "d/deep").write_text("a file now")
    (workspace.project / "d").chmod(0o700)
    workspace.view.refresh()
    workspace.run("mkdir -p .openhands; touch .openhands/conversations-of-mine")
    collection = workspace.collect()
    own_change = change(".openhands/conversations-of-mine", None, file(0))
    assert collection == collect_changes([own_change], same=["d/deep", "e"])
    workspace.take_out(own_change.name, *collection.same)
    output = workspace.run("stat -c %a d; cat d/deep; ls -A1")
    assert output == "700\na file nowa.txt\nd\nlink\nrun.sh\n"
    assert workspace.collect() == collect_changes()


def test_a_text_that_was_handed_in_is_no_change_until_a_command_edits_it(
    workspace: Workspace,
) -> None:
    workspace.run("true")
    for name in ("a.txt", "deep/down/b.txt"):
        workspace.view.inside(workspace.project).write(Path(name), b"unsaved\n", 0o644)
    digest = hashlib.sha256(b"unsaved\n").hexdigest()
    handed_in = dict.fromkeys((Path("a.txt"), Path("deep/down/b.txt")), digest)
    assert workspace.collect(handed_in) == collect_changes()
    workspace.run("chmod 755 a.txt; echo more >> deep/down/b.txt")
    assert workspace.collect(handed_in).changes == [
        change("a.txt", file(6), file(8, 0o755)),
        change("deep/down/b.txt", None, file(13)),
    ]


def test_what_is_rewritten_with_the_same_content_is_taken_out(workspace: Workspace) -> None:
    workspace.run(
        "touch a.txt; cp run.sh x; mv x run.sh; rm link; ln -s a.txt link; touch d; rm -f q"
    )
    collection = workspace.collect()
    assert collection == collect_changes(same=["a.txt", "d", "link", "run.sh"])
    workspace.take_out(*collection.same)
    assert workspace.collect() == collect_changes()


def test_the_disk_may_be_newer_than_what_a_command_began_from(workspace: Workspace) -> None:
    workspace.run("echo x >> a.txt; echo x >> run.sh")
    newest = (workspace.project / "a.txt").stat().st_ctime_ns
    for since_ns, is_stale in ((newest + 10**9, False), (newest - 10**9, True)):
        changes = workspace.collect(since_ns=since_ns).changes
        assert [each.is_stale for each in changes] == [is_stale, is_stale]


def test_what_git_ignores_stays_and_its_own_files_are_named_apart(workspace: Workspace) -> None:
    ignores = "node_modules/\n*.o\n/d/2\n"
    (workspace.project / ".gitignore").write_text(ignores)
    (workspace.project / "tracked.o").write_text("o")
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@b.c", "-C", str(workspace.project)]
    for words in (["init", "-q"], ["add", "-f", "."], ["rm", "-q", "--cached", "d/2"]):
        subprocess.run([*git, *words], check=True)
    workspace.run(
        "mkdir -p p/node_modules/{a,b} .openhands/conversations/1; touch p/node_modules/{a,b}/{1,2}"
        " p/src x.o .openhands/conversations/1/log; echo >> tracked.o; rm -r d; ln -s d n.o"
    )
    collection = workspace.collect()
    assert collection == collect_changes(
        [
            *(change(name, file(1), None) for name in ("d/1", "d/deep/3")),
            change("p/src", None, file(0)),
            change("tracked.o", file(1), file(2)),
        ],
        same=[".openhands/conversations/1/log"],
        sizes={"d/2": 1, "n.o": 1, "p/node_modules": 4, "x.o": 1},
    )
    workspace.take_out(*collection.same, *(each.name for each in collection.changes))
    assert workspace.collect() == replace(collection, changes=[], same=[])
    assert workspace.run("ls -A1 d p") == "d:\n1\ndeep\n\np:\nnode_modules\n"
    assert not (workspace.upper / ".openhands").exists()
    workspace.run("git -c user.name=A -c user.email=a@b.c commit -qm one")
    collection = workspace.collect()
    assert (collection.changes, collection.same) == ([], [])
    assert {Path(".git/index"), Path(".git/refs/heads/master")} <= {c.name for c in collection.git}
    assert all(change.name.parts[0] == ".git" for change in collection.git)


def test_a_repository_by_any_name_is_gits(workspace: Workspace) -> None:
    for name in ("bare/objects", "bare/refs", "half/refs"):
        (workspace.project / name).mkdir(parents=True)
    for name in ("bare/HEAD", "bare/config", "half/HEAD"):
        (workspace.project / name).write_text("x")
    workspace.run(
        "echo >> bare/config; mkdir half/objects; touch half/config; ln -s /x d/.git; git init -q s"
    )
    collection = workspace.collect()
    assert collection.changes == []
    assert {str(change.name) for change in collection.git} >= {
        "bare/config",
        "half/config",
        "d/.git",
        "s/.git/config",
    }


def test_what_a_job_writes_to_is_held(workspace: Workspace) -> None:
    workspace.run(job("exec 4> log 5<> a.txt 6< run.sh; echo; exec sleep 100") + "echo >> run.sh")
    workspace.run(job(f"python3 -c {shlex.quote(MAPPING)}"))
    names = ["a.txt", "d/1", "log"]
    assert held_open(workspace.root, workspace.project) == {*map(Path, names)}
    expected = [change("run.sh", file(5), file(6))]
    assert workspace.collect() == collect_changes(expected, in_use=names)


MAPPING = """
import mmap, time
with open("d/1", "r+b") as file:
    mapped = mmap.mmap(file.fileno(), 1)
print(flush=True)
time.sleep(100)
"""


def test_a_hostile_layer_leads_nowhere(workspace: Workspace) -> None:
    victim = workspace.home / "victim"
    victim.mkdir()
    (victim / "x").write_text("untouched")
    workspace.run(
        f"rm -r e d; ln -s {victim} e; ln -s {victim}/x d; mkfifo q; rm a.txt; ln -s q a.txt"
    )
    collection = workspace.collect()
    for name in ("e/x", "d", "q", "a.txt", "e"):
        with pytest.raises(OSError, match=r".*"):
            read(workspace.upper, Path(name), 100)
    workspace.take_out(Path("e/x"), *(each.name for each in collection.changes))
    assert (victim / "x").read_text() == "untouched"
    assert workspace.collect() == collect_changes()


def test_a_tree_of_any_depth_is_one_change(workspace: Workspace) -> None:
    workspace.run(
        "for n in {1..20}; do mkdir -p " + "x/" * 100 + "; cd " + "x/" * 100 + "; done; cd /"
    )
    [deep] = workspace.collect().changes
    assert (deep.before, deep.after) == (None, OverlayEntry("other", 0o755, 0))
    workspace.take_out(Path("x"))
    assert workspace.collect() == collect_changes()


def test_the_content_of_a_change_is_read_up_to_a_limit(workspace: Workspace) -> None:
    workspace.run("printf 12345 > a.txt")
    assert read(workspace.upper, Path("a.txt"), 5) == b"12345"
    with pytest.raises(OSError, match="more than 4 bytes"):
        read(workspace.upper, Path("a.txt"), 4)
