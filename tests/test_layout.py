"""The rule book of the source tree: rings, units, budgets, owners. A failure says what to do.

Imports are read from the syntax tree, so lazy imports and those for type checkers count too.
"""

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from inspect import signature

import pytest
from places import REPO
from pydantic import BaseModel

from oh_daemon.features.attachments import images
from oh_daemon.features.terminal import output
from oh_daemon.frontends.lsp import handler_arguments, methods, sync
from oh_daemon.jsonrpc import dispatch, framing
from oh_daemon.kernel import delivery
from oh_daemon.protocol import composing, content, forms, items, messages, summaries
from oh_daemon.protocol import methods as protocol
from oh_daemon.protocol.settings import Settings

PACKAGE = "oh_daemon"
ROOT = REPO / PACKAGE

RINGS: tuple[tuple[str, ...], ...] = (
    ("protocol",),
    ("common",),
    ("kernel",),
    ("system", "jsonrpc"),
    ("workspace", "storage"),
    ("features",),
    ("conversations",),
    ("frontends",),
    ("",),
)
"""Lowest first. A module may import its own unit and lower rings; "" is the package's top level."""
NARROW: dict[str, set[str]] = {
    "common": {"protocol"},
    "kernel": {"protocol", "common"},
    "jsonrpc": {"protocol", "common"},
    "conformance": set(),
}
"""Units that may import less than their ring allows. `conformance` checks foreign servers, too."""
FEATURES: dict[str, str] = {
    "approval": "hooks risk",
    "attachments": "models network",
    "browser": "mcp network",
    "budget": "",
    "checkpoints": "",
    "condensation": "",
    "conversation_tools": "",
    "edit": "language",
    "export": "conversation_tools",
    "hooks": "skills",
    "instructions": "subagents",
    "isolation": "language pending_changes sandbox",
    "language": "search",
    "mcp": "",
    "memory": "",
    "models": "replay settings",
    "network": "approval sandbox terminal",
    "pending_changes": "edit language sandbox terminal",
    "project_programs": "settings skills trust",
    "replay": "approval condensation export hooks stuck",
    "review": "checkpoints isolation",
    "risk": "",
    "sandbox": "settings terminal",
    "search": "",
    "settings": "approval",
    "skills": "mcp terminal trust",
    "stuck": "",
    "subagents": "",
    "terminal": "risk",
    "trust": "risk",
    "worktrees": "",
}
"""Feature -> the features that it may import. A new arrow needs its reason in the commit."""
FRONTENDS: dict[str, str] = {
    "acp": "",
    "cli": "acp client fleet lsp mcp_server remote serve",
    "client": "",
    "fleet": "library",
    "library": "client remote",
    "lsp": "mcp_server",
    "mcp_server": "",
    "remote": "client lsp",
    "serve": "lsp",
}
"""Frontend -> the frontends that it may import."""
CONFORMANCE_USER = "frontends/cli/conformance"
"""The only module that may import `conformance`."""
BUDGETS: dict[str, int] = {
    "common": 630,
    "conformance": 2850,
    "conversations": 3440,
    "features/approval": 730,
    "features/attachments": 360,
    "features/browser": 120,
    "features/budget": 80,
    "features/checkpoints": 300,
    "features/condensation": 360,
    "features/conversation_tools": 150,
    "features/edit": 760,
    "features/export": 850,
    "features/hooks": 440,
    "features/instructions": 450,
    "features/isolation": 910,
    "features/language": 340,
    "features/mcp": 1720,
    "features/memory": 210,
    "features/models": 5270,
    "features/network": 800,
    "features/pending_changes": 2880,
    "features/project_programs": 230,
    "features/replay": 1000,
    "features/review": 510,
    "features/risk": 1020,
    "features/sandbox": 2910,
    "features/search": 410,
    "features/settings": 290,
    "features/skills": 820,
    "features/stuck": 170,
    "features/subagents": 250,
    "features/terminal": 1950,
    "features/trust": 190,
    "features/worktrees": 100,
    "frontends/acp": 1860,
    "frontends/cli": 3330,
    "frontends/client": 440,
    "frontends/fleet": 570,
    "frontends/library": 1510,
    "frontends/lsp": 4320,
    "frontends/mcp_server": 140,
    "frontends/remote": 890,
    "frontends/serve": 1040,
    "jsonrpc": 1270,
    "kernel": 4500,
    "protocol": 4440,
    "storage": 1500,
    "system": 1700,
    "workspace": 3220,
}
"""Unit -> the most code lines that it may have: no blank lines, comments or docstrings.

Each is the number of the day plus 10 %, reset when an issue ends.
"""
PROCESSES = (
    *("system/spawner", "system/reaper", "system/pty", "features/terminal/shell"),
    *("features/sandbox/landlock", "features/sandbox/entry"),
    *("features/models/litellm_calls", "system/limited_child"),
    "features/sandbox/monitor",
    "frontends/fleet/engines",
    "conformance/",
)
OWNERS: dict[str, tuple[str, ...]] = {
    "litellm": ("features/models/litellm_child",),
    "mcp": ("features/mcp/",),
    "PIL": ("features/models/image_child",),
    "pypdf": ("workspace/pdf_child",),
    "pygls": ("frontends/lsp/positions",),
    "lsprotocol": ("frontends/lsp/",),
    "typer": ("frontends/cli/",),
    "rich": ("frontends/cli/", "features/export/event_lines"),
    "markdown_it": ("features/export/",),
    "keyring": ("features/models/system_keyring",),
    "yaml": ("common/front_matter", "features/skills/files"),
    "tree_sitter": ("features/risk/script",),
    "tree_sitter_bash": ("features/risk/script",),
    "websockets": ("frontends/serve/web_server",),
    **dict.fromkeys(("subprocess", "pty", "multiprocessing"), PROCESSES),
}
"""Library -> the folders (with a slash) or modules (the start of their path) that may import it."""

PROCESS_CALLS = ("fork", "forkpty", "exec", "posix_spawn", "spawn", "system", "popen")
"""Functions of `os` that start a process begin with these words."""

PROTOCOL_LIBRARIES = {PACKAGE, "msgspec", "pydantic", "pydantic_core", *sys.stdlib_module_names}
KERNEL_HAS_NO = {
    *("asyncio", "http", "os", "select", "shutil", "signal", "socket", "sqlite3", "tempfile"),
    *("httpx", "requests"),
}
"""Libraries that do I/O. The kernel gets its I/O through its Protocols."""

STARTS_THREADS = {
    *("threading.Thread", "Thread", "threading.Timer", "Timer", "ThreadPoolExecutor"),
    *("asyncio.to_thread", "start_thread", "on_own_thread"),
}
"""What is called to start a thread; the last two are helpers of ours."""

LAST_RESORTS = {
    "kernel/actions": "a tool call: whatever a tool does wrong is an observation",
    "kernel/tool_calls": "a tool's plan: whatever breaks there is told to the model",
    "kernel/agent": "the turn loop: a bug ends the turn, not the daemon",
    "features/approval/judgement": "judgement of a program: what breaks there is asked about",
    "common/masking": "a program's function: what it raises may hold the secret",
    "features/risk/rating": "a rating: what breaks there is high, so a person is asked",
    "frontends/acp/projector": "an update: whatever breaks there leaves out that update only",
    "frontends/client/connection": "input from a daemon: whoever waits hears what breaks there",
    "frontends/library/remote_agent": "a program's function: what it raises is told the model",
    "frontends/lsp/lifecycle": "the start: what breaks there is logged and ends the daemon",
    "jsonrpc/main_loop": "the stop: what breaks there is logged and the rest goes on",
    "features/models/litellm_child": "one litellm call: an error in it is reported to its caller",
    "system/io_loop": "a coroutine: what it raises is raised again where somebody waits for it",
    "features/models/system_keyring": "a keyring backend: its error is reported without its text",
    "features/mcp/server": "an MCP server: whatever it sends ends that server only",
    "jsonrpc/dispatch": "the request handler: a bug is an answer with a reference",
}
"""The only modules with `except Exception`, and what each protects."""


