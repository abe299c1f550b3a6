"""What git does in a sandbox, planned and landed without a daemon: the cases that need care."""

import shutil
import subprocess
import sys
import time
from collections.abc import Generator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import pytest
from git_projects import git, repository
from msgspec.structs import replace
from sandbox_workspace import Workspace, workspace_at

from oh_daemon.features.pending_changes import git_plan
from oh_daemon.features.pending_changes.apply_git import apply_git
from oh_daemon.features.pending_changes.git_plan import GitPlan, Repositories
from oh_daemon.protocol.checkpoints import RepositoryChanges, Signing
from oh_daemon.protocol.errors import ToolError


@dataclass
class ProjectGit:
    """A project with a repository, and what brings back what is done to it in a sandbox."""

    workspace: Workspace
    repositories: Repositories
    blobs: dict[str, bytes]

    @property
    def project(self) -> Path:
        return self.workspace.project

    def run(self, command: str, *, is_stale: bool = False) -> GitPlan:
        """Run a command, plan what it did to repositories, and let its files land."""
        since_ns = 0 if is_stale else time.time_ns() + 10**9
        self.workspace.view.refresh()
        self.output = self.workspace.run(command)
        collection = self.workspace.collect()
        self.workspace.view.refresh()
        plan = self.repositories.plan([(self.project, collection.git)], since_ns)
        for change in collection.changes:
            self._copy(change.name)
        names = [change.name for change in collection.changes]
        self.workspace.take_out(*names, *plan.removals.get(self.project, ()))
        return plan

    def _copy(self, name: Path) -> None:
        source = self.workspace.upper / name
        if source.is_file() or source.is_symlink():
            (self.project / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, self.project / name, follow_symlinks=False)
        elif not source.is_dir():
            (self.project / name).unlink()

    def land(self, plan: GitPlan) -> list[str]:
        repositories = [
            RepositoryChanges.model_validate_json(x.model_dump_json()) for x in plan.repositories
        ]
        apply_git(self.workspace.host, self.blobs.__getitem__, repositories)
        self.workspace.view.refresh()
        return [
            row.title for repository_changes in repositories for row in repository_changes.summary
        ]


@pytest.fixture
def project_git(tmp_path: Path) -> Generator[ProjectGit]:
    blobs: dict[str, bytes] = {}

    def put(data: bytes) -> str:
        name = sha256(data).hexdigest()
        blobs[name] = data
        return name

    with workspace_at(tmp_path) as workspace:
        repository(workspace.project)
        # For repositories that a command makes; it must not depend on the user who runs the tests.
        identity = workspace.home / ".gitconfig"
        identity.write_text("[user]\nname = Agent\nemail = a@example.org\n")
        workspace.run(f"export HOME={workspace.home} GIT_CONFIG_GLOBAL={identity}")

        def name_of(top: Path) -> str:
            return "" if top == workspace.project else str(top.relative_to(workspace.project))

        repositories = Repositories(
            workspace.view.spawner,
            workspace.host,
            put,
            Path.as_uri,
            name_of,
            [workspace.project],
        )
        yield ProjectGit(workspace, repositories, blobs)


def status(place: Path) -> str:
    git(place, "fsck", "--strict", "--no-dangling")
    return git(place, "status", "--porcelain")


def test_switching_and_the_stash(project_git: ProjectGit) -> None:
    plan = project_git.run("echo 2 > a.txt; git stash push -qm One; echo 3 > b.txt; git stash -q")
    first, second = project_git.land(plan)
    assert first.startswith("stash: WIP on main")
    assert second == "stash: On main: One"
    assert project_git.land(
        project_git.run("git switch -qc topic; git stash pop; git commit -qam Two")
    ) == [
        "new branch topic at {}: Two".format(git(project_git.project, "rev-parse", "topic")[:8]),
        "switch to topic",
        f"drop {first}",
    ]
    assert status(project_git.project) == ""
    assert git(project_git.project, "stash", "list") == "stash@{0}: On main: One"
    # The way back is known outside, too.
    git(project_git.project, "switch", "-q", "-")
    assert git(project_git.project, "symbolic-ref", "HEAD") == "refs/heads/main"
    assert project_git.land(project_git.run("git stash drop -q; git branch -D topic")) == [
        "delete branch topic",
        "drop stash: On main: One",
    ]


