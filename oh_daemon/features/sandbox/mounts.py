"""Plans the mounts of a sandbox: the folders it covers, and the limits of this machine.

What commands add to caches lasts, in one folder per user and cache, which all sandboxes share.
Where the user has an own cache, which is never written, that folder is a layer over it, for one
sandbox.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from oh_daemon.features.sandbox.bwrap import Mounts, OverlayMount
from oh_daemon.features.sandbox.layer import OPAQUE
from oh_daemon.features.sandbox.owners import make_owned_folders
from oh_daemon.features.sandbox.secret_files import NEEDED, SecretCovers
from oh_daemon.features.sandbox.signature_mark import write_signing_program
from oh_daemon.features.sandbox.storage import CACHES, lock_folder, make_folder_in, mask_folder
from oh_daemon.features.terminal.shell_command import ShellPlace
from oh_daemon.system.proc import mounts_below

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
_LAYERED = ("btrfs", "ext4", "f2fs", "tmpfs", "xfs")
"""File systems that certainly can be a lower layer; of others, such as FUSE's, not all can."""
_TABLE = Path("/proc/net/unix")
"""Each socket, with its path last; see proc_net(5). Those of other networks are not in it."""
_N_PARTS_OF_SYSTEM = 2
"""Folders such as `/etc` and `/var` have more in them than sockets."""


class SandboxMounts(Struct, frozen=True):
    """The parts of this machine from which a sandbox is made."""

    program: Path
    """A bubblewrap that can mount overlays."""
    folders: Sequence[Path]
    """Real paths of the open folders, whose changes may land."""
    private: Sequence[Path]
    """Real paths of other folders that can be written to, whose changes never land."""
    hidden_places: Sequence[Path] = ()
    caches: Mapping[str, Path] = field(default_factory=dict[str, Path])
    """Real paths of folders, by names of their own, whose changes last for the user's sandboxes."""
    masks: SecretCovers | None = None
    """Finds what may hold secrets; without, nothing is covered."""
    fixed: Sequence[Path] = ()
    """Real paths of folders that nothing inside can write to, even below those above."""
    scratch: Sequence[Path] = ()
    """Real paths of folders like `private`, which are empty where something is mounted below."""
    git_dirs: Sequence[Path] = ()
    """Real paths of repositories' own folders outside the open ones; git brings their changes."""

    @property
    def places(self) -> Sequence[Path]:
        """Each place that a layer covers, once."""
        return [*dict.fromkeys((*self.folders, *self.private, *self.scratch, *self.git_dirs))]

    def covered_places(self) -> Mapping[Path, str]:
        """Return what may hold secrets now, as `SecretCovers.find` does."""
        return self.masks.find() if self.masks else {}


