"""Translates calls of other agents' tools, on which models were trained, into calls of ours.

Pure, and about form only: a name changes only where ours means exactly the same, nothing that the
model said is dropped, and what already uses our names stays as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any, cast

from oh_daemon.kernel.ports import Json

_TOOLS: Mapping[str, tuple[str, str | None]] = {
    **dict.fromkeys(
        ("bash", "execute_bash", "execute_command", "run_command", "run_terminal_cmd", "shell"),
        ("terminal", None),
    ),
    **dict.fromkeys(
        ("file_editor", "str_replace_editor", "str_replace_based_edit_tool", "multiedit"),
        ("edit", None),
    ),
    **dict.fromkeys(("read", "read_file", "view"), ("edit", "view")),
    **dict.fromkeys(("write", "write_file", "create_file"), ("edit", "create")),
    **dict.fromkeys(("ls", "list_dir", "list_files"), ("list", None)),
    **dict.fromkeys(("task_tracker", "todowrite", "todo_write"), ("todo", None)),
}
"""Other names of a tool, in lower case: our name, and the command that a call by it implies."""
_ARGUMENTS: Mapping[str, Mapping[str, str]] = {
    "terminal": {
        "cmd": "command",
        "timeout": "timeout_s",
        **dict.fromkeys(("run_in_background", "is_background"), "background"),
    },
    "edit": {
        **dict.fromkeys(("file_path", "filename"), "path"),
        **dict.fromkeys(("old_str", "old_string"), "old_text"),
        **dict.fromkeys(("new_str", "new_string"), "new_text"),
        **dict.fromkeys(("file_text", "content"), "text"),
    },
    "grep": {
        "regex": "pattern",
        "include": "glob",
        "output_mode": "mode",
        "-i": "ignore_case",
        "-C": "context",
        "head_limit": "limit",
    },
    "todo": {"todos": "tasks"},
    "apply_patch": {"patch": "input"},
}
_ENTRIES: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "edit": {"edits": _ARGUMENTS["edit"]},
    "todo": {"tasks": {"content": "text"}},
}
"""The same for the objects in an argument that is a list."""
_VALUES = {
    ("edit", "command"): {"str_replace": "replace", "read": "view", "write": "create"},
    ("grep", "mode"): {"files_with_matches": "files"},
}
_INFERRED = (
    ("replace", ("old_text", "edits")),
    ("insert", ("insert_line",)),
    ("create", ("text",)),
    ("view", ("path",)),
)
"""Commands of `edit`, and the arguments that imply one when it is missing."""
WORDS_ABOUT_A_CALL = ("description", "explanation")
"""Arguments by which other agents' tools let the model say what a call is for."""
_KEY = re.compile(r"(?i)\A(?:ctrl|control)[-+]([a-z])\Z")
_FENCE = re.compile(r"```\w*\s*(.*?)\s*```", re.DOTALL)
_LONE_BACKSLASH = re.compile(r'(\\["\\/bfnrtu])|\\')
_PYTHON = re.compile(
    r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'"""
    r"""|,(?=\s*[}\]])|\b(?:True|False|None)\b""",
    re.DOTALL,
)
"""Strings, which only get other quotes; a comma before a bracket; Python's words."""
_IN_QUOTES = re.compile(r'\\.|"', re.DOTALL)
_JSON_WORDS = {"True": "true", "False": "false", "None": "null"}
_TYPES = {
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


def own_name(name: str, tools: Collection[str]) -> tuple[str, str | None]:
    """Return our name of the tool that is meant, and the command that the given name implies."""
    if name in tools:
        return name, None
    small = name.lower()
    return _TOOLS.get(small, (small, None))


def strict_json(text: str) -> str:
    """Return the text without a fence around it, each lone backslash (as in a regex) doubled."""
    fence = _FENCE.fullmatch(text.strip())
    return _LONE_BACKSLASH.sub(lambda match: match[1] or "\\\\", fence[1] if fence else text)


def repaired_json(text: str) -> str:
    """Return the text with strings and words of Python's as JSON has them, without last commas."""
    return _PYTHON.sub(_as_json, text)


def _as_json(match: re.Match[str]) -> str:
    part = match[0]
    if part.startswith("'"):
        return f'"{_IN_QUOTES.sub(_requoted, part[1:-1])}"'
    return part if part.startswith('"') else _JSON_WORDS.get(part, "")


def _requoted(match: re.Match[str]) -> str:
    return {"\\'": "'", '"': '\\"'}.get(match[0], match[0])


def in_our_words(tool: str, schema: Json, args: Json, command: str | None) -> Json:
    """Return the arguments of a call of `tool` with the names and types of its schema."""
    properties = schema.get("properties", {})
    own_args = _rename_args(
        args, {a: b for a, b in _ARGUMENTS.get(tool, {}).items() if b in properties}
    )
    for (of, name), values in _VALUES.items():
        if of == tool and isinstance(own_args.get(name), str):
            own_args[name] = values.get(own_args[name], own_args[name])
    if tool == "edit" and "command" in properties:
        own_args = _edit(own_args, command)
    _respell(tool, own_args)
    for name, words in _ENTRIES.get(tool, {}).items():
        if isinstance(own_args.get(name), list):
            own_args[name] = [_rename_args(each, words) for each in own_args[name]]
    return {
        name: _convert_value(value, properties.get(name, {})) for name, value in own_args.items()
    }


def _respell(tool: str, args: Json) -> None:
    match tool, args:
        case "grep", {"pattern": str(pattern)}:
            # In JSON a single backslash before a b is a backspace; nobody searches for that.
            args["pattern"] = pattern.replace("\b", r"\b")
            args.pop("-n", None)  # Lines have their numbers anyhow.
        case "terminal", {"is_input": True, "command": str(text)}:
            args["command"] = _KEY.sub(lambda key: f"C-{key[1].lower()}", text)
        case _:
            pass


def _rename_args(args: Any, names: Mapping[str, str]) -> Any:
    if not isinstance(args, dict):
        return args  # The check against the schema says what is wrong.
    arguments = cast("Json", args)
    return {
        names[name] if name in names and names[name] not in arguments else name: value
        for name, value in arguments.items()
    }


def _edit(args: Json, command: str | None) -> Json:
    names = (kind for kind, shows in _INFERRED if any(name in args for name in shows))
    if (kind := args.get("command") or command or next(names, None)) is not None:
        args["command"] = kind
    if kind == "insert" and "text" not in args and "new_text" in args:
        args["text"] = args.pop("new_text")
    match args.get("view_range"):
        case [int(first), int(last)]:
            del args["view_range"]
            args["start_line"] = first
            if last > 0:
                args["end_line"] = last
        case _:
            pass
    if args.get("end_line") in (-1, "-1"):
        del args["end_line"]
    return args


def _convert_value(value: object, schema: Json) -> Any:
    """Return the number, boolean, list or object that was sent as a string; else the value."""
    json_type = schema.get("type")
    if not isinstance(value, str) or json_type not in _TYPES:
        return value
    try:
        read: object = json.loads(value.lower() if json_type == "boolean" else value)
    except ValueError:
        return value
    return read if type(read) in _TYPES[json_type] else value
