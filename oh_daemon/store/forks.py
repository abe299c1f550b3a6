"""Writes the log of a forked conversation beside that of its source, with what both share.

Blobs and checkpoints are hard links where the file system has them, so a fork takes little space.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import orjson

from oh_daemon.contract import plain
from oh_daemon.core.journal import new_id
from oh_daemon.store.blobs import link_or_copy, share_blobs
from oh_daemon.store.catalog import Catalog
from oh_daemon.store.commit import CommitThread
from oh_daemon.store.event_log import open_log
from oh_daemon.store.own_logs import OwnLogs


def write_fork(
    source: Path, records: Sequence[plain.Record], commit: CommitThread, own_logs: OwnLogs
) -> str:
    """Write a new log beside the one in `source`, blobs first, and return its conversation id.

    It is one of ours if its source is.
    """
    catalog, forked_id = Catalog(source.parents[1]), new_id()
    place = catalog.create(forked_id)
    lines = b"".join(orjson.dumps(record) + b"\n" for record in records)
    try:
        log = open_log(place, commit, create=True).log
        try:
            share_blobs(source / "blobs", place / "blobs")
            log.append(lines)
            if own_logs.has(source):
                # Those of another log are never used.
                _share_checkpoints(source / "checkpoints", place / "checkpoints")
                own_logs.add(place)
        finally:
            log.close()
    except BaseException:
        catalog.remove(forked_id, permanent=True)
        raise
    return forked_id


def _share_checkpoints(ours: Path, theirs: Path) -> None:
    """Hard links are enough: git never changes a file that it has written, but replaces it."""
    passing = shutil.ignore_patterns("*.lock", "tmp_*")
    # A command that is just ending may remove a file after the copy has listed it.
    with suppress(FileNotFoundError, shutil.Error):
        shutil.copytree(ours, theirs, symlinks=True, ignore=passing, copy_function=link_or_copy)
