"""Rule files of all usual tools reach the agent, each once, with their imports and conditions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from places import REPO
from scripted_editor import MemoryBlobs, ScriptedEditor

from oh_daemon.common.cancel import CancelToken
from oh_daemon.features.instructions import context_files
from oh_daemon.features.instructions.agent_files import find_agents
from oh_daemon.features.instructions.context_files import ContextFiles
from oh_daemon.features.instructions.rules import find_imports
from oh_daemon.features.skills.files import find_skills
from oh_daemon.kernel.state import State
from oh_daemon.protocol.items import Location
from oh_daemon.workspace.agent_files import (
    AGENT_FOLDERS,
    RULE_FILES,
    RULE_FOLDERS,
    SKILL_FOLDERS,
    USER_RULE_FILES,
)
from oh_daemon.workspace.concurrent_edits import PathLocks
from oh_daemon.workspace.documents import Documents
from oh_daemon.workspace.edit_history import EditHistory
from oh_daemon.workspace.paths import Folders


class Project:
    """A folder below a home folder, and the rules of one conversation there."""

    def __init__(self, base: Path, *, is_trusted: bool = True) -> None:
        self.home = base / "home"
        self.root = self.home / "work/project"
        self.root.mkdir(parents=True)
        self.folders = Folders((self.root,))
        history = EditHistory(self.folders, MemoryBlobs())
        documents = Documents(self.folders, ScriptedEditor(), history, PathLocks())
        self.rules = ContextFiles(documents, self.home, lambda: is_trusted)

    def write(self, texts: Mapping[str, str]) -> None:
        for name, text in texts.items():
            path = self.home / name[2:] if name.startswith("~/") else self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def in_prompt(self) -> dict[str, str]:
        return {file.name: file.text for file in self.rules.of_roots()}

    def for_file(self, name: str) -> dict[str, str]:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        files = self.rules.texts_for((Location(uri=path.as_uri()),), CancelToken())
        return {file.name: file.text for file in files}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.mark.parametrize("row", RULE_FILES, ids=lambda row: row.path)
def test_rule_file_is_read_once_in_each_folder_and_protected(project: Project, row: Any) -> None:
    project.write({row.path: "Top rule.", f"web/{row.path}": "Web rule."})
    assert project.in_prompt() == {row.path: "Top rule."}
    assert project.for_file("web/a.js") == {f"web/{row.path}": "Web rule."}
    assert project.for_file("web/b.js") == {}
    assert project.folders.is_protected(row.path) is not None


@pytest.mark.parametrize("row", USER_RULE_FILES, ids=lambda row: row.path)
def test_rule_file_of_the_user_holds_for_all_projects(project: Project, row: Any) -> None:
    project.write({f"~/{row.path}": "My rule.", "AGENTS.md": "Its rule."})
    assert project.in_prompt() == {f"~/{row.path}": "My rule.", "AGENTS.md": "Its rule."}


def test_override_is_read_in_place_of_the_file_beside_it(project: Project) -> None:
    project.write({"AGENTS.md": "Old.", "AGENTS.override.md": "New.", "CLAUDE.md": "More."})
    project.write({"web/AGENTS.md": "Web.", "api/AGENTS.override.md": "", "api/AGENTS.md": "Api."})
    assert project.in_prompt() == {"AGENTS.override.md": "New.", "CLAUDE.md": "More."}
    assert project.for_file("web/a") == {"web/AGENTS.md": "Web."}
    assert project.for_file("api/a") == {"api/AGENTS.md": "Api."}


CONDITIONS: Mapping[str, Mapping[str, str]] = {
    ".claude/rules": {"plain": "", "some": 'paths: ["src/**/*.{ts,tsx}"]'},
    ".clinerules": {"plain": "", "some": 'paths: ["src/**/*.{ts,tsx}", "lib/**"]'},
    ".cursor/rules": {
        "plain": "alwaysApply: true",
        "some": "description: T\nglobs: src/**/*.{ts,tsx}, *.vue\nalwaysApply: false",
        "described": "description: Our API: how it looks\nglobs:\nalwaysApply: false",
        "manual": "alwaysApply: false",
    },
    ".github/instructions": {"plain": 'applyTo: "**"', "some": 'applyTo: "src/**/*.ts,**/*.tsx"'},
    ".windsurf/rules": {
        "plain": "trigger: always_on",
        "some": "trigger: glob\nglobs: src/**/*.tsx",
        "described": "trigger: model_decision\ndescription: Our API: how it looks",
        "manual": "trigger: manual\ndescription: By hand",
    },
}
"""By folder: front matter of a rule that always holds, one for some files, and so on."""


@pytest.mark.parametrize("row", RULE_FOLDERS, ids=lambda row: row.path)
def test_rule_of_a_folder_comes_when_its_front_matter_says(project: Project, row: Any) -> None:
    heads = CONDITIONS[row.path]
    names = {kind: f"{row.path}/{kind}{row.suffix}" for kind in heads}
    for kind, head in heads.items():
        text = f"---\n{head}\n---\nThe {kind} rule.\n" if head else f"The {kind} rule.\n"
        project.write({names[kind]: text})
    prompt = project.in_prompt()
    assert prompt.pop(names["plain"]).strip() == "The plain rule."
    description = prompt.pop(names.get("described", ""), "Our API: how it looks")
    assert "Our API: how it looks" in description
    assert "The described rule." not in description
    assert prompt == {}
    assert project.for_file("docs/a.md") == {}
    assert {n: t.strip() for n, t in project.for_file("src/x/a.tsx").items()} == {
        names["some"]: "The some rule."
    }
    assert project.for_file("src/x/b.tsx") == {}
    assert all(project.folders.is_protected(name) for name in names.values())


def test_imports_are_read_once_each_relative_to_their_file(project: Project) -> None:
    project.write(
        {
            "CLAUDE.md": "See @AGENTS.md and @docs/rules.md, @~/.claude/mine.md. Ask @alice.\n",
            "AGENTS.md": "Use tabs.\n",
            "docs/rules.md": "@more/style.md\n- @../CLAUDE.md @rules.md\nSay @types/node.\n",
            "docs/more/style.md": "No emoji. @../../AGENTS.md\n",
            "~/.claude/mine.md": "Be short.\n",
        }
    )
    texts = project.in_prompt()
    assert [*texts] == [
        *("AGENTS.md", "CLAUDE.md", "docs/rules.md", "docs/more/style.md", "~/.claude/mine.md")
    ]
    assert "not imported" not in "".join(texts.values())
    assert project.folders.is_protected("docs/more/style.md") == (
        "docs/more/style.md holds instructions that the agent follows"
    )
    assert project.folders.is_protected("docs/other.md") is None
    # A daemon that goes on with the conversation knows the files from its log.
    other = Project(project.home / "again")
    agent: Any = {"contextFiles": [*texts]}
    other.rules.restore(State("c", agent=agent))
    assert other.folders.is_protected("docs/more/style.md") is not None


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("@a.md\n", ["a.md"]),
        ("- Read @./a.md, @b.md: and (@c.md)", ["./a.md", "b.md"]),
        ("Write to me@example.com or `@a.md` or ``@b.md ` @c.md`` @d.md", ["d.md"]),
        ("```\n@a.md\n```\n@b.md\n~~~ts\n@c.md\n```\n~~~~\n@d.md", ["b.md", "d.md"]),
        ("- list\n  ```sh\n  npm i @x/y.md\n  ```\n  @a.md", ["a.md"]),
        ("a ` stray\n\n@a.md and ` another", ["a.md"]),
        ("@my\\ notes.md @a.md#part @a.md", ["my notes.md", "a.md"]),
        ("x " + "`" * 999 + " @a.md", ["a.md"]),
    ],
)
def test_import_is_a_word_outside_of_code(text: str, paths: list[str]) -> None:
    assert [path for path in find_imports(text) if path.endswith(".md")] == paths


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("@none.md", "there is no file 'none.md'"),
        ("@.env", "it may hold secrets"),
        ("@secret.md", "it may hold secrets"),
        ("@.git/config.md", "git's own files"),
        ("@folder/", "is a folder"),
        ("@alice", None),
        ("@types/node", None),
        ("@picture.png", "not UTF-8"),
        ("@/etc/passwd.d", "outside the open folders and the home folder"),
        ("@../../../x.md", "outside the open folders and the home folder"),
        ("@outside.md", "outside the open folders and the home folder"),
        ("@~/.ssh/id.md", "it may hold secrets"),
        ("@~/.netrc", "only .md and .txt files"),
        ("@~/key.md", "only .md and .txt files"),
        ("@~/none.md", "No such file"),
    ],
)
def test_import_that_is_not_read_is_listed_with_the_reason(
    project: Project, word: str, reason: str | None
) -> None:
    project.write({"CLAUDE.md": f"Rule. {word}", ".env": "KEY=1", ".git/config.md": "x"})
    project.write({"~/.ssh/id.md": "KEY", "~/.netrc": "KEY", "~/key": "KEY", "folder/a": "a"})
    (project.root / "picture.png").write_bytes(b"\x89PNG\0\0")
    (project.home.parent / "x.md").write_text("KEY")
    (project.root / "outside.md").symlink_to(project.home.parent / "x.md")
    (project.root / "secret.md").symlink_to(project.root / ".env")
    (project.home / "key.md").symlink_to(project.home / "key")
    texts = project.in_prompt()
    assert [*texts] == ["CLAUDE.md"]
    match = re.fullmatch(r"Rule\. \S+(?:\n\[not imported: (.*)\])?", texts["CLAUDE.md"])
    assert match is not None
    assert (match[1] is None) == (reason is None)
    assert (reason or "") in (match[1] or "")
    assert "KEY" not in str(texts)


def test_files_of_an_untrusted_folder_import_nothing_of_the_home_folder(tmp_path: Path) -> None:
    project = Project(tmp_path, is_trusted=False)
    project.write({"CLAUDE.md": "@a.md @~/b.md", "a.md": "A.", "~/b.md": "B."})
    project.write({"~/.claude/CLAUDE.md": "Mine. @../b.md"})
    texts = project.in_prompt()
    assert [*texts] == ["~/.claude/CLAUDE.md", "~/b.md", "CLAUDE.md", "a.md"]
    assert "[not imported: @~/b.md: it is outside the folder" in texts["CLAUDE.md"]


def test_imports_end_at_a_depth_and_all_texts_at_a_size(project: Project) -> None:
    project.write({"CLAUDE.md": "@0.md"})
    project.write({f"{n}.md": f"Level {n}. @{n + 1}.md" for n in range(9)})
    texts = project.in_prompt()
    assert [*texts] == ["CLAUDE.md", *(f"{n}.md" for n in range(5))]
    assert texts["4.md"] == "Level 4. @5.md\n[not imported: @5.md: beyond 5 levels or 50 files]"

    wide = Project(project.home / "wide")
    wide.write({"CLAUDE.md": " ".join(f"@{n}.md" for n in range(60))})
    wide.write({f"{n}.md": f"{n} " * (16 << 10) for n in range(60)})
    texts = wide.in_prompt()
    assert len(texts) == 51
    assert sum(map(len, texts.values())) < context_files.MAX_TOTAL_CHARS + 51 * 200
    assert "[not read, since all rules have more than 131,072" in texts["9.md"]


def test_skills_and_agents_of_claude_code_are_found(tmp_path: Path) -> None:
    project = Project(tmp_path)
    for place in ("", "~/"):
        for folder in SKILL_FOLDERS:
            text = f"---\nname: {folder[1:7]}{place[:1]}\ndescription: S\n---\nDo."
            project.write({f"{place}{folder}/s{len(place)}/SKILL.md": text})
        for folder in AGENT_FOLDERS:
            text = f"---\nname: {folder[1:7]}{place[:1]}\ndescription: A\n---\nDo."
            project.write({f"{place}{folder}/a.md": text})
    project.write({".claude/skills/README-of-mine.md": "No skill."})

    def names(*, is_trusted: bool) -> tuple[set[str], set[str]]:
        skills = find_skills([project.root], project.home, lambda _folder: is_trusted)
        agents = find_agents([project.root] if is_trusted else [], project.home)
        usable = {skill.path for skill in skills if skill.problem is None}
        return {p.parts[-4] for p in usable}, {str(agent.path) for agent in agents}

    skills, agents = names(is_trusted=True)
    assert ".claude" in skills
    assert str(project.root / ".claude/agents/a.md") in agents
    assert str(project.home / ".claude/agents/a.md") in agents
    _, of_untrusted = names(is_trusted=False)
    assert of_untrusted == {str(project.home / folder / "a.md") for folder in AGENT_FOLDERS}


def test_each_row_of_the_table_is_documented() -> None:
    page = (REPO / "docs/skills.md").read_text()
    folders = [*(row.path for row in RULE_FOLDERS), *SKILL_FOLDERS, *AGENT_FOLDERS]
    user_files = [f"~/{row.path}" for row in USER_RULE_FILES]
    names = [*(row.path for row in RULE_FILES), *user_files, *folders]
    assert [name for name in names if f"`{name}" not in page] == []
