"""The plugin by itself: what it loads, what it documents, what it accepts. No daemon is started."""

import re
import shutil
import subprocess
from importlib.metadata import version

import pytest
from neovim_editor import PLUGIN
from neovim_workspace import Workspace

from oh_daemon.protocol import methods as protocol

LUA = {
    path: path.read_text("utf-8")
    for path in sorted(PLUGIN.rglob("*.lua"))
    if path.name != "protocol.lua"
}
HELP = (PLUGIN / "doc/oh.txt").read_text("utf-8")
TAGS = set(re.findall(r"\*(\S+)\*(?=\s|$)", HELP))


def _all(pattern: str) -> set[str]:
    return {words for text in LUA.values() for words in re.findall(pattern, text, re.MULTILINE)}


def test_nothing_is_loaded_or_started_before_the_first_command(workspace: Workspace) -> None:
    editor = workspace.start()
    editor.edit(workspace.file)
    modules_lua = (
        "return vim.tbl_filter(function(n) return n:find('^oh') end, vim.tbl_keys(package.loaded))"
    )
    assert editor.lua(modules_lua) == []
    assert editor.lua("return require('oh').status()") == ""
    assert editor.lua(modules_lua) == ["oh"]
    assert editor.processes() == []


def test_the_folder_is_a_plugin_that_package_managers_know() -> None:
    spec = (PLUGIN / "lazy.lua").read_text("utf-8")
    assert "lazy = false" in spec, "it loads nothing by itself, and a lazy one would have no maps"
    readme = (PLUGIN / "README.md").read_text("utf-8")
    assert all(way in readme for way in ("vim.pack.add", "lazy.nvim", "pack/oh/start"))
    assert "](../" not in readme, "a mirror has only this folder"


def test_no_key_is_mapped_but_plugs_that_the_user_maps(workspace: Workspace) -> None:
    editor = workspace.start()
    maps = editor.lua("""
    local plain = vim.iter({ "n", "x", "s", "o", "i", "c", "t" }):map(function(mode)
      return vim.iter(vim.api.nvim_get_keymap(mode)):map(function(map)
        local ours = (map.desc or ""):find("^oh") or (map.rhs or ""):find("Oh")
        return ours and map.lhs or nil
      end):totable()
    end):totable()
    return vim.iter(plain):flatten():totable()
    """)
    assert all(lhs.startswith("<Plug>(oh-") for lhs in maps)
    editor.edit(workspace.file)
    editor.lua("""
    vim.keymap.set("n", "<F2>", "<Plug>(oh-toggle)")
    vim.keymap.set({ "n", "x" }, "<F3>", "<Plug>(oh-add)")
    """)
    editor.type("<F2>")
    assert editor.windows() == ["calc.py", "oh-chat", "oh-input"]
    editor.type("<Esc><C-w>tjVj<F3>")
    editor.wait("vim.bo.filetype == 'oh-input'")
    assert editor.draft() == ["@calc.py:2-3 "]
    editor.type("<Esc><F2>")
    assert editor.windows() == ["calc.py"]
    editor.type("<F3>")
    assert editor.draft() == ["@calc.py:2-3", "@calc.py "]


def test_options_are_a_table_or_a_function_also_by_setup(workspace: Workspace) -> None:
    editor = workspace.start()
    width = "return require('oh.config').current().chat.width"
    for set_options in (
        "vim.g.oh = { chat = { width = 30 } }",
        "vim.g.oh = function() return { chat = { width = 30 } } end",
        "require('oh').setup({ chat = { width = 30 } })",
        "require('oh').setup(function() return { chat = { width = 30 } } end)",
    ):
        editor.lua(set_options)
        assert editor.lua(width) == 30, set_options
    editor.lua("vim.g.oh = { root = function(buf) return '/of/buffer/' .. buf end }")
    assert editor.lua("return require('oh.daemon').root(1)") == "/of/buffer/1"
    editor.lua("vim.g.oh = 3")
    assert editor.lua(width) == 0.4
    editor.try_command("Oh log")
    assert "vim.g.oh must be a table or a function giving one, not a number" in editor.messages()