@dataclass(frozen=True)
class Module:
    """One parsed file of the package."""

    name: str
    """Path below the package without the suffix, as in "kernel/state"."""
    source: str
    tree: ast.Module

    @property
    def folder(self) -> str:
        return self.name.partition("/")[0] if "/" in self.name else ""

    @property
    def is_init(self) -> bool:
        return self.name.endswith("__init__")

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All of the tree, in any order."""
        return [*ast.walk(self.tree)]

    @cached_property
    def imports(self) -> list[tuple[str, int]]:
        """Every imported dotted name with its line; relative imports are resolved."""
        return [*self._imports()]

    def _imports(self) -> Iterator[tuple[str, int]]:
        package_path = [PACKAGE, *self.name.split("/")[:-1]]
        for node in self.nodes:
            if isinstance(node, ast.Import):
                yield from ((alias.name, node.lineno) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                parents = package_path[: len(package_path) + 1 - node.level] if node.level else []
                base = ".".join([*parents, *filter(None, [node.module])])
                yield from ((f"{base}.{alias.name}", node.lineno) for alias in node.names)


@cache
def _modules() -> tuple[Module, ...]:
    # The demo project is a file tree that the demo copies, not a part of the program.
    paths = [path for path in sorted(ROOT.rglob("*.py")) if "demo_project" not in path.parts]
    sources = [(path, path.read_text("utf-8")) for path in paths]
    return tuple(
        Module(path.relative_to(ROOT).with_suffix("").as_posix(), source, ast.parse(source))
        for path, source in sources
    )


def _check(problems: Iterable[str]) -> None:
    if text := "\n".join(problems):
        pytest.fail(text, pytrace=False)


# Imports


def _unit(module: str) -> str:
    """Return the folder that counts as one: "kernel", "features/approval", "" at the top."""
    words = module.split("/")[:-1]
    return "/".join(words[:2] if words[:1] in (["features"], ["frontends"]) else words[:1])


def _imports() -> Iterator[tuple[str, int, str]]:
    """Yield importing module, line and imported module, both as paths below the package."""
    names = {module.name for module in _modules()}
    for module in _modules():
        for dotted_name, line in module.imports:
            path = dotted_name.removeprefix(f"{PACKAGE}.").replace(".", "/")
            target = path if path in names else path.rpartition("/")[0]
            if target in names and dotted_name.startswith(f"{PACKAGE}."):
                yield module.name, line, target


def test_imports_go_to_lower_rings() -> None:
    ring = {folder: n for n, folders in enumerate(RINGS) for folder in folders}
    ring["conformance"] = ring["frontends"] - 1
    problems: list[str] = []
    for module, line, target in _imports():
        unit, other = _unit(module), _unit(target)
        top, target_top = unit.partition("/")[0], other.partition("/")[0]
        is_allowed = target_top in NARROW[top] if top in NARROW else ring[target_top] < ring[top]
        if unit == other or top == target_top or is_allowed:
            continue
        problems.append(
            f"{module}.py:{line} imports {target}: {unit}/ may not import {other}/; take it as "
            "a value or a Protocol, and let conversations/ hand it in"
        )
    _check(problems)


def test_conformance_is_imported_by_its_command_only() -> None:
    _check(
        f"{module}.py:{line} imports {target}; only {CONFORMANCE_USER} may"
        for module, line, target in _imports()
        if _unit(target) == "conformance" != _unit(module) and module != CONFORMANCE_USER
    )


@pytest.mark.parametrize(("folder", "table"), [("features", FEATURES), ("frontends", FRONTENDS)])
def test_features_and_frontends_import_what_their_rows_list(
    folder: str, table: dict[str, str]
) -> None:
    problems: list[str] = []
    used_pairs: set[tuple[str, str]] = set()
    for module, line, target in _imports():
        (top, _, unit), (target_top, _, other) = (
            _unit(name).partition("/") for name in (module, target)
        )
        if top == target_top == folder and unit != other:
            used_pairs.add((unit, other))
            if other not in table.get(unit, "").split():
                problems.append(
                    f"{module}.py:{line} imports {target}: {unit} may not import {other}; move the "
                    "shared part down, or add the arrow to the table with its reason in the commit"
                )
    rows = {(unit, other) for unit, names in table.items() for other in names.split()}
    unused_pairs = (
        f"{unit} no longer imports {other}: remove it" for unit, other in rows - used_pairs
    )
    _check([*problems, *unused_pairs])


@pytest.mark.parametrize("table", [FEATURES, FRONTENDS], ids=["features", "frontends"])
def test_units_do_not_import_each_other_in_a_circle(table: dict[str, str]) -> None:
    left = {row: set(names.split()) for row, names in table.items()}
    while free := [row for row, names in left.items() if not names & left.keys()]:
        left = {row: names for row, names in left.items() if row not in free}
    assert not left, f"these units import each other: {sorted(left)}; move what they share down"


def test_every_unit_has_a_row_and_stays_within_its_budget() -> None:
    sizes: Counter[str] = Counter()
    for module in _modules():
        sizes[_unit(module.name)] += _code_lines(module.source)
    for container in ("", "features", "frontends"):
        del sizes[container]
    units = {
        *(
            folder
            for ring in RINGS
            for folder in ring
            if folder not in {"", "features", "frontends"}
        ),
        *(f"features/{name}" for name in FEATURES),
        *(f"frontends/{name}" for name in FRONTENDS),
        "conformance",
    }
    assert sizes.keys() == units == BUDGETS.keys(), (
        f"{sorted(sizes.keys() ^ units ^ BUDGETS.keys())}: a new folder needs a row in RINGS, "
        "FEATURES or FRONTENDS and a budget; a folder that is gone has none"
    )
    _check(
        f"{unit} has {n_lines} code lines, its budget is {BUDGETS[unit]}: remove what it no longer "
        "needs, or raise the budget with the reason in the commit"
        for unit, n_lines in sizes.items()
        if n_lines > BUDGETS[unit]
    )


def _code_lines(source: str) -> int:
    """Count lines with code: no blank lines, comments or docstrings."""
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        has_body = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        if has_body and ast.get_docstring(node) is not None:
            docstrings.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    lines = {
        number
        for number, line in enumerate(source.splitlines(), 1)
        if line.strip() and not line.lstrip().startswith("#")
    }
    return len(lines - docstrings)


OPEN = {"open", "asking"}
"""Rows whose handler gets an open conversation."""
MAYBE_OPEN = {"open if named", "open if there"}
FRONTEND_HANDLERS = "frontends.lsp."
"""Modules with handlers that may take parts of the connection, such as the publisher."""
CONNECTION_PARTS = {
    *("client_tools", "context", "has_others", "outbox", "publisher", "resolver", "serial"),
    *("speaking", "started_at", "workers"),
}


def test_each_method_has_a_handler_that_takes_what_its_row_gives() -> None:
    assert methods.NEEDS.keys() == {method.name for method in protocol.REQUESTS}
    conversation_parts = {*handler_arguments.CONVERSATION_PARTS, "resolve"}
    problems: list[str] = []
    used: set[str] = set()
    for module, rows in methods.METHODS.items():
        handlers = vars(import_module(f"{PACKAGE}.{module}"))
        for name, needs in rows.items():
            function, of = protocol.function_name(name), needs.conversation
            parameters = signature(handlers[function]).parameters
            for parameter in parameters.keys() & conversation_parts:
                is_optional = "None" in str(parameters[parameter].annotation)
                if of not in OPEN and not (of in MAYBE_OPEN and is_optional):
                    problems.append(f"{function} takes {parameter}, but its row says {of!r}")
            if ("history" in parameters) != (of == "history"):
                problems.append(f"{function} takes {set(parameters)}, but its row says {of!r}")
            if not module.startswith(FRONTEND_HANDLERS) and parameters.keys() & CONNECTION_PARTS:
                problems.append(f"{function} takes parts of the connection; move it to the front")
            used |= parameters.keys()
    unknown, unused = (
        used - handler_arguments.ARGUMENTS.keys(),
        handler_arguments.ARGUMENTS.keys() - used,
    )
    _check(
        [
            *problems,
            *(f"{name} is not in frontends/lsp/handler_arguments" for name in unknown),
            *(f"no handler takes {name!r}: remove it from handler_arguments" for name in unused),
        ]
    )


def test_no_modules_need_each_other() -> None:
    names = {module.name for module in _modules()}
    needs = {module.name: _needed_by(module, names) for module in _modules()}
    while free := [
        name for name, modules_needed in needs.items() if not modules_needed & needs.keys()
    ]:
        needs = {name: modules_needed for name, modules_needed in needs.items() if name not in free}
    # What is left is in a circle, or needs one.
    while over := needs.keys() - set[str]().union(*needs.values()):
        needs = {name: modules_needed for name, modules_needed in needs.items() if name not in over}
    if needs:
        pytest.fail(f"these need each other: {sorted(needs)}; move what they share down")


def _needed_by(module: Module, names: set[str]) -> set[str]:
    """Return the modules that it imports: each dotted name is a module, or something in one."""
    paths = [name.removeprefix(f"{PACKAGE}.").replace(".", "/") for name, _ in module.imports]
    return {path if path in names else path.rpartition("/")[0] for path in paths} & names


def test_nothing_inside_imports_from_the_package_itself() -> None:
    folders = {module.folder for module in _modules()}
    _check(
        f"{module.name}.py:{line} imports {name} from the package's top, which loads the public "
        "API; import it from the module that defines it"
        for module in _modules()
        for name, line in module.imports
        if name.partition(".")[0] == PACKAGE and _folder_of(name) not in folders
    )


def _folder_of(name: str) -> str:
    """Return the package's folder that a dotted name points into, "?" for the package itself."""
    return f"{name}.?".split(".")[1]


