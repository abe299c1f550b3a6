from __future__ import annotations

import os
import unicodedata
from pathlib import Path

import pytest
from usual_names import (
    BUILD_FILES,
    PROJECT_ORDINARY,
    PROJECT_SECRETS,
    STEERING,
)

from oh_daemon.protocol.errors import PathOutsideWorkspaceError, ToolError
from oh_daemon.workspace.agent_files import STEERING_PATHS
from oh_daemon.workspace.paths import (
    Folders,
    guard_reason,
    looks_secret,
    path_from_uri,
    printable,
    uri_from_path,
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    (root / "src").mkdir(parents=True)
    (root / "src" / "app.py").write_text("x\n")
    (tmp_path / "secret").write_text("s\n")
    return root


@pytest.mark.parametrize(
    "name", ["a b.py", "100%.txt", "ä€😀.txt", "a#b?c.md", "x;y&z.c", "new\nline"]
)
def test_a_path_survives_the_way_to_a_uri_and_back(name: str) -> None:
    path = Path("/w") / name
    assert path_from_uri(uri_from_path(path)) == path


@pytest.mark.parametrize(
    "uri", ["untitled:Untitled-1", "vscode-remote://ssh/x", "http://h/x", "file://host/x", "", "x",
            "file:///a%00b", "file://[bad/x", "oh-diff:/x"],
)  # fmt: skip
def test_a_uri_of_another_kind_is_no_path(uri: str) -> None:
    assert path_from_uri(uri) is None


def test_every_way_to_name_a_file_inside_gives_its_real_path(root: Path) -> None:
    folders = Folders((root,))
    (root / "link.py").symlink_to("src/app.py")
    (root / "dir").symlink_to("src")
    app = root / "src" / "app.py"
    for text in ("src/app.py", "./src/../src/app.py", str(app), uri_from_path(app), "link.py",
                 "dir/app.py", f"/proc/self/root{app}"):  # fmt: skip
        assert folders.resolve(text, writing=True) == app, text
    assert folders.resolve("new/deep/file.py", writing=True) == root / "new/deep/file.py"


@pytest.mark.parametrize(
    "text",
    ["../secret", "src/../../secret", "/etc/passwd", "~/x", "~root", "out", "outdir/x", "chain",
     "/proc/self/root/etc/passwd", "/proc/self/cwd/../../../../etc/passwd", "a\0b", "", "\0",
     "file:///etc/passwd", "file:///%2e%2e/etc/passwd", "https://x/y", "untitled:1", "dangling",
     "src/../../work-evil/x"],
)  # fmt: skip
def test_a_path_that_leads_outside_is_refused(root: Path, text: str) -> None:
    (root / "out").symlink_to("../secret")
    (root / "outdir").symlink_to("/etc")
    (root / "chain").symlink_to("out")
    (root / "dangling").symlink_to("/nowhere/at/all")
    for writing in (True, False):
        with pytest.raises(PathOutsideWorkspaceError):
            Folders((root,)).resolve(text, writing=writing)


def test_a_later_folder_is_reached_by_its_absolute_path_and_said_so(
    root: Path, tmp_path: Path
) -> None:
    other_folder = tmp_path / "other"
    other_folder.mkdir()
    folders = Folders((root, other_folder))
    assert folders.resolve(str(other_folder / "x"), writing=True) == other_folder / "x"
    assert folders.relative(other_folder / "x") == other_folder / "x"
    assert folders.relative(root / "src") == Path("src")


def test_no_open_folder_means_no_path() -> None:
    with pytest.raises(PathOutsideWorkspaceError, match="no folder is open"):
        Folders(()).resolve("x", writing=False)


def test_a_folder_opened_through_a_link_keeps_its_name_for_the_editor(
    root: Path, tmp_path: Path
) -> None:
    open_folder = tmp_path / "opened"
    open_folder.symlink_to(root)
    folders = Folders((open_folder,))
    real = folders.resolve("src/app.py", writing=True)
    assert real == root / "src/app.py"
    assert folders.as_opened(real) == open_folder / "src/app.py"


@pytest.mark.parametrize(
    "text",
    [".git/hooks/pre-commit", ".git", ".GIT/config", "src/.git/config", "git~1/config", ".git./x",
     ".g\u200cit/config", "src/../.git/config", ".git/hooks/pre-commit.sample", "vcs/config",
     ".openhands/conversations/c1/events.jsonl", ".OpenHands/Conversations/x"],
)  # fmt: skip
def test_gits_files_and_our_own_log_are_closed_to_tools(root: Path, text: str) -> None:
    (root / ".git" / "hooks").mkdir(parents=True)
    (root / "vcs").symlink_to(".git")
    for writing in (True, False):
        with pytest.raises(PathOutsideWorkspaceError, match="is closed to"):
            Folders((root,)).resolve(text, writing=writing)


PROTECTED = (
    ".github/workflows/ci.yml", ".vscode/settings.json", ".idea/x.xml", ".devcontainer/d.json",
    ".envrc", ".husky/pre-commit", ".openhands/settings.json", ".agents/skills/x/SKILL.md",
    "AGENTS.md", "CLAUDE.md", "package-lock.json", "sub/uv.lock", "Cargo.lock", ".env",
    "sub/.env.production", "keys/server.pem", "id_rsa", ".npmrc", ".gitmodules", ".mcp.json",
    "x.code-workspace", ".aws/credentials",
)  # fmt: skip


@pytest.mark.parametrize("text", PROTECTED)
def test_a_protected_path_asks_in_every_disguise(root: Path, text: str) -> None:
    folders = Folders((root,))
    disguises = (text, "./" + text, "src/../" + text, text.upper(), text.title(),
                 str(root / text), uri_from_path(root / text), text + ".",
                 text[:2] + "\u200b" + text[2:],
                 unicodedata.normalize("NFD", text), text.replace("k", "\u212a"))  # fmt: skip
    for disguise in disguises:
        assert folders.is_protected(disguise) is not None, disguise


def test_a_link_to_a_protected_file_or_called_like_one_asks(root: Path) -> None:
    folders = Folders((root,))
    (root / ".vscode").mkdir()
    (root / ".vscode" / "settings.json").write_text("{}")
    (root / "notes.txt").symlink_to(".vscode/settings.json")
    (root / "harmless").mkdir()
    (root / ".devcontainer").symlink_to("harmless")
    assert "an editor or an agent" in str(folders.is_protected("notes.txt"))
    assert "an editor or an agent" in str(folders.is_protected(".devcontainer/devcontainer.json"))
    assert "an editor or an agent" in str(folders.is_protected("harmless/devcontainer.json"))


def test_a_second_name_of_a_file_asks_because_it_may_lie_outside(
    root: Path, tmp_path: Path
) -> None:
    os.link(tmp_path / "secret", root / "inner")
    assert str(Folders((root,)).is_protected("inner")) == (
        "inner has a second name (hard link), perhaps outside the folders, and that changes too"
    )
    assert Folders((root,)).is_protected("inner", writing=False) is None


@pytest.mark.parametrize("text", ["src/app.py", "environment.py", "keyboard.py", "README.md",
                                  ".env.example", "git/x.py"])  # fmt: skip
def test_an_ordinary_path_does_not_ask(root: Path, text: str) -> None:
    assert Folders((root,)).is_protected(text) is None


@pytest.mark.parametrize("kind", PROJECT_SECRETS)
def test_usual_secret_file_of_project_is_secret(kind: str) -> None:
    names = PROJECT_SECRETS[kind].split()
    assert [name for name in names if not looks_secret(name)] == []
    assert [name for name in names if "/" not in name and not looks_secret(f"sub/{name}")] == (
        ["auth.json"] if kind == "tool" else []
    )


def test_ordinary_file_of_project_is_not_secret() -> None:
    assert [name for name in PROJECT_ORDINARY.split() if looks_secret(name)] == []


@pytest.mark.parametrize("kind", STEERING)
def test_file_that_steers_tools_is_protected(kind: str) -> None:
    names = STEERING[kind].split()
    assert [name for name in names if guard_reason(name) is None] == []
    assert [name for name in names if guard_reason(f"sub/{name.upper()}") is None] == []


def test_instruction_file_is_protected() -> None:
    assert [name for name in STEERING_PATHS if guard_reason(name) is None] == []


def test_build_file_is_not_protected() -> None:
    assert [name for name in BUILD_FILES.split() if guard_reason(name) is not None] == []


def test_reading_asks_for_secrets_only(root: Path) -> None:
    folders = Folders((root,))
    assert folders.is_protected(".env", writing=False) == ".env holds what may be secret"
    assert folders.is_protected("package-lock.json", writing=False) is None


def test_holding_a_folder_never_follows_a_link(root: Path) -> None:
    folders = Folders((root,))
    path = folders.resolve("src/app.py", writing=True)
    with folders.holding(path) as descriptor:
        assert Path(f"/proc/self/fd/{descriptor}").readlink() == root / "src"
    (root / "src").rename(root / "moved")
    (root / "src").symlink_to("/etc")
    with pytest.raises(PathOutsideWorkspaceError), folders.holding(path):
        pass
    with pytest.raises(FileNotFoundError), folders.holding(root / "none" / "x"):
        pass
    with pytest.raises(PathOutsideWorkspaceError), folders.holding(root):
        pass


def test_hidden_characters_of_a_name_are_shown() -> None:
    assert printable("a\u202egnp.exe") == "a\\u202egnp.exe"
    assert printable("tab\there\x1b]52") == "tab\\there\\x1b]52"
    assert printable("ä漢😀") == "ä漢😀"


@pytest.mark.parametrize(
    ("text", "why"),
    [("d/" * 2100 + "x", "4,095 are possible"), ("n" * 256, "a name has 256 bytes")],
)
def test_a_path_that_no_file_can_have_is_refused_before_a_folder_is_made(
    root: Path, text: str, why: str
) -> None:
    with pytest.raises(ToolError, match=why) as error_info:
        Folders((root,)).resolve(text, writing=True)
    assert len(error_info.value.message) < 300


def test_the_folders_down_to_a_path_are_opened_without_following_a_link(root: Path) -> None:
    folders = Folders((root,))
    (root / "src" / "link").symlink_to("..")
    folders_found = [folder for folder, _ in folders.down_to(root / "src" / "link" / "src")]
    assert folders_found == [root, root / "src"]
    assert [folder for folder, _ in folders.down_to(root / "src" / "app.py")] == folders_found
    assert list(folders.down_to(root.parent)) == []
