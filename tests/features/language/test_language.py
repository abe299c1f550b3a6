"""The agent uses the user's own language servers, honest ones and faulty ones."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from editor import Editor
from fake_llm import Step, call, say
from language_server import FEATURES, LanguageServer, python_file
from world import World, content_of, items

from oh_daemon.conformance.rpc_process import WITHIN_S, NoAnswer, RpcError

pytestmark = pytest.mark.one_daemon

Json = dict[str, Any]
LOAD = "def load(name):\n    return name\n"
USES = 'from load import load\n\nx = "😀😀"; y = load(x) + oops\n'
ENCODINGS = ("utf-8", "utf-16", "utf-32")


def open_editor(world: World, encoding: str = "utf-16") -> tuple[Editor, LanguageServer]:
    """Open a project of two files, one of them open and changed."""
    python_file(world, "load.py", LOAD)
    path = python_file(world, "src/uses.py", "")
    editor = Editor(world, features=FEATURES, encoding=encoding)
    editor.open(path, typed_text=USES)
    return editor, LanguageServer(world, editor)


def run(world: World, editor: Editor, *steps: Step) -> list[Json]:
    """Run one turn; return its tool calls that ended."""
    world.script(*steps, say("Done."))
    world.start(editor.client)
    world.turn(editor.client)
    return items(editor.client, "toolCall")


def lookup(operation: str, **args: Any) -> Step:
    return call("lookup", operation=operation, **args)


def at_use(operation: str) -> Step:
    return lookup(operation, path="src/uses.py", line=3, symbol="load")


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_the_agent_asks_by_name_and_the_columns_are_right_in_each_encoding(
    world: World, encoding: str
) -> None:
    editor, server = open_editor(world, encoding)
    outcome = run(
        world,
        editor,
        *(at_use(operation) for operation in ("definition", "references", "hover")),
        lookup("symbols", path="load.py"),
        lookup("symbols", query="oa"),
        call("diagnostics"),
        call("diagnostics", path="load.py"),
    )
    definition, references, hover, outline, search_result, problems, none = map(content_of, outcome)
    assert [item["status"] for item in outcome] == ["completed"] * 7
    assert definition == "load.py:1: def load(name):"
    assert references.split("\n") == [
        "load.py:1: def load(name):",
        "src/uses.py:1: from load import load",
        'src/uses.py:3: x = "😀😀"; y = load(x) + oops',
    ]
    assert hover == "`load`, a name"
    assert outline.split("\n") == ["     1\tclass Top", "     1\t  method load"]
    assert search_result == "load.py:1 function load"
    assert problems.split("\n") == [
        "1 error",
        "src/uses.py:3:25 error 'oops' is not defined",
        "    in this file [Toy undefined]",
        "[open in the editor: src/uses.py; its servers may know nothing of other files]",
    ]
    assert none.split("\n") == [
        "The editor shows nothing of severity warning or above in load.py.",
        "[it is not open in the editor, whose servers may not have looked at it]",
    ]
    position = server.requests[0]["params"]["position"]
    assert position == {"line": 2, "character": {"utf-8": 20, "utf-16": 16, "utf-32": 14}[encoding]}


@pytest.mark.parametrize(
    ("path", "severity", "scope"),
    [
        (None, "warning", "in the open folders.\n[open in the editor: src/uses.py, z.py; "),
        ("src", "error", "in src.\n[open in the editor: src/uses.py; "),
        ("docs", "hint", "in docs.\n[open in the editor: none of them; "),
        ("src/uses.py", "warning", "in src/uses.py."),
        ("load.py", "warning", "in load.py.\n[it is not open in the editor"),
    ],
)
def test_diagnostics_report_the_files_and_that_a_server_still_loads(
    world: World, path: str | None, severity: str, scope: str
) -> None:
    editor, server = open_editor(world)
    editor.type(world.project / "src/uses.py", "x = 1\n")
    editor.open(python_file(world, "z.py", "x = 1\n"))
    (world.project / "docs").mkdir()
    args = {"severity": severity} if path is None else {"severity": severity, "path": path}
    server.loading = ["gopls"]
    [item] = run(world, editor, call("diagnostics", **args))
    first = f"The editor shows nothing of severity {severity} or above {scope}"
    assert content_of(item).startswith(first)
    loading = "[gopls is still loading the project and may not know all of it]"
    assert content_of(item).endswith(f"\n{loading}")


def test_only_what_the_client_can_answer_is_offered(world: World) -> None:
    offered_tools: dict[str, set[str]] = {}
    for feature in ("diagnostics", "languageRequests", "saveDocument"):
        client = world.daemon(features={feature: True})
        tools = client.request("tool/list")["tools"]
        offered_tools[feature] = {tool["name"] for tool in tools}
    everywhere = offered_tools["saveDocument"]
    assert offered_tools["diagnostics"] - everywhere == {"diagnostics"}
    assert offered_tools["languageRequests"] - everywhere == {"lookup", "rename"}


def test_nothing_is_read_outside_the_folders_or_from_secrets_and_long_lists_are_cut(
    world: World,
) -> None:
    editor, server = open_editor(world)
    outside = world.home / "lib.py"
    outside.write_text("def secret_of_the_house(): ...\n")
    (world.project / ".env").write_text("KEY=hunter2\n")
    far = {"start": {"line": 10**9, "character": 10**9}, "end": {"line": 10**9, "character": 10**9}}
    top = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 0}}
    uris = [outside.as_uri(), (world.project / ".env").as_uri(), "jdt://contents/x.class"]
    server.answers["textDocument/definition"] = lambda _params: [
        *({"uri": uri, "range": top} for uri in uris),
        {"targetUri": (world.project / "load.py").as_uri(), "targetSelectionRange": far},
    ]
    uses = (world.project / "src/uses.py").as_uri()
    many = [
        {"uri": uses, "range": {**top, "start": {"line": n, "character": 0}}} for n in range(130)
    ]
    server.answers["textDocument/references"] = lambda _params: many
    definition, references = map(
        content_of, run(world, editor, at_use("definition"), at_use("references"))
    )
    assert definition.split("\n") == [
        f"{outside}:1 (outside the workspace)",
        f"{world.project / '.env'}:1 (outside the workspace)",
        "jdt://contents/x.class:1 (outside the workspace)",
        "load.py:1000000001: ",
    ]
    assert references.endswith("[30 more]")


def test_a_name_that_is_not_where_the_model_says_is_an_error_that_says_where_it_is(
    world: World,
) -> None:
    editor, server = open_editor(world)
    (world.project / ".env").write_text("KEY=hunter2\n")
    wrong = [
        (lookup("hover", path="src/uses.py", line=2, symbol="load"), "it is in line 1, 3"),
        (lookup("hover", path="src/uses.py", symbol="missing"), "is not in the file"),
        (lookup("hover", path="no.py", symbol="x"), "there is no file"),
        (lookup("hover", symbol="x"), "give path and symbol"),
        (lookup("symbols"), "either path"),
        (lookup("hover", path="../x.py", symbol="x"), "outside the open folders"),
        (lookup("hover", path=".env", symbol="KEY"), "may be secret"),
    ]
    outcome = run(world, editor, *(step for step, _ in wrong))
    assert [item["status"] for item in outcome] == ["failed"] * len(wrong)
    for item, (_, text) in zip(outcome, wrong, strict=True):
        assert text in content_of(item)
    assert server.requests == []


def refuse(_params: Json) -> None:
    raise RpcError({"code": -32803, "message": "no server for this language"})


NONSENSE: list[Callable[[Json], Any]] = [
    refuse,
    lambda _params: None,
    lambda _params: [],
    lambda _params: {"result": "here"},
    lambda _params: {"result": [{"uri": 7}], "items": [{"uri": "file:///x", "diagnostics": 1}]},
    lambda _params: {"result": [{"uri": "x", "range": {"start": {"line": -1}}}], "items": {}},
]


def test_a_client_that_refuses_or_makes_no_sense_is_an_error_for_the_model(world: World) -> None:
    editor, _ = open_editor(world)
    steps = [at_use("definition"), lookup("symbols", query="x"), call("diagnostics")]
    requests_expected = {
        "editor/languageRequest": [*NONSENSE, *NONSENSE],
        "editor/diagnostics": [*NONSENSE],
    }
    for method, answers in requests_expected.items():
        editor.client.answer(method, lambda params, left=answers: left.pop(0)(params))
    outcome = run(world, editor, *(steps * len(NONSENSE)))
    assert [item["status"] for item in outcome] == ["failed"] * len(steps) * len(NONSENSE)
    assert all("the editor" in content_of(item) for item in outcome)


def test_a_client_that_never_answers_is_given_up_or_interrupted_at_once(world: World) -> None:
    editor, _ = open_editor(world)

    def never(_params: Json) -> None:
        raise NoAnswer

    editor.client.answer("editor/languageRequest", never)
    [late] = run(world, editor, at_use("hover"))
    assert late["status"] == "failed"
    assert "in 5 s" in content_of(late)
    world.script(at_use("hover"))
    conversation = world.start(editor.client)
    editor.client.wait_for(lambda m: m.get("method") == "editor/languageRequest", nth=2)
    interrupt_result = editor.client.request(
        "conversation/interrupt", {"conversationId": conversation}
    )
    assert interrupt_result["status"] == "interrupted"
    editor.client.wait_for(lambda m: m.get("method") == "$/cancelRequest", nth=2)
    assert items(editor.client, "toolCall")[-1]["status"] == "cancelled"


def edits(world: World, editor: Editor, *steps: Step) -> list[Json]:
    """Run one turn; return its edits that ended."""
    world.script(call("edit", command="view", path="src/uses.py"), *steps, say("Done."))
    world.start(editor.client)
    world.turn(editor.client)
    return items(editor.client, "fileChange")


def replace(old: str, new: str, path: str = "src/uses.py") -> Step:
    return call("edit", command="replace", path=path, old_text=old, new_text=new)


def test_after_an_edit_the_agent_is_told_what_it_broke_and_nothing_else(world: World) -> None:
    editor, server = open_editor(world)
    broke, fixed_edit, closed_edit = edits(
        world,
        editor,
        replace("load(x)", "load(x) + hmm\n\nmeh + oops"),
        replace("hmm", "1"),
        call("edit", command="create", path="new.py", text="oops\n"),
    )
    lines = content_of(broke).split("\n")
    start = lines.index("The editor shows new problems since this edit:")
    assert lines[start + 1 :] == [
        "src/uses.py:3:25 warning 'hmm' is not defined",
        "    in this file [Toy undefined]",
        "src/uses.py:5:14 error 'oops' is not defined",
        "    in this file [Toy undefined]",
    ]
    assert "problems" not in content_of(fixed_edit) + content_of(closed_edit)
    assert len(server.requests) == 4


@pytest.mark.parametrize("answer", [refuse, lambda _params: {"items": [{"uri": 1}]}])
def test_a_client_that_cannot_say_what_an_edit_broke_does_not_matter(
    world: World, answer: Callable[[Json], Any]
) -> None:
    editor, _ = open_editor(world)
    editor.client.answer("editor/diagnostics", answer)
    [edit_item] = edits(world, editor, replace("load(x)", "oops"))
    assert edit_item["status"] == "completed"
    assert "problems" not in content_of(edit_item)


def test_an_edit_that_is_done_stays_done_when_the_wait_for_problems_is_interrupted(
    world: World,
) -> None:
    editor, server = open_editor(world)
    start_future: Future[str] = Future()

    def interrupt(params: Json) -> Json:
        if editor.buffers[params["uris"][0]].text != USES:
            params = {"conversationId": start_future.result(WITHIN_S)}
            editor.client.request("conversation/interrupt", params)
            raise NoAnswer
        return {"items": []}

    editor.client.answer("editor/diagnostics", interrupt)
    steps = call("edit", command="view", path="src/uses.py"), replace("load(x)", "1")
    world.script(*steps)
    conversation = world.start(editor.client)
    start_future.set_result(conversation)
    assert world.turn(editor.client)["status"] == "interrupted"
    [edit_item] = items(editor.client, "fileChange")
    assert edit_item["status"] == "completed"
    files = editor.client.request("changes/list", {"conversationId": conversation})
    assert [file["state"] for file in files["files"]] == ["pending"]
    assert server.requests == []