def test_every_library_has_one_owner() -> None:
    _check(
        f"{module.name}.py:{line} imports {name}; only {' and '.join(owners)} may: ask it instead"
        for module in _modules()
        for name, line in module.imports
        if (owners := OWNERS.get(name.partition(".")[0])) and not module.name.startswith(owners)
    )


def test_only_the_spawner_and_its_helpers_start_processes() -> None:
    _check(
        f"{module.name}.py:{line} calls os.{call}; start processes through workspace/spawner"
        for module in _modules()
        if not module.name.startswith(PROCESSES)
        for call, line in _uses_of_os(module)
        if call.startswith(PROCESS_CALLS)
    )


def _uses_of_os(module: Module) -> Iterator[tuple[str, int]]:
    for node in module.nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id == "os":
                yield node.attr, node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module == "os":
            yield from ((alias.name, node.lineno) for alias in node.names)


def test_protocol_needs_only_pydantic_and_msgspec() -> None:
    _check(
        f"{module.name}.py:{line} imports {name}; protocol/ is stdlib, pydantic and msgspec, "
        "move what needs more to a higher ring"
        for module in _modules()
        if module.folder == "protocol"
        for name, line in module.imports
        if name.partition(".")[0] not in PROTOCOL_LIBRARIES
    )


def test_conformance_needs_only_the_standard_library() -> None:
    _check(
        f"{module.name}.py:{line} imports {name}; conformance/ uses the standard library only"
        for module in _modules()
        if module.folder == "conformance"
        for name, line in module.imports
        if name.partition(".")[0] not in {*sys.stdlib_module_names, PACKAGE}
    )


def test_the_kernel_does_no_io_of_its_own() -> None:
    _check(
        f"{module.name}.py:{line} uses {name}; the kernel gets I/O through its Protocols, "
        "move the act to a higher ring"
        for module in _modules()
        if module.folder == "kernel"
        for name, line in [*module.imports, *_calls_of_open(module)]
        if name.partition(".")[0] in {*KERNEL_HAS_NO, "open()"}
    )


def _calls_of_open(module: Module) -> Iterator[tuple[str, int]]:
    for node in module.nodes:
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "open":
            yield "open()", node.lineno


def test_everything_is_caught_in_the_last_resorts_only() -> None:
    _check(
        f"{module.name}.py:{node.lineno} catches everything; catch what can happen there, "
        "or say in LAST_RESORTS what it protects"
        for module in _modules()
        if module.name not in LAST_RESORTS
        for node in module.nodes
        if isinstance(node, ast.ExceptHandler) and _swallows_everything(node)
    )


def _swallows_everything(handler: ast.ExceptHandler) -> bool:
    exception = "BaseException" if handler.type is None else ast.unparse(handler.type)
    # A handler that raises the error again, or hands it to whoever waits for it, hides nothing.
    raises_again = isinstance(handler.body[-1], ast.Raise) and handler.body[-1].exc is None
    hands_on = any(".set_exception(" in ast.unparse(statement) for statement in handler.body)
    return exception in {"Exception", "BaseException"} and not raises_again and not hands_on


