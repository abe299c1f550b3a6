"""The layers, the owner of each library and the size limits, as data; a failure says what to move.

Imports are read from the syntax tree, so lazy imports and those for type checkers count too.
"""

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from inspect import signature
from pathlib import Path

import pytest
from pydantic import BaseModel

from oh_daemon.features.attachments import images
from oh_daemon.features.terminal import output
from oh_daemon.frontends.lsp import methods, sync
from oh_daemon.jsonrpc import dispatch, framing
from oh_daemon.kernel import delivery
from oh_daemon.protocol import composing, content, forms, items, messages, summaries
from oh_daemon.protocol import methods as protocol
from oh_daemon.protocol.settings import Settings

PACKAGE = "oh_daemon"
ROOT = Path(__file__).parents[2] / PACKAGE

ADAPTERS = {"model", "tools", "store", "workspace", "sandbox", "mcp_servers"}
LAYERS: dict[str, set[str]] = {
    "contract": set(),
    "core": {"contract"},
    "model": {"contract", "core"},
    "store": {"contract", "core"},
    "workspace": {"contract", "core"},
    "sandbox": {"contract", "core", "workspace"},
    "tools": {"contract", "core", "workspace", "sandbox"},
    "mcp_servers": {"contract", "core", "workspace"},
    "app": {"contract", "core", *ADAPTERS},
    "fronts": {"contract", "core", *ADAPTERS, "app", "conformance"},
    "conformance": set(),
    "": {"contract", "core", *ADAPTERS, "app", "fronts"},
}
"""Folder -> the lower folders that it may import; "" is the package's top level."""
FRONTS = {
    "cli": {"lsp", "acp", "fleet", "remote", "serve", "client", "wire"},
    "fleet": {"library"},
    "lsp": {"wire"},
    "serve": {"lsp", "wire"},
    "acp": {"wire"},
    "remote": {"lsp", "client", "wire"},
    "library": {"client", "remote", "wire"},
    "client": {"wire"},
    "wire": set[str](),
}
"""Front -> what it may import beside it: `wire` lies below those that speak JSON-RPC."""
BELOW_WIRE = {"protocol/errors", "protocol/base", "common/cancel", "common/plain_text"}
"""All that `fronts/wire` may import: it knows no conversation."""

