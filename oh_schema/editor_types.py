"""Renders the contract's models as types: protocol.ts, protocol.lua, plain.py and methods.pyi.

What has the same form in the log and on the wire is in plain.py alone; methods.pyi imports it.

Fields that the daemon always sends are required; fields that a client may leave out are optional.
`make schema` writes the files.
"""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from keyword import iskeyword
from textwrap import indent
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import SecretStr

from oh_daemon.protocol import connection, events
from oh_daemon.protocol import methods as protocol
from oh_daemon.protocol.base import Contract
from oh_daemon.protocol.methods import Method
from oh_daemon.protocol.settings import CHOICES

_CHOICES = "Values of the options, for pickers; an open conversation brings its own."
_HEAD = "What crosses the wire; written by `make schema`, explained in protocol.md."
_PYTHON_HEAD = '''"""The contract's models as plain dicts, the form in which logs are read.

Written by `make schema`, names and meanings are the models'. At run time this module is empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NotRequired, TypedDict

if TYPE_CHECKING:
'''
_METHODS_HEAD = '''"""What crosses the wire, as plain dicts, and each request as a method.

Written by `make schema`, explained in protocol.md. Only type checkers read it.
"""

from typing import Any, Literal, NotRequired, TypedDict, Unpack

'''
# In TypeScript, `Record` is a built-in type.
_RENAMED = {"Record": "LogRecord"}


@dataclass(frozen=True, slots=True)
class Language:
    """How a language writes types."""

    words: Mapping[Any, str]
    array: str
    mapping: str
    prefix: str = ""
    literal: str = "{}"
    between: str = " | "
    """What separates the values of a literal."""


_TS = Language(
    {str: "string", SecretStr: "string", int: "number", float: "number"}
    | {bool: "boolean", Any: "unknown"},
    "readonly {}[]",
    "Record<string, {}>",
)
_LUA = Language(
    {str: "string", SecretStr: "string", int: "integer", float: "number"}
    | {bool: "boolean", Any: "any"},
    "{}[]",
    "table<string, {}>",
    "oh.protocol.",
)
_PYTHON = Language(
    {kind: kind.__name__ for kind in (str, int, float, bool, events.Record)}
    | {SecretStr: "str", Any: "Any"},
    "list[{}]",
    "dict[str, {}]",
    literal="Literal[{}]",
    between=", ",
)


def render_typescript() -> str:
    """Render interfaces and unions, and every method with its types."""
    lines = [f"/** {_HEAD} */"]
    for name, alias in _aliases().items():
        lines += ["", f"export type {name} = {_union(alias, _TS)};"]
    for model, fields in _models().items():
        lines += ["", f"/** {_doc(model)} */"] if model.__doc__ else [""]
        lines += [f"export interface {_name(model)} {{"]
        lines += [
            f"  {name}{'' if always else '?'}: {_type_text(t, _TS)};" for name, t, always in fields
        ]
        lines += ["}"]
    for title, methods in _registry():
        lines += ["", f"export interface {title} {{"]
        lines += [f'  "{method.name}": {_ts_method(method)};' for method in methods]
        lines += ["}"]
    keys = " ".join(f"readonly {option}: readonly Choice[];" for option in CHOICES)
    lines += ["", f"/** {_CHOICES} */", f"export const CHOICES: {{ {keys} }} = {{"]
    lines += _choices("{}: [", 'value: "{}", label: "{}"', "]")
    return "\n".join([*lines, "};"]) + "\n"


def _ts_method(method: Method) -> str:
    params = _name(method.params)
    return params if method.result is None else f"[{params}, {_name(method.result)}]"


def render_lua() -> str:
    """Render annotations for the language server, and the names of the methods."""
    lines = ["-- luacheck: no max line length", f"-- {_HEAD}", ""]
    for name, alias in _aliases().items():
        lines += [f"---@alias {_LUA.prefix}{name} {_union(alias, _LUA)}", ""]
    for model, fields in _models().items():
        lines += [f"--- {_doc(model)}"] if model.__doc__ else []
        lines += [f"---@class (exact) {_LUA.prefix}{_name(model)}"]
        lines += [
            f"---@field {name}{'' if always else '?'} {_type_text(t, _LUA)}"
            for name, t, always in fields
        ]
        lines += [""]
    lines += ["local M = {}"]
    for title, methods in _registry():
        lines += ["", f"M.{title} = {{"]
        lines += [f'  ["{method.name}"] = true, -- {_lua_method(method)}' for method in methods]
        lines += ["}"]
    lines += ["", f"--- {_CHOICES}", "M.CHOICES = {"]
    lines += _choices("{} = {{", 'value = "{}", label = "{}"', "}")
    return "\n".join([*lines, "}", "", "return M"]) + "\n"


