"""Unsaved texts in every Vim and Neovim of this user, by the swap files that they have open.

A running Vim keeps the swap file of each buffer open, whatever its option 'directory' says, so the
descriptors below /proc list them all; that of a Vim that was killed is not among them. The first
block is `struct block0` of Neovim's src/nvim/memline.c and Vim's src/memline.c: the buffer counts
as modified from its first change on, and no longer once it is written. Without /proc, and with
'noswapfile', nothing is noticed.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from oh_daemon.system.proc import descriptors, process_numbers

_VIM = re.compile(rb"vi|vim|view", re.IGNORECASE)
"""Matches the names of such processes: `nvim`, `vim.basic`, `gvim`, `vimdiff`, `MacVim`."""
_SWAP = re.compile(r"\.s[a-w][a-z]$")
"""Matches `.a.py.swp` and those that follow, `.swo` to `.saa`; see `:h swap-file`."""
_BLOCK = struct.Struct("=2s10s4s4sII40s40s898sBB")
"""Id, version, page size, time, inode, process, user, host, name, flags, 0x55 if modified."""
_MODIFIED = 0x55
_MAX_ENVIRON_BYTES = 1 << 20


class UnsavedSwap(Struct, frozen=True):
    """The swap file of a modified buffer."""

    pid: int
    program: str
    name: str
    """The buffer's file: `/shop/a.py`."""
    real_name: str
    """Its real path."""
    inode: int
    """The lower 32 bits of that of the file when it was read or written last."""

    def is_of(self, path: Path) -> bool:
        """Return whether the buffer is that of the file at this real path."""
        if self.real_name == str(path):
            return True
        if Path(self.name).name != path.name:
            return False
        # A folder above may have another name there, such as in a container.
        with suppress(OSError):
            return path.stat().st_ino & 0xFFFFFFFF == self.inode
        return False


def unsaved_elsewhere(paths: Collection[Path]) -> dict[Path, UnsavedSwap]:
    """Return the swap files of modified buffers of these files, by real path."""
    swaps = [*_unsaved_swaps()] if paths else []
    return {path: swap for path in paths for swap in swaps if swap.is_of(path)}


def _unsaved_swaps() -> Iterator[UnsavedSwap]:
    for pid in process_numbers():
        program = _read(f"/proc/{pid}/comm", 64).rstrip(b"\n")
        if _VIM.search(program):
            for swap in _swap_files(pid):
                block = _read(swap, _BLOCK.size)
                if len(block) == _BLOCK.size:
                    yield from _parse_block(pid, program, block)


def _swap_files(pid: int) -> Iterator[str]:
    """Yield their names, as this process can open them."""
    for number in descriptors(pid):
        place = f"/proc/{pid}/fd/{number}"
        with suppress(OSError):
            if _SWAP.search(os.readlink(place)):  # noqa: PTH115 - as in `system.reaper`.
                yield place


def _parse_block(pid: int, program: bytes, block: bytes) -> Iterator[UnsavedSwap]:
    magic, _, _, _, inode, _, _, _, raw_name, _, modified = _BLOCK.unpack(block)
    if magic.startswith(b"b") and modified == _MODIFIED:
        name = os.fsdecode(raw_name.partition(b"\0")[0])
        if name.startswith("~"):  # `~ana/shop/a.py`, in the home folder that the process has.
            name = f"{_home(pid)}/{name.partition('/')[2]}"
        real_name = os.path.realpath(name)
        yield UnsavedSwap(pid, program.decode(errors="replace"), name, real_name, inode)


def _home(pid: int) -> str:
    variables = _read(f"/proc/{pid}/environ", _MAX_ENVIRON_BYTES).split(b"\0")
    homes = (each.removeprefix(b"HOME=") for each in variables if each.startswith(b"HOME="))
    return os.fsdecode(next(homes, b""))


def _read(name: str, n_bytes: int) -> bytes:
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return b""
    try:
        return os.read(descriptor, n_bytes)
    except OSError:
        return b""
    finally:
        os.close(descriptor)