def test_every_thread_is_in_the_table_of_threads() -> None:
    page = (ROOT.parent / "docs/threads.md").read_text("utf-8")
    table = page.partition("| Thread |")[2].partition("\n\n")[0]
    names: dict[str, list[str]] = {}
    for row in table.splitlines():
        threads, places = (re.findall(r"`([^`]+)`", cell) for cell in f"{row}||".split("|")[1:3])
        for place in places:
            names[place] = names.get(place, []) + [name.partition("<")[0] for name in threads]
    starting = {module.name: module.source for module in _modules() if _starts_threads(module)}
    assert names.keys() - starting.keys() == set()
    _check(
        f"{name}.py starts a thread that is not in the table of docs/threads.md"
        for name in starting
        if name not in names
    )
    _check(
        f"{place}.py names no thread {name!r}, as the table of docs/threads.md says"
        for place, thread_names in names.items()
        for name in thread_names
        if f'"{name}' not in starting[place] and name != "asyncio_"
    )


MAX_STEPS = 16
"""The most functions that one of the four trips may list."""


def test_the_four_trips_lead_through_functions_that_do_more_than_forward() -> None:
    page = (ROOT.parent / "docs/architecture.md").read_text("utf-8")
    trips = page.partition("\n## Four trips\n")[2].partition("\n## ")[0].split("\n### ")[1:]
    trees = {module.name: module.tree for module in _modules()}
    problems: list[str] = []
    for trip in trips:
        rows = re.findall(
            r"^(\d+)\. \[`([\w.]+)`\]\(\.\./oh_daemon/([\w/]+)\.py\): ", trip, re.MULTILINE
        )
        assert [int(number) for number, *_ in rows] == list(range(1, len(rows) + 1))
        assert (
            len(rows) == len(re.findall(r"^\d+\. ", trip, re.MULTILINE)) in range(1, MAX_STEPS + 1)
        )
        for _, name, module in rows:
            function = _function(trees[module], name) if module in trees else None
            if function is None:
                problems.append(f"{module}.py has no {name}: correct docs/architecture.md")
            elif _only_forwards(function):
                problems.append(f"{module}.py: {name} only forwards: remove it, call what it calls")
    assert len(trips) == 4
    _check(problems)


def _function(tree: ast.Module, name: str) -> ast.FunctionDef | None:
    """Return a function, or a method such as "Class.method", if the module defines it."""
    body: list[ast.stmt] = tree.body
    owner, _, last = name.rpartition(".")
    if owner:
        body = [
            statement
            for node in tree.body
            if isinstance(node, ast.ClassDef) and node.name == owner
            for statement in node.body
        ]
    functions = (node for node in body if isinstance(node, ast.FunctionDef) and node.name == last)
    return next(functions, None)