def cache_places(home: Path, environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """Yield the name and the place of each cache that exists or whose program does."""
    bases = {"home": home, "cache": Path(environment.get("XDG_CACHE_HOME") or home / ".cache")}
    for name, variable, below, usual in _CACHES:
        moved_place = environment.get(variable, "") if variable else ""
        base, _, rest = usual.partition("/")
        place = Path(moved_place, below) if moved_place.startswith("/") else bases[base] / rest
        program = name.partition("-")[0]
        if place.is_dir() or shutil.which(program, path=environment.get("PATH", "")):
            yield name, Path(os.path.realpath(place))


def mounts_of(
    sandbox_mounts: SandboxMounts, place: Path, shells: ShellPlace, stack: ExitStack
) -> tuple[Mounts, Sequence[Path], frozenset[Path]]:
    """Return what a sandbox with its layers in `place` sees, and what it covers but for caches.

    The third part is the secrets that a lower layer hides for as long as the sandbox lives. `stack`
    gives back what no other sandbox can use meanwhile.
    """
    empty = empty_file(place)
    empty.touch(0o444)
    parts = _Parts()
    layers = [*_layers(sandbox_mounts, place, parts)]
    # A mount above a layer is not hidden by one, and the state of the daemon has the
    # sandbox's own files, which are mounted there.
    mount_places = [place, *parts.visible]
    secrets = [path for path in _fixed(sandbox_mounts) if not _meets(path, mount_places)]
    layers, masked = _with_masks(layers, secrets, sandbox_mounts.folders, place)
    layers = [
        _with_owned_folders(layer, place) if layer.place in sandbox_mounts.folders else layer
        for layer in layers
    ]
    overlays = [layer.place for layer in layers]
    caches = _caches(sandbox_mounts, place, parts.visible)
    own = [at for at in caches if at.is_dir() and not mounts_below(at)]
    layers += [_cache_layer(at, caches[at], place, stack) for at in own]
    hidden_places = [*sandbox_mounts.hidden_places, place.parent]
    folders, single = _sockets_to_hide(sandbox_mounts.places, hidden_places, parts.visible)
    mounts = Mounts(
        layers=layers,
        visible=parts.visible,
        shared={at: _as_lasting(source) for at, source in caches.items() if at not in own},
        hidden=[*sandbox_mounts.hidden_places, *folders],
        # Nothing inside can move away what is mounted in the folder of all sandboxes.
        covered=[*unmasked(sandbox_mounts.covered_places(), masked), place.parent, *single],
        empty=empty,
        readable=[
            *(shells.spool, empty, write_signing_program(place)),
            *sandbox_mounts.fixed,
            *parts.needed_places,
        ],
        writable=[shells.state],
    )
    return mounts, overlays, masked


def empty_file(place: Path) -> Path:
    """Return an empty file that commands can read and not change."""
    return place / "empty"


def upper_of(mounts: SandboxMounts, place: Path, folder: Path) -> Path:
    """Return where what commands change below an open folder lies."""
    return place / f"upper-{mounts.places.index(folder)}"


def _layers(mounts: SandboxMounts, place: Path, parts: _Parts) -> Iterator[OverlayMount]:
    """Yield a layer for each place, and add what is seen in those with mounts below."""
    for number, covered_place in enumerate(mounts.places):
        is_whole = not mounts_below(covered_place)
        names = place / f"names-{number}"
        if not is_whole:
            is_scratch = covered_place not in mounts.private
            _take_apart(parts, covered_place, names, mounts.places, is_empty=is_scratch)
        yield _layer(place, str(number), covered_place, [] if is_whole else [names])
    yield from (
        _layer(place, _name_of(covered_place), covered_place)
        for covered_place in parts.layered_places
    )


def _layer(place: Path, name: str, covered_place: Path, below: Sequence[Path] = ()) -> OverlayMount:
    upper, work = (place / f"{what}-{name}" for what in ("upper", "work"))
    if not upper.exists():
        # Its mode is the one that the folder has inside; `place` keeps others from it.
        make_folder_in(upper).chmod(stat.S_IMODE(covered_place.stat().st_mode))
    return OverlayMount(covered_place, upper, make_folder_in(work), below)


def _with_owned_folders(layer: OverlayMount, place: Path) -> OverlayMount:
    """Let commands make files in folders of other users, where this user can do so."""
    owned_folders = mask_place(place) / f"own-{_name_of(layer.place)}"
    if owned_folders.is_relative_to(layer.place):
        return layer
    shutil.rmtree(owned_folders, ignore_errors=True)
    if not make_owned_folders(layer.place, owned_folders):
        return layer
    return replace(layer, lower=[*(layer.lower or [layer.place]), owned_folders])


def unmasked(covered: Mapping[Path, str], masked: Collection[Path]) -> Mapping[Path, str]:
    """Return what must be covered by a mount, since no lower layer hides it."""
    return {
        path: dependence
        for path, dependence in covered.items()
        if path not in masked and not any(up in masked for up in path.parents)
    }


def _fixed(mounts: SandboxMounts) -> Sequence[Path]:
    return mounts.masks.fixed_places() if mounts.masks else ()


def _meets(path: Path, others: Sequence[Path]) -> bool:
    """Whether one of the others is below a path or above it."""
    return any(path.is_relative_to(other) or other.is_relative_to(path) for other in others)


def _with_masks(
    layers: Sequence[OverlayMount], secrets: Sequence[Path], folders: Sequence[Path], place: Path
) -> tuple[list[OverlayMount], frozenset[Path]]:
    """Hide the table's secrets by a layer between the disk and what commands write.

    It has a mark of the kernel under each name, whether there is a secret now or not. So nothing
    has to be mounted when one comes, under a name where commands may have put a link. What commands
    put there themselves they see, and it never lands: open folders have no such layer.
    """
    places = [layer.place for layer in layers]
    at_layer = {path: _innermost(path, places) for path in secrets}
    result, masked = list[OverlayMount](), set[Path]()
    for layer in layers:
        inside = sorted(path for path, at in at_layer.items() if at == layer.place != path)
        masks = mask_place(place) / _name_of(layer.place) if inside else None
        if masks is None or layer.place in folders or masks.is_relative_to(layer.place):
            result.append(layer)
            continue
        shutil.rmtree(masks, ignore_errors=True)
        masks.mkdir(mode=0o700, parents=True)
        masked |= {path for path in inside if _mask(layer.place, masks, path)}
        result.append(replace(layer, lower=[*(layer.lower or [layer.place]), masks]))
    return result, frozenset(masked)


def mask_place(place: Path) -> Path:
    """Return the folder for the layers that hide secrets in a sandbox. Raises `OSError`."""
    return mask_folder() / _name_of(place)


def _mask(folder: Path, masks: Path, secret: Path) -> bool:
    """Make a mark in `masks` that hides a path below a folder; return whether that worked.

    Of folders that are not there yet, the uppermost is hidden, so that none appears. A file needs
    no mark, since nothing below a file is looked up; see overlayfs.rst, and for an ordinary user's
    whiteouts (Linux 5.8) `vfs_mknod` of fs/namei.c.
    """
    at, mask = folder, masks
    try:
        for part in secret.relative_to(folder).parts:
            at, mask = at / part, mask / part
            if not at.is_dir() or at == secret:
                break
            if not mask.exists():
                mask.mkdir(mode=0o700)
                shutil.copystat(at, mask)
        if os.path.lexists(mask):
            return True
        if at.is_file():
            mask.touch(0o400)
        elif at == secret and at.is_dir():
            mask.mkdir(mode=0o500)
            os.setxattr(mask, OPAQUE, b"y")
        else:
            os.mknod(mask, stat.S_IFCHR)
    except OSError:
        return False  # It is covered by a mount when it comes.
    return True


def _caches(mounts: SandboxMounts, place: Path, visible: Sequence[Path]) -> Mapping[Path, Path]:
    """Return where what lasts of each cache lies, by the place of the cache."""
    return {
        cache: place.parent / CACHES / name
        for name, cache in mounts.caches.items()
        if not any(inner.is_relative_to(cache) for inner in mounts.places)
        and (cache.is_dir() or not any(map(cache.is_relative_to, visible)))
    }


def _cache_layer(cache: Path, store: Path, place: Path, stack: ExitStack) -> OverlayMount:
    """Return the layer over a cache; if another sandbox uses the lasting one, one of its own."""
    source, own = _as_lasting(store), place / f"cache-{store.name}"
    try:
        stack.callback(os.close, lock_folder(store))
    except BlockingIOError:
        return OverlayMount(
            cache, make_folder_in(own / "upper"), make_folder_in(own / "work"), [cache, source]
        )
    return OverlayMount(cache, source, make_folder_in(store / "work"), [cache])


def _as_lasting(store: Path) -> Path:
    return make_folder_in(store / "upper")


class _Parts(Struct, frozen=True):
    """The replacements in a sandbox for folders that it cannot cover."""

    layered_places: list[Path] = field(default_factory=list[Path])
    """Folders that can be covered."""
    visible: list[Path] = field(default_factory=list[Path])
    """Files and other mounted folders, which are seen as they are."""
    needed_places: list[Path] = field(default_factory=list[Path])
    """What nothing starts without, in a folder that is empty else."""


def _take_apart(
    parts: _Parts, folder: Path, names: Path, other_places: Sequence[Path], *, is_empty: bool
) -> None:
    """Add what a folder has, and make its names in the folder `names`, which no command can change.

    Nothing of it is seen if it `is_empty`. The `other_places` are covered on their own.
    """
    shutil.rmtree(names, ignore_errors=True)
    if is_empty:
        names.mkdir(mode=0o700)
        parts.needed_places.extend(
            path for path in NEEDED if _innermost(path, other_places) == folder
        )
        return
    mounts = mounts_below(folder)
    for path, name in _walk(folder, names, mounts):
        if not name.is_dir() or mounts.get(path, _LAYERED[0]) not in _LAYERED:
            parts.visible.append(path)
        elif path not in other_places:
            parts.layered_places.append(path)


def _name_of(folder: Path) -> str:
    """Return what tells the layers of a folder from those of others; commands cannot choose it."""
    return hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]


