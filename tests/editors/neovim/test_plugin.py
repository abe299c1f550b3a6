"""The plugin by itself: what it loads, what it documents, what it accepts. No daemon is started."""

import re
import shutil
import subprocess

import pytest
from desk import Desk
from neovim_editor import PLUGIN

from oh_daemon.contract import protocol

LUA = {
    path: path.read_text("utf-8")
    for path in sorted(PLUGIN.rglob("*.lua"))
    if path.name != "protocol.lua"
}
HELP = (PLUGIN / "doc/oh.txt").read_text("utf-8")
TAGS = set(re.findall(r"\*(\S+)\*(?=\s|$)", HELP))


def _all(pattern: str) -> set[str]:
    return {found for text in LUA.values() for found in re.findall(pattern, text)}


def test_nothing_is_loaded_or_started_before_the_first_command(desk: Desk) -> None:
    editor = desk.start()
    editor.edit(desk.file)
    loaded = (
        "return vim.tbl_filter(function(n) return n:find('^oh') end, vim.tbl_keys(package.loaded))"
    )
    assert editor.lua(loaded) == []
    assert editor.lua("return require('oh').status()") == ""
    assert editor.lua(loaded) == ["oh"]
    assert editor.lua("return vim.fn.maparg('a', 'n') .. vim.fn.maparg('<CR>', 'n')") == ""
    assert editor.processes() == []


def test_enabled_as_a_language_server_it_starts_with_the_first_file(desk: Desk) -> None:
    editor = desk.start()
    editor.lua("vim.lsp.enable('oh')")
    editor.command("enew")
    assert editor.processes() == [], "an empty buffer starts nothing"
    editor.edit(desk.file)
    editor.wait_for_event("Started")
    editor.wait("#vim.lsp.get_clients({ bufnr = 0 }) == 1")
    editor.command("Oh")
    assert editor.lua("return #vim.lsp.get_clients()") == 1, "`:Oh` uses the same one"


def test_everything_that_can_be_used_has_a_help_tag(desk: Desk) -> None:
    editor = desk.start()
    names = editor.lua("return require('oh.command').complete('Oh ')")
    wanted = {f":Oh-{name}" for name in names}
    wanted |= {"Oh" + name for name in _all(r'tell\.event\("(\w+)"')}
    wanted |= {f"<Plug>(oh-{name})" for name in _all(r'^  (\w+) = "Oh ')}
    wanted |= _all(r"^  (Oh\w+) = \"")
    wanted |= {
        f"oh.{name}()"
        for name in re.findall(r"^function M\.(\w+)", LUA[PLUGIN / "lua/oh/init.lua"], re.MULTILINE)
        if name != "conversation"
    }
    assert wanted - TAGS == set()
    links = set(re.findall(r"\|(\S+?)\|", HELP))
    unknown = [
        tag
        for tag in sorted(links - TAGS)
        if not editor.lua("return #vim.fn.getcompletion(..., 'help') > 0", tag)
    ]
    assert unknown == []
    assert [line for line in HELP.splitlines() if len(line) > 79] == []


def test_every_method_that_the_plugin_names_is_in_the_protocol() -> None:
    known = {method.name for method in protocol.METHODS}
    nouns = "|".join({name.partition("/")[0] for name in known})
    of_lsp = {"workspace/executeCommand", "workspace/textDocumentContent"}
    named = _all(rf'"((?:{nouns})/\w+)"') - of_lsp
    assert len(named) > 15
    assert named - known == set()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"cmdd": ["x"]}, 'unknown option "cmdd"'),
        ({"chat": {"width": "wide"}}, 'option "chat.width" must be of type number, not string'),
        (
            {"keys": {"chat": {"approve": True}}},
            'option "keys.chat.approve" must be of type string',
        ),
        ({"keys": {"chat": {"hide": False}}}, None),
    ],
)
def test_wrong_options_are_reported(
    desk: Desk, options: dict[str, object], problem: str | None
) -> None:
    editor = desk.start(**options)
    editor.command("checkhealth oh")
    report = "\n".join(editor.nvim.current.buffer[:])
    assert ("ERROR" in report) == (problem is not None)
    assert (problem or "vim.g.oh is fine") in report


def test_the_lua_code_is_clean() -> None:
    if shutil.which("luacheck") is None:
        pytest.skip("no luacheck; the Debian package is lua-check")
    checked = subprocess.run(
        ["luacheck", "--quiet", "--no-color", "."],
        cwd=PLUGIN,
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout
