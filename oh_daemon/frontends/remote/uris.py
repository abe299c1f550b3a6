"""The URIs of files: those in open folders, which may have other paths there, and all others.

Only fields that are known to hold URIs are changed, so no text, argument or digest is. A file
outside the folders gets another scheme on its way, and is what it was when it comes back: neither
side takes it for a file of its own, and a target cannot have the editor read or change one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from oh_daemon.jsonrpc.reading import field_in
from oh_daemon.kernel.ports import Json
from oh_daemon.protocol.errors import InvalidParamsError
from oh_daemon.workspace.paths import path_from_uri, paths_from_uris, uri_from_path

_ELSEWHERE = "oh-elsewhere:"
FIELDS = frozenset(
    {
        *("uri", "uris", "targetUri", "scopeUri", "rootUri", "oldUri", "newUri"),
        *("activeUri", "openUris", "folder", "folders"),
    }
)
"""Those of LSP and of our protocol."""
_FOREIGN = frozenset(
    {
        *("args", "arguments", "meta", "metadata", "settings", "messages", "tools", "inputSchema"),
        *("structuredContent", "resultSchema", "digest"),
    }
)
"""Fields whose content others define: nothing in them is changed."""


class UriMap:
    """Folders here and there. One thread for each direction."""

    def __init__(self, folders: Mapping[Path, Path]) -> None:
        """`folders` has, by the absolute path here, the one there."""
        self._to_remote: tuple[tuple[Path, Path], ...] = ()
        self._to_local = self._to_remote
        self.add(folders)
        self._as_written: dict[str, str] = {}
        """The editor's own forms of URIs, by ours: it knows its documents by these."""

    def add(self, folders: Mapping[Path, Path]) -> None:
        """Add folders, where they are in none that is known."""
        earlier_pairs = dict(self._to_remote)
        inside = [path for path in folders if any(map(path.is_relative_to, earlier_pairs))]
        pairs = earlier_pairs | {path: folders[path] for path in folders if path not in inside}
        by_depth = sorted(pairs.items(), key=lambda pair: -len(pair[0].parts))
        self._to_local = tuple((remote_path, local_path) for local_path, remote_path in by_depth)
        self._to_remote = tuple(by_depth)

    def to_remote(self, message: Json) -> Json:
        """Return a message of the editor as the daemon there is to read it."""
        return self._map_value(message, self._to_remote)

    def to_local(self, message: Json) -> Json:
        """Return a message of the daemon there as the editor is to read it."""
        return self._map_value(message, self._to_local)

    def _map_value(self, value: Any, pairs: tuple[tuple[Path, Path], ...], name: str = "") -> Any:
        if isinstance(value, str):
            return self._uri(value, pairs) if name in FIELDS else value
        if isinstance(value, list):
            return [self._map_value(each, pairs, name) for each in cast("list[Any]", value)]
        if not isinstance(value, dict) or name in _FOREIGN:
            return cast("Any", value)
        fields = cast("Json", value)
        # The keys of an edit's `changes` are URIs, too.
        keys = {key: self._uri(key, pairs) if ":" in key else key for key in fields}
        return {keys[key]: self._map_value(each, pairs, key) for key, each in fields.items()}

    def _uri(self, uri: str, pairs: tuple[tuple[Path, Path], ...]) -> str:
        if uri.startswith(_ELSEWHERE):
            return "file:" + uri.removeprefix(_ELSEWHERE)
        is_path = uri.startswith("/")
        path = Path(uri) if is_path else path_from_uri(uri)
        if path is None:
            return uri
        mapped_path = next(
            (to / path.relative_to(of) for of, to in pairs if path.is_relative_to(of)), None
        )
        if is_path:
            return uri if mapped_path is None else str(mapped_path)
        if mapped_path is None:
            return _ELSEWHERE + uri.removeprefix("file:")
        mapped_uri = uri_from_path(mapped_path)
        if pairs is self._to_local:
            return self._as_written.get(mapped_uri, mapped_uri)
        if uri != uri_from_path(path):
            self._as_written[uri_from_path(path)] = uri
        return mapped_uri


def parse_folders(words: list[str]) -> dict[Path, Path]:
    """Return the folders of `--map HERE=THERE`. Raises `InvalidParamsError`."""
    folders: dict[Path, Path] = {}
    for word in words:
        local_part, equals, remote_part = word.partition("=")
        if not (local_part and equals and remote_part.startswith("/")):
            raise InvalidParamsError(f"--map {word}: write HERE=THERE, with an absolute path there")
        folders[Path(local_part).expanduser().absolute()] = Path(remote_part)
    return folders


def folders_of(params: Json, folder_there: str, pairs: Mapping[Path, Path]) -> dict[Path, Path]:
    """Return, for what an `initialize` opens, the paths there; by default they are the same."""
    entries = params.get("workspaceFolders") or [{"uri": params.get("rootUri")}]
    paths = paths_of(entries)
    folders = alike(paths)
    if folder_there and paths:
        folders[paths[0]] = Path(folder_there)
    return {**folders, **pairs}


def alike(paths: list[Path]) -> dict[Path, Path]:
    """Return folders that are at the same place there, also by the path without links."""
    return {each: each for path in paths for each in (path, path.resolve())}


def paths_of(folders: object) -> list[Path]:
    """Return the paths of folders as LSP lists them; of anything else there are none."""
    entries = cast("list[object]", folders) if isinstance(folders, list) else []
    return paths_from_uris(str(field_in(each, "uri")) for each in entries)