def _only_forwards(function: ast.FunctionDef) -> bool:
    """Return whether its whole body is one call that gets nothing but its own parameters."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    match body:
        case [ast.Return(value=ast.Call() as call) | ast.Expr(value=ast.Call() as call)]:
            parts = [*call.args, *(keyword.value for keyword in call.keywords)]
            names = [part.value if isinstance(part, ast.Starred) else part for part in parts]
            parameters = {node.arg for node in ast.walk(function.args) if isinstance(node, ast.arg)}
            return all(isinstance(name, ast.Name) and name.id in parameters for name in names)
        case _:
            return False


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def f(self, a, *b): return self._other.g(a, *b)", True),
        ("def f(self, a):\n    'Doc.'\n    g(x=a)", True),
        ("def f(self, a): return self._other.g(a, 2)", False),
        ("def f(self, a): return g(self.state, a)", False),
        ("def f(self, a):\n    check(a)\n    return g(a)", False),
    ],
)
def test_a_function_that_only_forwards_is_found(source: str, expected: bool) -> None:
    [function] = ast.parse(source).body
    assert isinstance(function, ast.FunctionDef)
    assert _only_forwards(function) == expected


def _starts_threads(module: Module) -> bool:
    calls = (node for node in module.nodes if isinstance(node, ast.Call))
    is_helper = module.name == "jsonrpc/serial"  # Its callers give the name.
    return not is_helper and any(ast.unparse(call.func) in STARTS_THREADS for call in calls)


DEFINED_TWICE = {
    "Conversation": "the kernel's, and the public one of the library",
    "Tool": "the kernel's Protocol, and the public one of the library",
}
"""Public class name -> why a second unit defines one of the same name."""


def test_public_class_name_is_defined_once() -> None:
    """`protocol/plain` is generated, with each record of `protocol` as a TypedDict."""
    units: dict[str, list[str]] = {}
    for module in _modules():
        for node in module.tree.body if module.name != "protocol/plain" else ():
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                units.setdefault(node.name, []).append(module.name)
    doubles = {name for name, modules in units.items() if len(modules) > 1}
    _check(
        f"{name} is defined in {', '.join(units[name])}; rename one, or give the reason here"
        for name in doubles - DEFINED_TWICE.keys()
    )
    stale = DEFINED_TWICE.keys() - doubles
    _check(f"{name} is defined once by now; remove the entry" for name in stale)


def test_every_init_but_the_package_s_own_is_empty() -> None:
    _check(
        f"{module.name}.py is not empty; move it to a module named after what it holds"
        for module in _modules()
        if module.is_init and module.folder and module.source
    )


def test_every_module_opens_with_what_it_owns() -> None:
    _check(
        f"{module.name}.py does not say what it owns; give it a docstring"
        for module in _modules()
        if not ast.get_docstring(module.tree) and not (module.is_init and module.folder)
    )


def test_the_lists_of_exceptions_name_modules_that_exist() -> None:
    names = {module.name for module in _modules()}
    stale_names = LAST_RESORTS.keys() - names
    _check(f"{name} is listed here and does not exist; remove the entry" for name in stale_names)


FORMS = "protocol/forms"
"""Where alone a model that a record reaches is made from a dict, or becomes one."""
CROSSINGS = {
    *("model_validate", "model_validate_json", "validate_python", "validate_json"),
    *("model_dump", "model_dump_json", "dump_python", "dump_json"),
}
DUMPED_BESIDE = {
    ("conversations/idempotency", "self.params"): "the params of a request",
    ("features/trust/trust", "server"): "a setting",
    ("frontends/lsp/client_tool_calls", "tool"): "a definition that the client sent",
    ("frontends/lsp/composition", "params"): "the params of a notification",
    ("frontends/lsp/handlers_conversation", "params"): "the params of a request",
    ("features/settings/handlers", "merged_settings.settings"): "the settings",
    ("frontends/lsp/plain/handlers_standard", "request.range"): "a structure of LSP",
    ("frontends/lsp/plain/handlers_standard", "action.range"): "a structure of LSP",
    ("frontends/lsp/plain/handlers_standard", "params"): "the params of a request to the client",
    ("jsonrpc/framing", "value"): "whatever crosses the wire",
    ("features/skills/tool", "s"): "a setting",
}
"""Module and model -> what it is instead of a record."""
NO_RECORDS = ("protocol/", "features/models/", "features/mcp/")
"""Units that handle no records."""


def test_models_become_records_and_records_models_in_one_module() -> None:
    [plain] = (module for module in _modules() if module.name == "protocol/plain")
    records = {name for node in plain.nodes for name in _names_made_by(node)}
    assert records >= {"Record", "FileChange", "StatusChanged", "Item"}
    crossings: set[tuple[str, str]] = set()
    problems: list[str] = []
    for module in _modules():
        for node in () if module.name.startswith(NO_RECORDS) else module.nodes:
            model, what = _crossing(node)
            place = (module.name, model)
            crossings.add(place)
            is_of_record = what and model.rpartition(".")[2] in records
            if place not in DUMPED_BESIDE and ("dump" in what or is_of_record):
                line = getattr(node, "lineno", 0)
                problems.append(f"{module.name}.py:{line} has {model}.{what}; ask {FORMS} for it")
    _check([*problems, *(f"{place} is stale" for place in DUMPED_BESIDE.keys() - crossings)])


def _names_made_by(node: ast.AST) -> list[str]:
    match node:
        case ast.ClassDef(name=name) | ast.Assign(targets=[ast.Name(id=name)]):
            return [name]
        case _:
            return []


def _crossing(node: ast.AST) -> tuple[str, str]:
    """Return the model, or what holds one, and how it changes its form; of no use, two times ""."""
    match node:
        case ast.Attribute(value=model, attr=attr) if attr in CROSSINGS:
            return ast.unparse(model), attr
        case ast.Call(func=ast.Name(id="TypeAdapter" | "cast" as attr), args=[model, *_]):
            return ast.unparse(model).strip("'\""), attr
        case _:
            return "", ""


def test_the_fields_that_tools_set_are_those_of_their_items() -> None:
    kinds = (items.ToolCallItem, items.CommandItem, items.FileChangeItem, items.PlanItem)
    fields = {name for kind in kinds for name in kind.model_json_schema()["properties"]}
    assert forms.ItemFields.__annotations__.keys() <= fields


def _words_of(module: Module) -> Iterator[str]:
    """Yield attributes, keywords and strings: every way in which code can name a field."""
    for node in module.nodes:
        match node:
            case ast.Attribute(attr=word) | ast.keyword(arg=str(word)) | ast.Constant(str(word)):
                yield word
            case _:
                pass


def test_every_field_of_the_contract_is_set_or_read_somewhere() -> None:
    users = [module for module in _modules() if module.folder != "protocol"]
    words = {word for module in users for word in _words_of(module)}
    unused_fields = [
        f"{model.__name__}.{name}"
        for model in _contract_models()
        for name, field in model.model_fields.items()
        if not {name, field.alias} & words
    ]
    assert unused_fields == []


def test_every_setting_and_parameter_is_read() -> None:
    read = {
        node.attr
        for module in _modules()
        if module.folder != "protocol"
        for node in module.nodes
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    }
    models: list[type[BaseModel]] = [Settings, *(method.params for method in protocol.REQUESTS)]
    unread = [
        f"{model.__name__}.{name}"
        for model in models
        for name in model.model_fields
        if name not in read
    ]
    assert unread == []


def _contract_models() -> Iterator[type[BaseModel]]:
    for path in (ROOT / "protocol").glob("*.py"):
        module = import_module(f"{PACKAGE}.protocol.{path.stem}")
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, BaseModel):
                yield value


def test_the_limits_that_are_told_are_those_that_hold() -> None:
    assert {
        "maxMessageBytes": framing.MAX_MESSAGE_BYTES,
        "outputPreviewBytes": output.HEAD_BYTES + output.TAIL_BYTES,
        "outputKeptBytes": output.MAX_SPILL_BYTES,
        "queuedMessages": delivery.MAX_QUEUE,
        "syncedDocumentBytes": sync.MAX_DOCUMENT_BYTES,
        "requestsInFlight": dispatch.MAX_IN_FLIGHT,
        "eventsPerPage": _longest(messages.EventsParams, "limit"),
        "conversationsPerPage": _longest(summaries.ListParams, "limit"),
        "partsPerMessage": _longest(messages.SendMessageParams, "content"),
        "textPartBytes": _longest(content.TextPart, "text"),
        # Base64 takes four characters for three bytes; both limits leave one byte of padding.
        "imageBytes": _longest(content.ImagePart, "data") // 4 * 3 - 1,
        "attachmentPieceBytes": _longest(composing.AttachmentPutParams, "data") // 4 * 3 - 1,
        "attachmentBytes": images.MAX_BYTES,
        "imagesPerMessage": images.MAX_IMAGES,
    } == protocol.LIMITS


def _longest(model: type[BaseModel], field: str) -> int:
    schema = model.model_json_schema()["properties"][field]
    schema = schema.get("anyOf", [schema])[0]
    return next(schema[key] for key in ("maximum", "maxItems", "maxLength") if key in schema)
