"""Chooses the tests of what changed: `make test-changed` runs those whose paths this prints.

    .venv/bin/python tests/support/changed.py [BASE]

BASE is a commit, by default the merge base with origin/main, or HEAD~1 where there is none. Changes
in the working tree count too.
"""

import subprocess
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping

from places import REPO, TESTS

EVERYTHING = ("tests/support/", "tests/conftest.py", "pyproject.toml", "requirements")
"""A change in a path that begins so runs all tests."""
DOCUMENTS = ("tests/protocol", "tests/test_repository.py")
BESIDE: dict[str, tuple[str, ...]] = {
    ".ci/": ("tests/packaging",),
    ".github/": ("tests/packaging",),
    "clients/": ("tests/clients", "tests/editors/vscode"),
    "editors/neovim/": ("tests/editors/neovim",),
    "editors/vscode/": ("tests/editors/vscode", "tests/frontends/serve"),
    "examples/": ("tests/conformance", "tests/frontends/library"),
    "oh_daemon/protocol/": ("tests/clients", "tests/editors"),
    "oh_schema/": DOCUMENTS,
    "packaging/": ("tests/packaging",),
}
"""Start of a path -> the tests of it that do not follow from an import."""
COMPOSITION = "conversations/"
"""It imports every feature, and each frontend imports it, so a change of a feature would run all.

What changes below is followed up to its modules only; the smoke tests try the frontends.
"""
_SMOKE: dict[str, tuple[str, ...]] = {
    "conversations/test_conversations.py": (
        "test_a_start_says_everything_and_happens_once_per_request_id",
    ),
    "features/approval/test_approvals.py": (
        "test_a_risky_command_waits_for_the_exact_answer_and_runs_once",
        "test_hunks_left_out_of_an_edit_are_not_written_and_the_model_is_told",
    ),
    "frontends/lsp/test_methods.py": ("test_output_of_a_running_command_is_streamed",),
    "kernel/test_turns.py": ("test_a_message_runs_a_turn_to_its_end",),
}
SMOKE = tuple(f"tests/{file}::{name}" for file, names in _SMOKE.items() for name in names)
"""Start, message, command, edit and approval, over the wire."""


def choose(
    changed: Iterable[str], importers: Mapping[str, Collection[str]], test_files: Collection[str]
) -> list[str]:
    """Return the paths of the tests to run, for pytest.

    `changed` holds paths in the repository, `importers` the modules that import a module, both as
    "kernel/turns", and `test_files` all files below tests/ that exist.
    """
    changed = [*changed]
    if any(name.startswith(EVERYTHING) for name in changed):
        return ["tests"]
    modules = {module for name in changed for module in _modules_of(name, importers)}
    candidates = {_folder_of(module) for module in _with_importers(modules, importers)}
    for name in changed:
        candidates.update(
            path for start in BESIDE if name.startswith(start) for path in BESIDE[start]
        )
        if name.endswith(".md"):
            candidates.update(DOCUMENTS)
        if name.startswith("tests/"):
            candidates.add(_tests_with(name, test_files))
    chosen = {path for path in candidates if any(_lies_in(file, path) for file in test_files)}
    wide = {
        path for path in (*chosen, *SMOKE) if not any(_is_below(path, other) for other in chosen)
    }
    return sorted(wide)


def _tests_with(name: str, test_files: Collection[str]) -> str:
    """Return a test file itself; for a helper or data, the next folder above it that has tests."""
    folder, _, file = name.rpartition("/")
    if file.startswith("test_"):
        return name
    while not any(_is_below(test, folder) for test in test_files):
        folder = folder.rpartition("/")[0]
    return folder


def _modules_of(name: str, importers: Mapping[str, Collection[str]]) -> Iterator[str]:
    """Yield the module in a file; for another file of the package, the modules in its folder."""
    package, _, path = name.partition("/")
    if package == "oh_daemon":
        folder = path.rpartition("/")[0]
        yield path.removesuffix(".py")
        if not path.endswith(".py"):
            yield from (module for module in importers if module.rpartition("/")[0] == folder)


def _with_importers(
    modules: Collection[str], importers: Mapping[str, Collection[str]]
) -> Iterator[str]:
    seen, todo = {*modules}, [*modules]
    while todo:
        yield (module := todo.pop())
        if module in modules or not module.startswith(COMPOSITION):
            new = {*importers.get(module, ())} - seen
            seen |= new
            todo += new


def _folder_of(module: str) -> str:
    """Return the folder of a module's tests, such as "tests/features/edit"."""
    module = {"__init__": "frontends/library/", "__main__": "frontends/cli/"}.get(module, module)
    words = module.split("/")[:-1]
    depth = 2 if words[:1] in (["features"], ["frontends"]) else 1
    return "/".join(("tests", *words[:depth]))


def _lies_in(file: str, path: str) -> bool:
    return file == path or _is_below(file, path)


def _is_below(path: str, other: str) -> bool:
    return path.startswith((f"{other}/", f"{other}::"))


def _importers() -> dict[str, set[str]]:
    # `tests/` is on the path of no other program, and the rule book takes a second to load.
    sys.path.append(str(TESTS))
    from test_layout import _imports  # noqa: PLC0415

    importers = defaultdict[str, set[str]](set)
    for module, _, target in _imports():
        importers[target].add(module)
    return importers


def _git(*words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=REPO, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.splitlines()


def _default_base() -> str:
    is_here = _git("branch", "--remotes", "--list", "origin/main")
    return _git("merge-base", "HEAD", "origin/main")[0] if is_here else "HEAD~1"


def main() -> None:
    [base] = sys.argv[1:] or [_default_base()]
    untracked = _git("ls-files", "--others", "--exclude-standard")
    changed = [*_git("diff", "--name-only", "--no-renames", base), *untracked]
    test_files = [path.relative_to(REPO).as_posix() for path in TESTS.rglob("test_*.py")]
    sys.stdout.writelines(f"{path}\n" for path in choose(changed, _importers(), test_files))


if __name__ == "__main__":
    main()