def _innermost(path: Path, folders: Sequence[Path]) -> Path | None:
    return max(filter(path.is_relative_to, folders), key=lambda at: len(at.parts), default=None)


def _walk(folder: Path, names: Path, mounts: Collection[Path]) -> Iterator[tuple[Path, Path]]:
    """Make names for folders, files and links; yield each place that is no link, with its name."""
    names.mkdir(mode=0o700)
    for entry in os.scandir(folder):
        path, name = Path(entry.path), names / entry.name
        if entry.is_symlink():
            name.symlink_to(path.readlink())
        elif entry.is_file():
            name.touch()
            yield path, name
        elif entry.is_dir() and any(path in at.parents for at in mounts):
            yield from _walk(path, name, mounts)
        elif entry.is_dir():
            name.mkdir()
            yield path, name


def _sockets_to_hide(
    covered_places: Sequence[Path], hidden_places: Sequence[Path], visible: Sequence[Path] = ()
) -> tuple[set[Path], set[Path]]:
    """Return folders of sockets, and sockets in folders that must be seen.

    Nothing is hidden below one of the places `covered` by overlays, unless it is `visible` there as
    it is, or `hidden` anyway.
    """
    folders, single = set[Path](), set[Path]()
    for path in _reachable():
        is_shown = any(map(path.is_relative_to, visible))
        if any(
            map(
                path.is_relative_to,
                hidden_places if is_shown else (*covered_places, *hidden_places),
            )
        ):
            continue
        folder = path.parent
        holds_more = any(place.is_relative_to(folder) for place in covered_places)
        if holds_more or len(folder.parts) <= _N_PARTS_OF_SYSTEM:
            single.add(path)
        else:
            folders.add(folder)
    return folders, single


def _reachable() -> Iterator[Path]:
    for line in _TABLE.read_text("utf-8", "surrogateescape").splitlines()[1:]:
        name = line.split(maxsplit=7)[7:]
        if name and name[0].startswith("/"):
            with suppress(OSError):  # It is gone, or cannot be reached by this user.
                path = Path(name[0]).resolve(strict=True)
                if stat.S_ISSOCK(path.lstat().st_mode):
                    yield path