PROCESSES = (
    *("system/spawner", "system/reaper", "system/pty", "features/terminal/shell"),
    *("features/sandbox/landlock", "features/sandbox/entry"),
    "features/models/litellm_calls",
    "features/sandbox/monitor",
    "frontends/fleet/engines",
    "conformance/",
)
OWNERS: dict[str, tuple[str, ...]] = {
    "litellm": ("features/models/litellm_child",),
    "mcp": ("mcp_servers/",),
    "pygls": ("frontends/lsp/positions",),
    "lsprotocol": ("fronts/lsp/",),
    "typer": ("fronts/cli/",),
    "rich": ("fronts/cli/", "features/export/event_lines"),
    "markdown_it": ("features/export/page",),
    "charset_normalizer": ("workspace/encodings",),
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

CONTRACT_LIBRARIES = {PACKAGE, "pydantic", "pydantic_core"} | set(sys.stdlib_module_names)
CORE_HAS_NO = {
    *("asyncio", "http", "os", "select", "shutil", "signal", "socket", "sqlite3", "tempfile"),
    *("httpx", "requests"),
}
"""Libraries that do I/O; core gets its I/O through its ports."""

STARTS_THREADS = {
    *("threading.Thread", "Thread", "threading.Timer", "Timer", "ThreadPoolExecutor"),
    *("asyncio.to_thread", "start_thread", "on_own_thread"),
}
"""What is called to start a thread; the last two are helpers of ours."""

LAST_RESORTS = {
    "kernel/actions": "a tool call: whatever a tool does wrong is an observation",
    "kernel/tool_calls": "a tool's plan: whatever breaks there is told to the model",
    "kernel/agent": "the turn loop: a bug ends the turn, not the daemon",
    "features/approval/program_policy": "judgement of a program: what breaks there is asked about",
    "common/masking": "a program's function: what it raises may hold the secret",
    "features/risk/rating": "a rating: what breaks there is high, so a person is asked",
    "frontends/acp/projector": "an update: whatever breaks there leaves out that update only",
    "frontends/client/connection": "what comes from a daemon: whoever waits hears what breaks there",
    "frontends/library/remote_agent": "a program's function: what it raises is told the model",
    "frontends/lsp/lifecycle": "the start: what breaks there is logged and ends the daemon",
    "jsonrpc/main_loop": "the stop: what breaks there is logged and the rest goes on",
    "features/models/litellm_child": "one call through litellm: whatever breaks in it is told to its caller",
    "system/io_loop": "a coroutine: what it raises is raised again where somebody waits for it",
    "features/models/system_keyring": "a backend of the keyring: what it raises is told without its text",
    "features/mcp/server": "an MCP server: whatever it sends ends that server only",
    "jsonrpc/dispatch": "the request handler: a bug is an answer with a reference",
}
"""The only modules with `except Exception`, and what each protects."""

MAX_MODULE_LINES = 400
MAX_FUNCTION_LINES = 50
SHORT_FUNCTION_LINES = 30
SHORT_SHARE = 0.95
MAX_DOCSTRING_LINES = 4
LONG_DOCSTRINGS = {"protocol/errors"}
"""Modules that may have a longer docstring: this one draws the tree of exceptions."""

PARTICIPLES = {
    *("asked", "chosen", "done", "found", "given", "gone", "held", "kept", "known", "left", "lent"),
    *("listed", "lost", "made", "meant", "met", "moved", "named", "owned", "said", "saved", "seen"),
    *("sent", "shown", "spoken", "stated", "stored", "taken", "told", "used", "wanted", "written"),
}
"""Words that say what was done to a thing; a name says what it is, as in `matches` or `report`."""
MAX_PARTICIPLE_LINES = 6
"""A variable or parameter whose name is a participle lives no longer, from first to last use."""
NAMED_ELSEWHERE = {
    "kernel/state": {"used"},
    "features/isolation/isolated_overlay": {"given"},
    "frontends/acp/schema": {"used"},
    "frontends/library/library_conversation": {"moved"},
}
"""Module -> fields that are keys of a plain dict, or whose names are on the disk or another's, and
a keyword that programs pass: `Conversation(…, moved=True)`."""


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
        here = [PACKAGE, *self.name.split("/")[:-1]]
        for node in self.nodes:
            if isinstance(node, ast.Import):
                yield from ((alias.name, node.lineno) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                parents = here[: len(here) + 1 - node.level] if node.level else []
                base = ".".join([*parents, *filter(None, [node.module])])
                yield from ((f"{base}.{alias.name}", node.lineno) for alias in node.names)


@dataclass(frozen=True)
class Function:
    where: str
    n_lines: int
    """Without decorators and docstring."""


@cache
def _modules() -> tuple[Module, ...]:
    # The demo project is a file tree that the demo copies, not a part of the program.
    paths = [path for path in sorted(ROOT.rglob("*.py")) if "demo_project" not in path.parts]
    sources = [(path, path.read_text("utf-8")) for path in paths]
    return tuple(
        Module(path.relative_to(ROOT).with_suffix("").as_posix(), source, ast.parse(source))
        for path, source in sources
    )


def _functions(module: Module) -> Iterator[Function]:
    for node in module.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            has_docstring = ast.get_docstring(node) is not None
            n_docstring = (first.end_lineno or 0) - first.lineno + 1 if has_docstring else 0
            n_lines = (node.end_lineno or 0) - node.lineno + 1 - n_docstring
            yield Function(f"{module.name}.py:{node.lineno} {node.name}", n_lines)


def _check(problems: Iterable[str]) -> None:
    if text := "\n".join(problems):
        pytest.fail(text, pytrace=False)


def test_imports_go_down_only() -> None:
    problems: list[str] = []
    for module in _modules():
        for name, line in module.imports:
            target = _folder_of(name)
            allowed = LAYERS.get(module.folder, set()) | {module.folder}
            if name.startswith(f"{PACKAGE}.") and target in LAYERS and target not in allowed:
                problems.append(
                    f"{module.name}.py:{line} imports {name}: {module.folder}/ may not know "
                    f"{target}/; move the shared part down, or take it as a port of core/ports"
                )
    _check(problems)


def test_fronts_do_not_know_each_other() -> None:
    problems: list[str] = []
    for module in _modules():
        here = _front_of(f"{PACKAGE}.{module.name.replace('/', '.')}")
        for name, line in module.imports if here else ():
            other = _front_of(name)
            if other not in {"", here, *FRONTS.get(here, ())}:
                problems.append(
                    f"{module.name}.py:{line} imports {name}: fronts/{here} may not know "
                    f"fronts/{other}; move what both need to app/"
                )
    _check(problems)


def test_what_any_front_needs_of_the_wire_knows_no_conversation() -> None:
    names = {module.name for module in _modules()}
    _check(
        f"{module.name}.py imports {needed}; only a front knows what is said over the wire"
        for module in _modules()
        if module.name.startswith("fronts/wire/")
        for needed in _needed_by(module, names)
        if not needed.startswith("fronts/wire/") and needed not in BELOW_WIRE
    )


def _front_of(name: str) -> str:
    """Return the front that a dotted name points into, "" if none."""
    return f"{name}...".split(".")[2] if name.startswith(f"{PACKAGE}.fronts.") else ""


HANDLERS_TAKE = {
    *("daemon", "params", "context", "folders", "request", "conversation_id", "live", "history"),
}


def test_each_method_has_a_handler_that_takes_what_its_row_gives() -> None:
    assert methods.NEEDS.keys() == {method.name for method in protocol.REQUESTS}
    problems: list[str] = []
    for module, rows in methods.METHODS.items():
        handlers = vars(import_module(f"{PACKAGE}.fronts.lsp.{module}"))
        for name, needs in rows.items():
            takes = set(signature(handlers[protocol.function_name(name)]).parameters)
            of = needs.conversation
            is_history, is_live = of == "history", of not in {"none", "new", "history"}
            if takes - HANDLERS_TAKE or ("history" in takes, "live" in takes) != (
                is_history,
                is_live,
            ):
                problems.append(
                    f"{protocol.function_name(name)} takes {takes}, its row says {of!r}"
                )
    _check(problems)


def test_no_modules_need_each_other() -> None:
    names = {module.name for module in _modules()}
    needs = {module.name: _needed_by(module, names) for module in _modules()}
    while free := [name for name, needed in needs.items() if not needed & needs.keys()]:
        needs = {name: needed for name, needed in needs.items() if name not in free}
    # What is left is in a circle, or needs one.
    while over := needs.keys() - set[str]().union(*needs.values()):
        needs = {name: needed for name, needed in needs.items() if name not in over}
    if needs:
        pytest.fail(f"these need each other: {sorted(needs)}; move what they share down")


def _needed_by(module: Module, names: set[str]) -> set[str]:
    """Return the modules that it imports: each dotted name is a module, or something in one."""
    paths = [name.removeprefix(f"{PACKAGE}.").replace(".", "/") for name, _ in module.imports]
    return {path if path in names else path.rpartition("/")[0] for path in paths} & names


def test_every_folder_of_the_package_has_a_layer() -> None:
    unknown = {module.folder for module in _modules()} - LAYERS.keys()
    _check(
        [f"{folder}/ has no layer; add it to LAYERS and docs/decisions.md" for folder in unknown]
    )


def test_nothing_inside_imports_from_the_package_itself() -> None:
    _check(
        f"{module.name}.py:{line} imports {name} from the package's top, which loads the public "
        "API; import it from the module that defines it"
        for module in _modules()
        for name, line in module.imports
        if name.partition(".")[0] == PACKAGE and _folder_of(name) not in LAYERS
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


def test_the_contract_needs_nothing_but_pydantic() -> None:
    _check(
        f"{module.name}.py:{line} imports {name}; contract/ is stdlib and pydantic, "
        "move what needs more into an adapter"
        for module in _modules()
        if module.folder == "contract"
        for name, line in module.imports
        if name.partition(".")[0] not in CONTRACT_LIBRARIES
    )


def test_the_checks_of_other_servers_need_nothing_of_ours() -> None:
    mine, command = f"{PACKAGE}.conformance", "frontends/cli/conformance"
    _check(
        f"{module.name}.py:{line} imports {name}; conformance/ is stdlib, for its command alone"
        for module in _modules()
        for name, line in module.imports
        if (
            not name.startswith(mine) and name.partition(".")[0] not in sys.stdlib_module_names
            if module.folder == "conformance"
            else name.startswith(mine) and module.name != command
        )
    )


def test_core_does_no_io_of_its_own() -> None:
    _check(
        f"{module.name}.py:{line} uses {name}; core asks for I/O through a port, "
        "move the act into an adapter"
        for module in _modules()
        if module.folder == "core"
        for name, line in [*module.imports, *_calls_of_open(module)]
        if name.partition(".")[0] in {*CORE_HAS_NO, "open()"}
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
    caught = "BaseException" if handler.type is None else ast.unparse(handler.type)
    # A handler that raises the error again, or hands it to whoever waits for it, hides nothing.
    raises_again = isinstance(handler.body[-1], ast.Raise) and handler.body[-1].exc is None
    hands_on = any(".set_exception(" in ast.unparse(statement) for statement in handler.body)
    return caught in {"Exception", "BaseException"} and not raises_again and not hands_on


def test_every_thread_is_in_the_table_of_threads() -> None:
    page = (ROOT.parent / "docs/architecture.md").read_text("utf-8")
    table = page.partition("| Thread |")[2].partition("\n\n")[0]
    names: dict[str, list[str]] = {}
    for row in table.splitlines():
        threads, places = (re.findall(r"`([^`]+)`", cell) for cell in f"{row}||".split("|")[1:3])
        for place in places:
            names[place] = names.get(place, []) + [name.partition("<")[0] for name in threads]
    starting = {module.name: module.source for module in _modules() if _starts_threads(module)}
    assert names.keys() - starting.keys() == set()
    _check(
        f"{name}.py starts a thread that is not in the table of docs/architecture.md"
        for name in starting
        if name not in names
    )
    _check(
        f"{place}.py names no thread {name!r}, as the table of docs/architecture.md says"
        for place, listed in names.items()
        for name in listed
        if f'"{name}' not in starting[place] and name != "asyncio_"
    )


def _starts_threads(module: Module) -> bool:
    calls = (node for node in module.nodes if isinstance(node, ast.Call))
    is_helper = module.name == "jsonrpc/serial"  # Its callers give the name.
    return not is_helper and any(ast.unparse(call.func) in STARTS_THREADS for call in calls)


def test_no_module_reaches_the_limit_of_lines() -> None:
    sizes = {module.name: len(module.source.splitlines()) for module in _modules()}
    _check(
        f"{name}.py has {n_lines} lines, the limit is {MAX_MODULE_LINES - 1}; "
        "it holds two concepts: give the second a module"
        for name, n_lines in sizes.items()
        if n_lines >= MAX_MODULE_LINES and name != "protocol/plain"  # `make schema` writes it.
    )


def test_no_function_is_too_long_and_nearly_all_are_short() -> None:
    functions = [function for module in _modules() for function in _functions(module)]
    longer = [function for function in functions if function.n_lines >= SHORT_FUNCTION_LINES]
    problems = [
        f"{function.where} has {function.n_lines} lines, the limit is {MAX_FUNCTION_LINES}; split "
        "what it decides from what it does"
        for function in longer
        if function.n_lines > MAX_FUNCTION_LINES
    ]
    if len(longer) > (1 - SHORT_SHARE) * len(functions):
        longest = sorted(longer, key=lambda function: -function.n_lines)[:5]
        problems.append(
            f"{len(longer)} of {len(functions)} functions have {SHORT_FUNCTION_LINES} lines or "
            f"more, {1 - SHORT_SHARE:.0%} may; split "
            + ", ".join(f"{function.where} ({function.n_lines})" for function in longest)
        )
    _check(problems)


def test_nothing_that_lives_long_is_named_by_a_participle() -> None:
    _check(
        f"{module.name}.py:{line} {name} says what was done to it; say what it is"
        for module in _modules()
        if module.folder != "contract"
        for name, line in (*_fields(module), *_long_lived(module))
        if name not in NAMED_ELSEWHERE.get(module.name, ())
    )


def _fields(module: Module) -> Iterator[tuple[str, int]]:
    """Yield participles that classes declare or that are set on objects, each with its line."""
    for node in module.nodes:
        if isinstance(node, ast.ClassDef):
            targets = (each.target for each in node.body if isinstance(each, ast.AnnAssign))
            names = [(each.id, each.lineno) for each in targets if isinstance(each, ast.Name)]
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names = [(node.attr, node.lineno)]
        else:
            continue
        yield from (each for each in names if _is_participle(each[0]))


def _long_lived(module: Module) -> Iterator[tuple[str, int]]:
    """Yield parameters and variables that are participles, and live long, with the first line."""
    for function in module.nodes:
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            uses = [use for use in _names_in(function) if _is_participle(use[0])]
            for name in {name for name, _, is_bound in uses if is_bound}:
                lines = [line for each, line, _ in uses if each == name]
                if max(lines) - min(lines) > MAX_PARTICIPLE_LINES:
                    yield name, min(lines)


def _names_in(function: ast.AST) -> Iterator[tuple[str, int, bool]]:
    """Yield each use of a name, with its line and whether the name gets its value there."""
    for node in ast.walk(function):
        match node:
            case ast.Name(id=name, lineno=line, ctx=context):
                yield name, line, isinstance(context, ast.Store)
            case ast.arg(arg=name, lineno=line) | ast.MatchAs(name=str(name), lineno=line):
                yield name, line, True
            case _:
                pass


def _is_participle(name: str) -> bool:
    return name.strip("_") in PARTICIPLES


def test_every_init_but_the_package_s_own_is_empty() -> None:
    _check(
        f"{module.name}.py is not empty; move it to a module named after what it holds"
        for module in _modules()
        if module.is_init and module.folder and module.source
    )


def test_every_module_opens_with_what_it_owns() -> None:
    problems: list[str] = []
    for module in _modules():
        docstring = ast.get_docstring(module.tree) or ""
        n_lines = len([line for line in docstring.splitlines() if line])
        if not n_lines and not (module.is_init and module.folder):
            problems.append(f"{module.name}.py does not say what it owns; give it a docstring")
        if n_lines > MAX_DOCSTRING_LINES and module.name not in LONG_DOCSTRINGS:
            problems.append(
                f"{module.name}.py opens with {n_lines} lines; {MAX_DOCSTRING_LINES} are enough, "
                "move the rest to docs/architecture.md"
            )
    _check(problems)


def test_the_lists_of_exceptions_name_modules_that_exist() -> None:
    names = {module.name for module in _modules()}
    stale = (LAST_RESORTS.keys() | LONG_DOCSTRINGS) - names
    _check(f"{name} is listed here and does not exist; remove the entry" for name in stale)


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
    ("frontends/lsp/composition", "told"): "the params of a notification",
    ("frontends/lsp/handlers_conversation", "params"): "the params of a request",
    ("frontends/lsp/handlers_daemon", "merged.settings"): "the settings",
    ("frontends/lsp/plain/handlers_standard", "request.range"): "a structure of LSP",
    ("frontends/lsp/plain/handlers_standard", "action.range"): "a structure of LSP",
    ("frontends/lsp/plain/handlers_standard", "params"): "the params of a request to the client",
    ("jsonrpc/framing", "value"): "whatever crosses the wire",
    ("features/memory/tool", "s"): "a setting",
}
"""Module and model -> what it is instead of a record; `model` and `mcp_servers` have none."""


def test_models_become_records_and_records_models_in_one_module() -> None:
    [plain] = (module for module in _modules() if module.name == "protocol/plain")
    records = {name for node in plain.nodes for name in _names_made_by(node)}
    assert records >= {"Record", "FileChange", "StatusChanged", "Item"}
    seen: set[tuple[str, str]] = set()
    problems: list[str] = []
    for module in _modules():
        for node in (
            module.nodes if module.folder not in {"contract", "model", "mcp_servers"} else ()
        ):
            model, what = _crossing(node)
            place = (module.name, model)
            seen.add(place)
            is_of_record = what and model.rpartition(".")[2] in records
            if place not in DUMPED_BESIDE and ("dump" in what or is_of_record):
                line = getattr(node, "lineno", 0)
                problems.append(f"{module.name}.py:{line} has {model}.{what}; ask {FORMS} for it")
    _check([*problems, *(f"{place} is stale" for place in DUMPED_BESIDE.keys() - seen)])


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
    users = [module for module in _modules() if module.folder != "contract"]
    words = {word for module in users for word in _words_of(module)}
    unused = [
        f"{model.__name__}.{name}"
        for model in _contract_models()
        for name, field in model.model_fields.items()
        if not {name, field.alias} & words
    ]
    assert unused == []


def test_every_setting_and_parameter_is_read() -> None:
    read = {
        node.attr
        for module in _modules()
        if module.folder != "contract"
        for node in module.nodes
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    }
    taken: list[type[BaseModel]] = [Settings, *(method.params for method in protocol.REQUESTS)]
    unread = [
        f"{model.__name__}.{name}"
        for model in taken
        for name in model.model_fields
        if name not in read
    ]
    assert unread == []


def _contract_models() -> Iterator[type[BaseModel]]:
    for path in (ROOT / "contract").glob("*.py"):
        module = import_module(f"{PACKAGE}.contract.{path.stem}")
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
