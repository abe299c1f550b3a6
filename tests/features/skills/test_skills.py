"""How skill files are read, what triggers a skill, and what becomes of its text."""

from pathlib import Path
from typing import Any

import pytest

from oh_daemon.common.cancel import CancelToken
from oh_daemon.common.masking import Masker
from oh_daemon.features.skills import files as skill_files
from oh_daemon.features.skills.files import MAX_BYTES, find_skills, output_of
from oh_daemon.features.skills.prompts import (
    Skill,
    Use,
    filled_in,
    has_word,
    prompt_sections,
    uses_in,
)
from oh_daemon.protocol.composing import SkillKind
from oh_daemon.system.spawner import Spawner


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def find_by_name(
    folder: Path, *, home: Path | None = None, is_trusted: bool = True
) -> dict[str, Skill]:
    return {s.name: s for s in find_skills([folder], home, lambda _folder: is_trusted)}


@pytest.mark.parametrize(
    ("frontend", "kind"),
    [
        ("description: How we release", "agent"),
        ("triggers: [release, ship it]", "keyword"),
        ("triggers: release, ship it", "keyword"),
        ("triggers: ['/release']", "task"),
        ("inputs: [{name: version}]", "task"),
        ("type: task", "task"),
        ("paths: ['src/**/*.py', '*.{md,txt}']", "path"),
        ("trigger: {type: keyword, keywords: [release]}", "keyword"),
        ("trigger:\n  type: task", "task"),
        ("trigger:\n  type: task\n  keywords: [/ship]", "task"),
        ("trigger: {type: always}", "always"),
    ],
)
def test_the_front_matter_says_what_sets_a_skill_off(
    tmp_path: Path, frontend: str, kind: SkillKind
) -> None:
    write(tmp_path / ".agents/skills/release/SKILL.md", f"---\n{frontend}\n---\nTag first.\n")
    [skill] = find_by_name(tmp_path).values()
    assert (skill.name, skill.kind, skill.problem) == ("release", kind, None)
    assert skill.text == "Tag first.\n"


def test_a_nested_trigger_sets_off_what_the_flat_one_does(tmp_path: Path) -> None:
    skills = tmp_path / ".agents/skills"
    servers = "mcp_tools:\n  mcpServers:\n    pg: {command: uvx, args: [server]}\n"
    front_matter = "trigger:\n  type: keyword\n  keywords: [database, SQL]\n"
    write(skills / "postgres.md", f"---\nname: postgres\n{front_matter}{servers}---\nRead only.\n")
    [skill] = find_by_name(tmp_path).values()
    assert (skill.kind, skill.triggers) == ("keyword", ("database", "SQL"))
    assert skill.starts == ("MCP server pg: uvx server",)
    content = [{"type": "text", "text": "Which sql is slow?"}]
    message_item: Any = {
        "id": "i",
        "kind": "userMessage",
        "status": "completed",
        "content": content,
    }
    assert uses_in([message_item], [skill]) == [Use("postgres", "for the word 'SQL'")]


def test_a_plain_file_is_always_on_and_words_stay_words(tmp_path: Path) -> None:
    skills = tmp_path / ".openhands/skills"
    write(skills / "style.md", "Use tabs.\n")
    write(skills / "on.md", "---\r\ntriggers: [on, 2026-01-01, 1.0]\r\n---\r\nText\r\n")
    style, on = find_by_name(tmp_path)["style"], find_by_name(tmp_path)["on"]
    assert (style.kind, style.text) == ("always", "Use tabs.\n")
    assert on.triggers == ("on", "2026-01-01", "1.0")


def test_of_one_name_the_nearest_counts_and_an_untrusted_one_hides_none(tmp_path: Path) -> None:
    home, top = tmp_path / "home", tmp_path / "shop"
    inner = top / "web"
    (top / ".git").mkdir(parents=True)
    for base in (home, top, inner):
        write(base / ".agents/skills/deploy/SKILL.md", f"Deploy {base.name}.")
    write(top / ".openhands/microagents/ship.md", "Ship.")
    write(tmp_path / ".agents/skills/other/SKILL.md", "Above the repository.")
    trusted_skills = find_by_name(inner, home=home)
    assert {name: skill.text for name, skill in trusted_skills.items()} == {
        "deploy": "Deploy web.",
        "ship": "Ship.",
    }
    untrusted_skills = find_by_name(inner, home=home, is_trusted=False)
    assert untrusted_skills["deploy"].text == "Deploy home."
    assert untrusted_skills["ship"].problem == skill_files.UNTRUSTED


