"""Copies this installation to a target with an equal Python: neither index nor network is needed.

It gets an environment of its own below `~/.local/share/oh-daemon`, without litellm and what only
that needs, since models are asked from here.
"""

from __future__ import annotations

import io
import os
import re
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution, version
from pathlib import Path

import oh_daemon.protocol
from oh_daemon.frontends.remote.target import Target
from oh_daemon.protocol.errors import ToolError, UserError
from oh_daemon.system.environment import clean_env
from oh_daemon.system.spawner import Completed, Spawner

_PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
_PACKAGES = f"lib/{_PYTHON}/site-packages"
_ASK = f"""\
for python in {_PYTHON} python3; do
  "$python" -c "import sysconfig; print(sysconfig.get_config_var(\\"SOABI\\"))" 2>/dev/null && exit
done
echo "no Python 3"
"""
_MAKE = """\
set -e
folder="{folder}"
new="$folder.new.$$"
mkdir -p "$new"
trap "rm -rf \\"$new\\"" EXIT
for python in {python} python3; do
  "$python" -m venv --without-pip "$new" 2>/dev/null && break
done
tar -xzf - -C "$new"
printf "#!/bin/sh\\nexec \\"$folder/bin/python\\" -P -m oh_daemon \\"\\$@\\"\\n" > "$new/oh-daemon"
chmod 755 "$new/oh-daemon"
rm -rf "$folder"
mv "$new" "$folder"
"$folder/oh-daemon" --version
"""
_LEFT_OUT = {"litellm"}
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_ASK_S, _COPY_S = 60.0, 1800.0


def folder_there() -> str:
    """Return, for the shell there, where a copy of this version is."""
    return f"$HOME/.local/share/oh-daemon/{version('oh-daemon')}"


def install(target: Target) -> str:
    """Copy this installation there; return what the copy says of itself. Raises `UserError`."""
    spawner = Spawner()
    try:
        result = _run(spawner, target, _ASK, b"", _ASK_S)
        facts, builds = result.stdout.decode("utf-8", "replace").split(), _binaries()
        if builds not in facts:
            raise UserError(
                f"the Python at {target.text} is {' '.join(facts) or 'not there'}, here {builds}: "
                "this copy would not run there",
                hint=f"install oh-daemon {version('oh-daemon')} there, for instance with pipx",
            )
        script = _MAKE.format(folder=folder_there(), python=_PYTHON)
        return _run(spawner, target, script, _archive(), _COPY_S).stdout.decode().strip()
    finally:
        spawner.close()


def _run(spawner: Spawner, target: Target, script: str, data: bytes, timeout_s: float) -> Completed:
    try:
        end = spawner.run(
            target.argv(script),
            cwd=Path.cwd(),
            timeout_s=timeout_s,
            stdin=data,
            env=clean_env(os.environ),
        )
    except ToolError as exc:
        raise UserError(f"{target.text}: {exc.message}", hint=exc.hint) from None
    if end.exit_code != 0:
        reason = end.stderr.decode("utf-8", "replace").strip()
        raise UserError(f"{target.text} (exit code {end.exit_code}): {reason}")
    return end


def _binaries() -> str:
    """Return the tag of compiled modules: implementation, version, machine and C library."""
    return str(sysconfig.get_config_var("SOABI"))


def _archive() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=6) as archive:
        for path, name in sorted(_files()):
            archive.add(path, name, recursive=False)
    return buffer.getvalue()


def _files() -> Iterator[tuple[Path, str]]:
    """Yield each file, and its place in the environment there."""
    # An editable installation does not list its own modules.
    package = Path(oh_daemon.protocol.__file__).parents[1]
    for path in package.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path, f"{_PACKAGES}/oh_daemon/{path.relative_to(package).as_posix()}"
    for each in _needed_distributions("oh-daemon"):
        for file in each.files or ():
            path, words = Path(str(file.locate())), file.parts
            is_ours = words[0] == "oh_daemon" or file.suffix in {".pth", ".pyc"}
            if words[0] == ".." and "bin" in words:
                if path.is_file() and not path.read_bytes().startswith(b"#!"):
                    yield path, f"bin/{file.name}"
            elif words[0] != ".." and not is_ours and path.is_file():
                yield path, f"{_PACKAGES}/{file.as_posix()}"


def _needed_distributions(name: str) -> Iterator[Distribution]:
    """Yield the distribution and, once each, what it needs of what is installed here."""
    queue, visited = [name], set(_LEFT_OUT)
    while queue:
        name = queue.pop().lower().replace("_", "-")
        if name in visited:
            continue
        visited.add(name)
        try:
            each = distribution(name)
        except PackageNotFoundError:
            continue  # Only other systems need it.
        yield each
        for requirement in each.requires or ():
            match = _NAME.match(requirement)
            if match and "extra ==" not in requirement:
                queue.append(match[0])