def test_a_value_that_a_command_does_not_take_is_refused_in_plain_words(
    workspace: Workspace,
) -> None:
    editor = workspace.start()
    for line, words in (
        ("Oh mode bogus", "`:Oh mode` takes one of: plan, ask, autoEdit, full"),
        ("Oh trust me", "`:Oh trust` takes one of: full, readOnly, none"),
        ("Oh export pdf", "`:Oh export` takes one of: markdown, html, jsonl"),
        (
            "Oh approve user",
            "`:Oh approve` takes one of: once, conversation, edits, folder, server, all, ?",
        ),
        ("Oh! export as pdf", "`:Oh export` takes one of: markdown, html, jsonl"),
        ("Oh! stop it now", "`:Oh stop` takes no words"),
        ("Oh! paint it", 'there is no sub-command "paint"'),
    ):
        editor.command(line)
        assert words in editor.messages()
    assert editor.processes() == [], "known without the daemon"
    editor.command("Oh trust")
    assert "what may the agent do here?" in editor.messages()
    editor.command("Oh secret TWO WORDS")
    assert "is no name of a variable" in editor.messages(), "it is never sent: it may be secret"


def test_only_values_that_fit_are_completed(workspace: Workspace) -> None:
    complete = "return vim.fn.getcompletion(..., 'cmdline')"
    editor = workspace.start()
    assert editor.lua(complete, "Oh app") == ["apply", "approval", "approve"]
    assert editor.lua(complete, "Oh approve ") == [
        *("?", "all", "conversation", "edits", "folder", "once", "server")
    ]
    assert editor.lua(complete, "'<,'>Oh! approve co") == ["conversation"]
    assert editor.lua(complete, "Oh model the ") == []


def test_enabled_as_a_language_server_it_starts_with_the_first_file(workspace: Workspace) -> None:
    editor = workspace.start()
    editor.lua("vim.lsp.enable('oh')")
    editor.command("enew")
    assert editor.processes() == [], "an empty buffer starts nothing"
    editor.edit(workspace.file)
    editor.wait_for_event("Started")
    editor.wait("#vim.lsp.get_clients({ bufnr = 0 }) == 1")
    editor.command("Oh")
    assert editor.lua("return #vim.lsp.get_clients()") == 1, "`:Oh` uses the same one"


def test_everything_that_can_be_used_has_a_help_tag(workspace: Workspace) -> None:
    editor = workspace.start()
    names = editor.lua("return vim.fn.getcompletion('Oh ', 'cmdline')")
    events = _all(r'(?:tell|M)\.event\("(\w+)"')
    plugs = _all(r'^  (\w+) = "Oh ') | _all(r'^  (?:\[")?([\w-]+)(?:"\])? = \{ "(?:go|decide)"')
    highlights = _all(r"^  (Oh\w+) = \"")
    assert (len(names) > 30, len(events), len(plugs), len(highlights)) == (True, 12, 15, 15)
    expected_tags = (
        {f":Oh-{name}" for name in names} | {"Oh" + name for name in events} | highlights
    )
    expected_tags |= {f"<Plug>(oh-{name})" for name in plugs}
    expected_tags |= {
        f"oh.{name}()"
        for name in re.findall(r"^function M\.(\w+)", LUA[PLUGIN / "lua/oh/init.lua"], re.MULTILINE)
        if name != "conversation"
    }
    assert expected_tags - TAGS == set()
    links = set(re.findall(r"\|(\S+?)\|", HELP))
    unknown = [
        tag
        for tag in sorted(links - TAGS)
        if not editor.lua("return #vim.fn.getcompletion(..., 'help') > 0", tag)
    ]
    assert unknown == []
    assert [line for line in HELP.splitlines() if len(line) > 79] == []