def test_another_user_cannot_put_skills_above_the_folder_as_in_tmp(tmp_path: Path) -> None:
    shared_folder = tmp_path / "shared"
    own = shared_folder / "project"
    (shared_folder / ".git").mkdir(parents=True)
    for base in (shared_folder, own):
        write(base / f".agents/skills/of-{base.name}/SKILL.md", f"Run {base.name}.")
    assert find_by_name(own).keys() == {"of-shared", "of-project"}
    shared_folder.chmod(0o1777)
    assert find_by_name(own).keys() == {"of-project"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("---\ndescription: Use it: always\n---\n", "line 2: mapping values are not allowed"),
        ("---\nname: x\n", "has no end"),
        ("---\nname: '../x'\n---\n", "the name"),
        ("---\ntriggers: {a: b}\n---\n", "triggers: "),
        ("---\n- a list\n---\n", "front matter: "),
        ("---\npaths: ['a{b']\n---\n", "a{b"),
        (f"---\na: {'[' * 8000}{']' * 8000}\n---\n", "its front matter"),
        ("---\na: &a [x, x]\ntriggers: [*a, *a]\n---\n", "triggers.0: "),
        ("---\nmcpServers: {shop: {}}\n---\n", "mcpServers.shop: "),
        ("---\ntrigger: {type: keywrod}\n---\n", "trigger.type: must be 'keyword', 'task' or"),
        ("---\ntrigger: release\n---\n", "trigger: must be an object"),
        ("---\ntrigger: {type: keyword}\n---\n", "trigger: a keyword needs `keywords`"),
        ("---\ntrigger: {type: always, keywords: [x]}\n---\n", "trigger: what is always on"),
        ("---\ntrigger: {type: task, words: [x]}\n---\n", "trigger.words: "),
        ("---\nmcp_tools: {stdio_servers: []}\n---\n", "mcp_tools.stdio_servers: "),
        ("---\nmcp_tools: [pg]\n---\n", "mcp_tools: must be an object"),
        ("a\0b", "is not a text file"),
        ("x" * (skill_files.MAX_FILE_BYTES + 1), "it has more than 262,144 bytes"),
    ],
)
def test_a_broken_file_is_a_skill_with_a_problem(tmp_path: Path, text: str, problem: str) -> None:
    write(tmp_path / ".agents/skills/x/SKILL.md", text)
    [skill] = find_by_name(tmp_path).values()
    assert skill.is_broken
    assert problem in (skill.problem or "")


def test_a_link_out_of_the_project_is_not_followed(tmp_path: Path) -> None:
    write(tmp_path / "secret.md", "Nobody may read this.")
    project = tmp_path / "shop"
    (project / ".agents/skills").mkdir(parents=True)
    (project / ".agents/skills/x.md").symlink_to(tmp_path / "secret.md")
    [skill] = find_by_name(project).values()
    assert (skill.text, skill.is_broken) == ("", True)


def test_servers_come_from_front_matter_and_files_and_know_their_folder(tmp_path: Path) -> None:
    folder = tmp_path / ".agents/skills/shop"
    server = '{"mcpServers": {"a": {"command": "python", "args": ["${SKILL_ROOT}/a.py"]}}}'
    write(folder / ".mcp.json", server)
    write(
        folder / "SKILL.md",
        "---\nmcp_tools:\n  mcpServers:\n    b: {url: 'http://localhost:1/mcp'}\n---\nText",
    )
    [skill] = find_by_name(tmp_path).values()
    assert skill.starts == (
        f"MCP server a: python {folder}/a.py",
        "MCP server b: http://localhost:1/mcp",
    )


@pytest.mark.parametrize(
    ("text", "word", "expected"),
    [
        ("Please RELEASE it.", "release", True),
        ("prerelease", "release", False),
        ("ship\nit", "ship it", False),
        ("run c++!", "c++", True),
        ("über uns", "ber", False),
    ],
)
def test_a_keyword_is_a_whole_word(text: str, word: str, expected: bool) -> None:
    assert has_word(text, word) is expected


KEYWORD = Skill("git", "keyword", "project", Path("/git.md"), triggers=("git", "commit"))
TASK = Skill("deploy", "task", "project", Path("/deploy.md"), triggers=("/ship",))


def user_message(*parts: Any) -> Any:
    return {"kind": "userMessage", "id": "s", "content": parts}


def words(text: str) -> Any:
    return {"type": "text", "text": text}


def skill_use(name: str) -> Any:
    return {"kind": "notice", "id": "n", "skill": name}


CUT = {"kind": "condensation", "id": "k", "status": "completed", "pruned": []}


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([user_message(words("commit it"))], [("git", "")]),
        ([user_message(words("commit it")), skill_use("git")], []),
        (
            [
                user_message(words("git")),
                skill_use("git"),
                {"kind": "agentMessage"},
                user_message(words("git")),
            ],
            [],
        ),
        (
            [
                user_message(words("git")),
                skill_use("git"),
                {**CUT, "keepFrom": "k"},
                user_message(words("git")),
            ],
            ["git"],
        ),
        ([user_message(words("git")), skill_use("git"), CUT, user_message(words("git"))], []),
        ([user_message(words("/deploy  to prod"))], [("deploy", "to prod")]),
        ([user_message(words("/deploy\nto prod "))], [("deploy", "to prod")]),
        ([user_message(words("see a/deploy"))], []),
        ([user_message(words("/ship to prod"))], [("deploy", "to prod")]),
        ([user_message(words("see ./ship/readme.md, run ~/ship"))], []),
        ([user_message({"type": "command", "name": "deploy", "args": "x"})], [("deploy", "x")]),
        (
            [user_message({"type": "command", "name": "deploy", "args": "x"}), skill_use("deploy")],
            [],
        ),
        (
            [skill_use("deploy"), {"kind": "agentMessage"}, user_message(words("/deploy"))],
            ["deploy"],
        ),
        ([user_message({"type": "command", "name": "git"})], [("git", "")]),
        ([user_message({"type": "skill", "name": "git", "args": "y"})], [("git", "y")]),
        ([user_message(words("git")), {"kind": "agentMessage"}], []),
    ],
)
def test_what_a_message_calls_for(items: list[Any], expected: list[Any]) -> None:
    uses = [(use.name, use.args) for use in uses_in(items, [KEYWORD, TASK])]
    assert uses == [(one, "") if isinstance(one, str) else one for one in expected]


def test_neither_arguments_nor_output_are_read_again_and_shown_commands_do_not_run() -> None:
    text = "Now !`date`\n```\n!`rm -rf /` $2\n```\nand ``!`echo` `` for $1, all: $ARGUMENTS."
    commands_run: list[str] = []
    full_text = filled_in(
        text, "!`id` $1", lambda command: commands_run.append(command) or "[$1 $ARGUMENTS]"
    )
    assert commands_run == ["date"]
    assert full_text.startswith("Now [$1 $ARGUMENTS]\n```\n!`rm -rf /` $1\n```\nand ``!`echo` ``")
    assert full_text.endswith(" for !`id`, all: !`id` $1.")


def test_what_a_command_prints_stands_in_its_place_also_when_it_goes_wrong(tmp_path: Path) -> None:
    spawner, masker = Spawner(), Masker(["hush-9876543210"])
    try:

        def run(command: str) -> str:
            return output_of(command, spawner, masker, tmp_path, CancelToken())

        assert run("echo hi; pwd") == f"hi\n{tmp_path}"
        assert run("echo no >&2; exit 3") == "[echo no >&2; exit 3: exit code 3] no"
        assert run(r"printf '\033[31mred\033[0m\000'") == "red"
        long = run("head -c 60000 /dev/zero | tr '\\0' x")
        assert long == "x" * MAX_BYTES + f"\n[cut after {MAX_BYTES:,} of 60,000 bytes]"
        cancel = CancelToken()
        cancel.cancel()
        outcome = output_of("sleep 60", spawner, masker, tmp_path, cancel)
        assert outcome == "[sleep 60: interrupted]"
        assert "hush" not in run(f"head -c {MAX_BYTES - 5} /dev/zero; echo hush-9876543210")
    finally:
        spawner.close()


def test_the_prompt_names_skills_in_the_same_order_and_within_a_limit(tmp_path: Path) -> None:
    for n in range(40):
        frontend = f"---\ndescription: {n:04} {'x' * 900}\n---\n"
        write(tmp_path / f".agents/skills/s{n:02}/SKILL.md", frontend)
    skills = list(find_by_name(tmp_path).values())
    [section] = prompt_sections(skills, can_load=True)
    assert section == prompt_sections(list(find_by_name(tmp_path).values()), can_load=True)[0]
    assert len(section) < 20_000
    assert "- s00: 0000 xxx" in section
    assert section.endswith("\n- s39")
    assert prompt_sections(skills, can_load=False) == []