def test_bookkeeping_is_no_change(project_git: ProjectGit) -> None:
    looks = "touch a.txt; GIT_OPTIONAL_LOCKS=1 git status; git diff; git hash-object -w a.txt"
    back = "git commit --allow-empty -qm x; git reset -q --hard HEAD~1; git checkout -q --detach"
    plan = project_git.run(f"{looks}; {back}; git switch -q main; rm -rf .git/objects/??")
    assert (plan.repositories, plan.notes) == ([], [])
    assert plan.removals
    assert status(project_git.project) == ""


def test_the_index_comes_back_with_all_that_is_in_it(project_git: ProjectGit) -> None:
    git(project_git.project, "switch", "-qc", "theirs")
    (project_git.project / "a.txt").write_text("theirs\n")
    git(project_git.project, "commit", "-qam", "Theirs")
    git(project_git.project, "switch", "-q", "main")
    strange = "t\u00e4b\tand\nline.txt"
    command = f"echo x > '{strange}'; git add .; echo later > later.txt; git add -N later.txt"
    modes = "; chmod +x b.txt; git update-index --chmod=+x b.txt; ln -s a.txt link; git add link"
    conflict = (
        "; echo ours > a.txt; git commit -qm Ours a.txt; git merge -q theirs; rm .git/MERGE_*"
    )
    plan = project_git.run(command + modes)
    assert len(project_git.land(plan)) == 1
    assert git(project_git.project, "status", "--porcelain", "-z").split("\0")[:-1] == [
        "M  b.txt",
        " A later.txt",
        "A  link",
        f"A  {strange}",
    ]
    git(project_git.project, "reset", "-q", "--hard")
    project_git.land(project_git.run(conflict[2:]))
    stages = git(project_git.project, "ls-files", "-u").split("\n")
    assert [row.split()[2] for row in stages] == ["1", "2", "3"]


def test_what_moved_while_the_command_ran_is_kept_and_named(project_git: ProjectGit) -> None:
    plan = project_git.run("echo two > a.txt; git commit -qam Two", is_stale=True)
    assert [repository_changes.conflict for repository_changes in plan.repositories] == ["main"]
    with pytest.raises(ToolError, match="main was moved by somebody else"):
        project_git.land(plan)
    assert git(project_git.project, "log", "--format=%s") == "First"
    assert git(project_git.project, "show", "--format=%s", plan.repositories[0].refs[0].after or "")


@pytest.mark.parametrize(
    ("meanwhile", "wrong_name"),
    [
        (("commit", "-q", "--allow-empty", "-m", "Theirs"), "main"),
        (("switch", "-qc", "other"), "HEAD"),
        (("rm", "-q", "--cached", "a.txt"), "what is staged"),
    ],
)
def test_what_moves_before_the_answer_wins(
    project_git: ProjectGit, meanwhile: tuple[str, ...], wrong_name: str
) -> None:
    plan = project_git.run("echo two > a.txt; git commit -qam Two; git switch -qc topic main")
    git(project_git.project, *meanwhile)
    before = git(project_git.project, "for-each-ref"), git(project_git.project, "ls-files", "-s")
    with pytest.raises(ToolError, match=f"{wrong_name} was moved by somebody else"):
        project_git.land(plan)
    assert before == (
        git(project_git.project, "for-each-ref"),
        git(project_git.project, "ls-files", "-s"),
    )
    assert not (project_git.project / ".git/index.lock").exists()


def test_nothing_moves_while_the_users_git_works(project_git: ProjectGit) -> None:
    lock = project_git.project / ".git/index.lock"
    plan = project_git.run("echo two > a.txt; git commit -qam Two")
    lock.touch()
    with pytest.raises(ToolError, match="another git works there"):
        project_git.land(plan)
    assert git(project_git.project, "log", "--format=%s") == "First"
    assert lock.exists()
    lock.unlink()
    assert project_git.land(plan) == ["commit on main: Two"]
    assert status(project_git.project) == ""


def test_a_landing_that_was_cut_off_can_be_done_once_more(project_git: ProjectGit) -> None:
    plan = project_git.run(
        "echo two > a.txt; git commit -qam Two; git switch -qc topic; git stash list"
    )
    project_git.land(plan)
    project_git.land(plan)
    assert git(project_git.project, "log", "--format=%s", "topic") == "Two\nFirst"
    assert status(project_git.project) == ""