def _lua_method(method: Method) -> str:
    params = _LUA.prefix + _name(method.params)
    return params if method.result is None else f"{params} -> {_LUA.prefix}{_name(method.result)}"


def render_python() -> str:
    """Render what a line of the log holds as `TypedDict`s, and the unions among them."""
    classes, aliases = _in_log()
    # To make the classes takes 9 ms, which no start of the daemon must pay.
    text = "\n".join([*(_python_class(model, classes) for model in classes), *_unions(aliases)])
    return format_code(_PYTHON_HEAD + indent(text, "    "))


def render_python_methods() -> str:
    """Render all of the wire as `TypedDict`s, and each request as a method, for both clients."""
    in_log, log_aliases = _in_log()
    wire = _models()
    alike = _alike(wire, in_log)
    own = {model: fields for model, fields in wire.items() if model not in alike}
    classes = _with_bases(own) | alike
    lines = [_python_class(model, classes) for model in classes if model not in alike]
    is_alike = {name: {*_reachable_models(t, [])} <= {*alike} for name, t in log_aliases.items()}
    lines += _unions({name: t for name, t in _aliases().items() if not is_alike.get(name)})
    for title, word in (("Methods", "def"), ("AsyncMethods", "async def")):
        lines += [f"class {title}:"]
        for method in protocol.REQUESTS:
            result = method.result.__name__ if method.result else "None"
            name = protocol.function_name(method.name)
            lines += [
                f"    {word} {name}(self, **params: Unpack[{method.params.__name__}]) -> {result}:"
            ]
            lines += [f'        """{method.doc}"""']
    text = "\n".join(lines)
    names = [
        *(model.__name__ for model in alike),
        *(name for name, alike_too in is_alike.items() if alike_too),
    ]
    used_names = sorted(name for name in names if re.search(rf"\b{name}\b", text))
    import_line = f"from oh_daemon.protocol.plain import {', '.join(used_names)}\n\n"
    return format_code(_METHODS_HEAD + import_line + text, "--stdin-filename=methods.pyi")


def _in_log() -> tuple[dict[type[Contract], list[Field]], dict[str, Any]]:
    """Return the models that a line of the log holds, with their fields, and the unions of them."""
    models: list[type[Contract]] = []
    _reachable_models(events.Record, models)
    classes = _with_bases({model: list(_fields(model, may_omit=False)) for model in models})
    text = "\n".join(_python_class(model, classes) for model in classes)
    aliases: dict[str, Any] = {}
    for name, alias in reversed(_aliases().items()):
        is_used = re.search(rf"\b{name}\b", "\n".join([text, *_unions(aliases)]))
        if is_used or {*get_args(alias)} <= {*models}:
            aliases = {name: alias, **aliases}
    return classes, aliases


def _alike(
    wire: Mapping[type[Contract], list[Field]], in_log: Mapping[type[Contract], list[Field]]
) -> dict[type[Contract], list[Field]]:
    """Return the models of the wire that are the same in the log, down to all that is in them."""
    differing = {model for model, fields in wire.items() if in_log.get(model) != fields}
    return {
        model: fields
        for model, fields in wire.items()
        if differing.isdisjoint(_reachable_models(model, []))
    }


def _with_bases(models: Mapping[type[Contract], list[Field]]) -> dict[type[Contract], list[Field]]:
    """Add what the models extend, with those fields of theirs, before them."""
    classes: dict[type[Contract], list[Field]] = {}
    for model, fields in models.items():
        for base in _bases(model):
            names = {name for name, *_ in _fields(base, may_omit=False)}
            base_fields = [field for field in fields if field[0] in names]
            classes.setdefault(base, models.get(base, base_fields))
    return classes


def _bases(model: type[Contract]) -> list[type[Contract]]:
    """Return the models that this one extends, and at the end this one."""
    line = reversed(model.__mro__)
    return [base for base in line if issubclass(base, Contract) and base is not Contract]


def _python_class(model: type[Contract], classes: Mapping[type[Contract], Sequence[Field]]) -> str:
    """Render a model; what it extends is extended here if its fields are the same there."""
    fields = classes[model]
    above = (base for base in reversed(_bases(model)[:-1]) if base in classes)
    base = next((b for b in above if all(field in fields for field in classes[b])), None)
    base_fields = classes[base] if base else ()
    own = {name: _presence(t, always) for name, t, always in fields}
    if any(map(iskeyword, own)):
        return f"{model.__name__} = TypedDict({model.__name__!r}, {own})"
    for name, *_ in base_fields:
        del own[name]
    lines = [f"{name}: {kind}" for name, kind in own.items()] or ["..."]
    above_it = base.__name__ if base else "TypedDict"
    return "\n    ".join([f"class {model.__name__}({above_it}):", *lines])