def test_the_help_opens_and_names_all_options_and_keys(workspace: Workspace) -> None:
    doc = workspace.project.parent / "plugin/doc"
    doc.mkdir(parents=True)
    (doc / "oh.txt").write_text(HELP, "utf-8")
    editor = workspace.start()
    editor.set(runtimepath=f"{doc.parent},{editor.nvim.options['runtimepath']}")
    editor.command(f"helptags {doc}")
    editor.command("help :Oh-diff")
    assert editor.nvim.current.line.strip() == "*:Oh-diff*"
    has_error = "vim.treesitter.get_parser(0, 'vimdoc'):parse()[1]:root():has_error()"
    assert editor.lua(f"return {has_error}") is False

    options = editor.lua("return require('oh.config').current()")
    keys: dict[str, dict[str, str]] = options.pop("keys")
    groups = {"chat", "input"}
    names = {name for name in options if name not in groups} | {"root", "trust"}
    names |= {f"{group}.{name}" for group in groups for name in options[group]}
    documented_names = set(re.findall(r"^([a-z][\w.]+) {2,}\S", HELP, re.MULTILINE))
    documented_names |= set(re.findall(r"^(keys\.\w+) ", HELP, re.MULTILINE))
    assert documented_names == names | {f"keys.{place}" for place in keys}
    for place, keys_in_place in keys.items():
        documented_keys = re.findall(rf"^keys\.{place} +([^.]+)\.", HELP, re.MULTILINE)[
            0
        ].partition(": ")[2]
        in_words = set(re.findall(r"\w+", documented_keys.replace("false for no key", "")))
        assert in_words == set(keys_in_place)
        assert [key for key in keys_in_place.values() if f"`{key}`" not in HELP] == []


def test_every_method_that_the_plugin_names_is_in_the_protocol() -> None:
    method_names = {method.name for method in protocol.METHODS}
    nouns = "|".join({name.partition("/")[0] for name in method_names})
    of_lsp = {"workspace/executeCommand", "workspace/textDocumentContent"}
    methods_in_lua = _all(rf'"((?:{nouns})/\w+)"') - of_lsp
    assert len(methods_in_lua) > 15
    assert methods_in_lua - method_names == set()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"cmdd": ["x"]}, 'unknown option "cmdd"'),
        ({"chat": {"width": "wide"}}, 'option "chat.width" must be of type number, not string'),
        (
            {"keys": {"chat": {"approve": True}}},
            'option "keys.chat.approve" must be of type string',
        ),
        ({"cmd": []}, 'option "cmd" must name a program'),
        (
            {"chat": {"width": 50.5}},
            'option "chat.width" must be a whole number above 1, or a fraction',
        ),
        ({"input": {"height": 0}}, 'option "input.height" must be a whole number above 0'),
        ({"keys": {"chat": {"hide": ""}}}, 'option "keys.chat.hide" must be a key, or false'),
        ({"keys": {"chat": {"hide": False}}, "chat": {"width": 0.5}}, None),
    ],
)
def test_wrong_options_are_reported(
    workspace: Workspace, options: dict[str, object], problem: str | None
) -> None:
    editor = workspace.start(**options)
    editor.command("checkhealth oh")
    report = "\n".join(editor.nvim.current.buffer[:])
    assert ("ERROR" in report) == (problem is not None)
    assert (problem or "vim.g.oh is fine") in report
    if problem is None:
        assert f"OK oh-daemon {version('oh-daemon')}, Python 3" in report, "what its doctor finds"
        assert "OK git: " in report
        assert "OK sandbox landlock: commands run read-only" in report


def test_the_lua_code_is_clean() -> None:
    if shutil.which("luacheck") is None:
        pytest.skip("no luacheck; the Debian package is lua-check")
    outcome = subprocess.run(
        ["luacheck", "--quiet", "--no-color", "."],
        cwd=PLUGIN,
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stdout