KILLED = """
import os, signal, sys
from pathlib import Path
from oh_daemon.system import git_lock
git_dir = Path(sys.argv[1])
descriptor = git_lock.take(git_dir)
os.write(descriptor, b"half an index")
if sys.argv[2] == "renamed":
    (git_dir / "index").write_bytes((git_dir / "index").read_bytes())
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, (git_dir / "index").read_bytes(), 0)
    (git_dir / "index.lock").rename(git_dir / "index")
if sys.argv[2] == "alive":
    print(flush=True)
    sys.stdin.read()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("moment", ["locked", "renamed"])
def test_lock_of_a_killed_daemon_is_removed_and_its_commit_applied(
    project_git: ProjectGit, moment: str
) -> None:
    git_dir = project_git.project / ".git"
    plan = project_git.run("echo two > a.txt; git commit -qam Two")
    subprocess.run([sys.executable, "-c", KILLED, git_dir, moment], check=False)
    assert (git_dir / "index.lock").exists() == (moment == "locked")
    assert project_git.land(plan) == ["commit on main: Two"]
    assert status(project_git.project) == ""
    assert not [*git_dir.glob("*.lock")]


def test_lock_of_a_living_daemon_stays(project_git: ProjectGit) -> None:
    git_dir = project_git.project / ".git"
    plan = project_git.run("echo two > a.txt; git commit -qam Two")
    words = [sys.executable, "-c", KILLED, str(git_dir), "alive"]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(ToolError, match="another git works there"):
            project_git.land(plan)
        assert (git_dir / "index.lock").read_text() == "half an index"
    assert project_git.land(plan) == ["commit on main: Two"]
    assert not [*git_dir.glob("*.lock")]


PROTECTED = ".github/workflows/ci.yml"
MOVES_TREE = (
    "R=$( (git ls-tree main; printf '040000 tree %s\\t.github\\n' $(git rev-parse main:docs))"
    " | git mktree); git update-ref refs/heads/main "
)
REUSES = {
    "a new file": f"mkdir -p .github/workflows; echo > {PROTECTED}; git add .; git commit -qm Add",
    "a tree": MOVES_TREE + "$(git commit-tree $R -p main -m Tidy)",
    "a tree, in a merge": MOVES_TREE + "$(git commit-tree $R -p main -p other -m Merged)",
    "a tree, in a root": MOVES_TREE + "$(git commit-tree $R -m Root)",
    "a tree, below another commit": (
        MOVES_TREE + "$(git commit-tree main^{tree} -p $(git commit-tree $R -p main -m A) -m B)"
    ),
    "a commit": "git update-ref refs/heads/main theirs",
    "a commit, as the parent of a merge": (
        "git update-ref refs/heads/main $(git commit-tree theirs^{tree} -p theirs -p main -m M)"
    ),
    "a blob": f"git update-index --add --cacheinfo 100644,$(git rev-parse main:a.txt),{PROTECTED}",
}


@pytest.mark.parametrize("how", REUSES)
def test_protected_file_in_git_is_named_also_if_its_objects_are_there_already(
    project_git: ProjectGit, how: str
) -> None:
    (project_git.project / "docs/workflows").mkdir(parents=True)
    (project_git.project / "docs/workflows/ci.yml").write_text("on: push\n")
    for branch, name in (("main", "docs"), ("other", "docs"), ("theirs", ".github")):
        git(project_git.project, "switch", "-qC", branch, "main")
        if name == ".github":
            git(project_git.project, "mv", "docs", ".github")
        git(project_git.project, "add", ".")
        git(project_git.project, "commit", "-q", "--allow-empty", "-m", branch)
    git(project_git.project, "switch", "-q", "main")
    plan = project_git.run(REUSES[how])
    assert [PROTECTED in each.protected_names for each in plan.repositories] == [True]


def test_the_users_merge_is_finished(project_git: ProjectGit) -> None:
    for branch, text in (("theirs", "theirs"), ("main", "ours")):
        git(project_git.project, "switch", "-qC", branch, "main")
        (project_git.project / "a.txt").write_text(f"{text}\n")
        git(project_git.project, "commit", "-qam", f"On {branch}")
    subprocess.run(["git", "merge", "-q", "theirs"], cwd=project_git.project, check=False)
    plan = project_git.run("echo both > a.txt; git add a.txt")
    assert len(project_git.land(plan)) == 1
    assert (project_git.project / ".git/MERGE_HEAD").exists()
    assert project_git.land(project_git.run("git commit -qm Merged")) == [
        "2 commits on main, the last: Merged"
    ]
    assert not (project_git.project / ".git/MERGE_HEAD").exists()
    assert status(project_git.project) == ""


def test_submodules_and_linked_work_trees(project_git: ProjectGit, tmp_path: Path) -> None:
    library = repository(tmp_path / "library")
    options = ("-c", "protocol.file.allow=always")
    git(project_git.project, *options, "submodule", "--quiet", "add", str(library), "libs/one")
    git(project_git.project, "commit", "-qm", "With a library")
    git(project_git.project, "worktree", "add", "-q", "side")
    project_git.workspace.run("echo side >> .git/info/exclude")
    command = "cd libs/one && echo two > a.txt && git commit -qam Inner && cd ../.. && git add libs"
    assert project_git.land(project_git.run(f"({command} && git commit -qm Outer)")) == [
        "commit on main: Outer",
        "commit on main in libs/one: Inner",
    ]
    inner = git(project_git.project / "libs/one", "rev-parse", "HEAD")
    assert git(project_git.project, "rev-parse", "HEAD:libs/one") == inner
    assert status(project_git.project / "libs/one") == ""
    plan = project_git.run("cd side && echo three > b.txt && git commit -qam Side && cd ..")
    assert project_git.land(plan) == ["commit on side: Side"]
    assert status(project_git.project / "side") == ""
    assert status(project_git.project) == "?? side/"


def test_a_new_repository_is_made_outside_too_but_without_what_was_set_in_it(
    project_git: ProjectGit,
) -> None:
    plan = project_git.run(
        "mkdir new; cd new; git init -qb trunk; git config core.pager evil; echo > .git/hooks/evil;"
        " echo x > x.txt; git add .; git commit -qm New; cd .."
    )
    assert project_git.land(plan) == [
        "new branch trunk in new at {}: New".format(
            git(project_git.project / "new", "rev-parse", "HEAD")[:8]
        ),
        "switch to trunk in new",
    ]
    assert plan.notes == [f"Left as it was: new/.git/hooks/evil: {git_plan.OTHERS}."]
    assert status(project_git.project / "new") == ""
    assert not (project_git.project / "new/.git/hooks/evil").exists()
    assert "evil" not in (project_git.project / "new/.git/config").read_text()
    assert project_git.land(project_git.run("git init -q . ; mkdir two; git init -q two")) == [
        "a new repository in two"
    ]


def test_what_is_no_common_repository_does_not_come_back(project_git: ProjectGit) -> None:
    plan = project_git.run("git init -q --bare bare.git; git worktree add -q tree; cd tree; cd ..")
    assert project_git.land(plan) == [
        "new branch tree at {}: First".format(git(project_git.project, "rev-parse", "main")[:8])
    ]
    assert len(plan.notes) == 2
    assert not (project_git.project / "bare.git").exists()
    assert git(project_git.project, "worktree", "list").count("\n") == 0


def test_signing_again_after_a_kill_uses_the_signed_commits(
    project_git: ProjectGit, tmp_path: Path
) -> None:
    place, key = project_git.project, tmp_path / "id"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    commits = "git commit -qam One; echo 2 > a.txt; git commit -S -qam Two; git tag -s v1 -m One"
    plan = project_git.run(f"echo 1 > a.txt; {commits}; echo 3 > a.txt; git stash -q")
    # The second program fails, so it must not be asked for a signature again.
    twice = [
        Signing(format="ssh", program=str(shutil.which("ssh-keygen")), key=str(key)),
        Signing(format="openpgp", program="false", key=""),
    ]
    refs: list[str] = []
    for signing in twice:
        changes = [each.model_copy(update={"signing": signing}) for each in plan.repositories]
        project_git.land(replace(plan, repositories=changes))
        refs.append(git(place, "rev-parse", "main", "v1", "stash"))
    assert refs[0] == refs[1]
    assert "gpgsig -----BEGIN SSH SIGNATURE-----" in git(place, "cat-file", "commit", "main")
    names = git(place, "rev-parse", "main", "v1^{commit}", "stash^1").split()
    assert len({*names}) == 1
    assert "gpgsig" not in git(place, "cat-file", "commit", "main~1")
    assert status(place) == ""


def test_renamed_commit_of_a_submodule_is_not_lost(project_git: ProjectGit, tmp_path: Path) -> None:
    place, key = project_git.project, tmp_path / "id"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    inner = repository(place / "sub")
    git(place, "add", "sub")
    git(place, "commit", "-qm", "Sub")
    before = git(place, "rev-parse", "main"), git(inner, "rev-parse", "main")
    plan = project_git.run("cd sub; git commit -S --allow-empty -qm X; cd ..; git add sub; cd -")
    signing = Signing(format="ssh", program=str(shutil.which("ssh-keygen")), key=str(key))
    changes = [
        each.model_copy(update={"signing": each.signing and signing}) for each in plan.repositories
    ]
    with pytest.raises(ToolError, match="commit there first"):
        project_git.land(replace(plan, repositories=changes))
    assert before == (git(place, "rev-parse", "main"), git(inner, "rev-parse", "main"))