def _presence(annotation: Any, always: bool) -> str:
    kind = _type_text(annotation, _PYTHON)
    return kind if always else f"NotRequired[{kind}]"


def _unions(aliases: Mapping[str, Any]) -> list[str]:
    return [f"{name} = {_union(alias, _PYTHON)}" for name, alias in aliases.items()]


def format_code(code: str, *options: str) -> str:
    """Return Python as our formatter writes it."""
    ruff = (sys.executable, "-m", "ruff", "format", "--isolated", "--line-length=100")
    command = (*ruff, *options, "-")
    return subprocess.run(command, input=code, capture_output=True, text=True, check=True).stdout


def _choices(begin: str, choice: str, end: str) -> Iterator[str]:
    for option, choices in CHOICES.items():
        yield f"  {begin.format(option)}"
        yield from (f"    {{ {choice.format(*each)} }}," for each in choices.items())
        yield f"  {end},"


def _registry() -> tuple[tuple[str, Sequence[Method]], ...]:
    return (
        ("Requests", protocol.REQUESTS),
        ("ClientNotifications", protocol.CLIENT_NOTIFICATIONS),
        ("Notifications", protocol.NOTIFICATIONS),
        ("ClientRequests", protocol.CLIENT_REQUESTS),
    )


def _name(model: type[Contract]) -> str:
    return _RENAMED.get(model.__name__, model.__name__)


def _doc(model: type[Contract]) -> str:
    return inspect.cleandoc(model.__doc__ or "").split("\n")[0]


@cache
def _aliases() -> dict[str, Any]:
    """Return the unions and literals that have a name in the contract."""
    modules = ("content", "status", "items", "approvals", "events", *protocol.MODULES)
    aliases = {
        name: _bare(value)
        for module in modules
        for name, value in vars(import_module(f"oh_daemon.protocol.{module}")).items()
    }
    return {name: t for name, t in aliases.items() if get_origin(t) in (Literal, Union, UnionType)}


Field = tuple[str, Any, bool]


def _models() -> dict[type[Contract], list[Field]]:
    """Return every model that a method needs, with each field's name, type and presence."""
    models: list[type[Contract]] = []
    from_client: set[type[Contract]] = set()
    for method in (*protocol.REQUESTS, *protocol.CLIENT_NOTIFICATIONS):
        from_client |= _reachable_models(method.params, models)
    from_client |= _reachable_models(connection.ClientBlock, models)
    for method in protocol.CLIENT_REQUESTS:
        from_client |= _reachable_models(method.result, models)
    for _title, methods in _registry():
        for method in methods:
            _reachable_models(method.params, models)
            _reachable_models(method.result, models)
    for block in connection.MODELS:
        _reachable_models(block, models)
    return {model: list(_fields(model, may_omit=model in from_client)) for model in models}


def _reachable_models(annotation: Any, models: list[type[Contract]]) -> set[type[Contract]]:
    """Return the models within a type, and append the new ones to `models`."""
    if not (inspect.isclass(annotation) and issubclass(annotation, Contract)):
        return {m for part in get_args(annotation) for m in _reachable_models(part, models)}
    if annotation is events.UnknownEvent:
        return set()
    if annotation not in models:
        models.append(annotation)
    found_annotations = {annotation}
    for field in annotation.model_fields.values():
        found_annotations |= _reachable_models(field.annotation, models)
    return found_annotations


def _fields(model: type[Contract], *, may_omit: bool) -> Iterator[Field]:
    for name, field in model.model_fields.items():
        annotation = field.annotation
        is_tag = get_origin(annotation) is Literal and len(get_args(annotation)) == 1
        optional = field.default is None or (may_omit and not is_tag)
        always = field.is_required() or not optional
        yield field.serialization_alias or field.alias or name, annotation, always


def _type_text(annotation: Any, language: Language) -> str:
    bare = _bare(annotation)
    for name, alias in _aliases().items():
        if alias == bare:
            return language.prefix + name
    return _union(bare, language)


def _union(bare: Any, language: Language) -> str:
    origin, parts = get_origin(bare), get_args(bare)
    if origin is Literal:
        return language.literal.format(language.between.join(map(json.dumps, parts)))
    if origin in (Union, UnionType):
        known_parts = [part for part in parts if part not in (NoneType, events.UnknownEvent)]
        return " | ".join(dict.fromkeys(_type_text(part, language) for part in known_parts))
    if origin is tuple:
        inner = _type_text(parts[0], language)
        return language.array.format(f"({inner})" if " | " in inner else inner)
    if origin is dict:
        return language.mapping.format(_type_text(parts[1], language))
    return language.words.get(bare) or language.prefix + _name(bare)


def _bare(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
