"""Where package managers keep what they have downloaded: a table, and what a view has there.

What commands add lasts, in one folder per user and cache, which all views share. Where the user has
an own cache, which is never written, that folder is a layer over it: then only one view at a time
can write to it, and others that run see it and add to layers of their own.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

from oh_daemon.sandbox.bwrap import Layer
from oh_daemon.sandbox.locks import locked

_CACHES = (
    ("pip", "PIP_CACHE_DIR", "", "cache/pip"),
    ("uv", "UV_CACHE_DIR", "", "cache/uv"),
    ("poetry", "POETRY_CACHE_DIR", "", "cache/pypoetry"),
    ("npm", "npm_config_cache", "", "home/.npm"),
    ("yarn", "YARN_CACHE_FOLDER", "", "cache/yarn"),
    ("yarn-berry", "", "", "home/.yarn/berry/cache"),
    ("pnpm", "XDG_DATA_HOME", "pnpm/store", "home/.local/share/pnpm/store"),
    ("bun", "BUN_INSTALL_CACHE_DIR", "", "home/.bun/install/cache"),
    ("deno", "DENO_DIR", "", "cache/deno"),
    ("cargo-registry", "CARGO_HOME", "registry", "home/.cargo/registry"),
    ("cargo-git", "CARGO_HOME", "git", "home/.cargo/git"),
    ("go-modules", "GOMODCACHE", "", "home/go/pkg/mod"),
    ("go-build", "GOCACHE", "", "cache/go-build"),
    ("mvn", "", "", "home/.m2/repository"),
    ("gradle", "GRADLE_USER_HOME", "caches", "home/.gradle/caches"),
    ("dotnet", "NUGET_PACKAGES", "", "home/.nuget/packages"),
    ("composer", "COMPOSER_CACHE_DIR", "", "cache/composer"),
)
"""A program and a word, the variable that moves it, what lies below that, and the usual place."""


def cache_places(home: Path, environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """Yield the name and the place of each cache that exists or whose program does."""
    bases = {"home": home, "cache": Path(environment.get("XDG_CACHE_HOME") or home / ".cache")}
    for name, variable, below, usual in _CACHES:
        moved = environment.get(variable, "") if variable else ""
        base, _, rest = usual.partition("/")
        place = Path(moved, below) if moved.startswith("/") else bases[base] / rest
        program = name.partition("-")[0]
        if place.is_dir() or shutil.which(program, path=environment.get("PATH", "")):
            yield name, Path(os.path.realpath(place))


def cache_layer(place: Path, kept: Path, own: Path, stack: ExitStack) -> Layer:
    """Return the layer over the cache at `place`; `stack` gives the lasting one back.

    `kept` is the folder of the lasting layer, and `own` one that ends with the view.
    """
    lasting, below = lasting_folder(kept), [place]
    try:
        stack.callback(os.close, locked(kept))
    except BlockingIOError:
        return Layer(place, _made(own / "upper"), _made(own / "work"), [*below, lasting])
    return Layer(place, lasting, _made(kept / "work"), below)


def lasting_folder(kept: Path) -> Path:
    return _made(kept / "upper")


def _made(folder: Path) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder
