"""Files that are one database: the main file and its journals, which hold a part of its content.

A database without its journal, or with another one, is damaged, so they are applied together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

_JOURNALS = {"-wal": "", "-shm": "", "-journal": "", "-lock": "", ".dat": ".dir", ".pag": ".dir"}
"""How the name of a journal ends, and the main file's in its place.

The first three are SQLite's (sqlite.org/tempfiles.html), `-lock` is LMDB's (MDB_NOSUBDIR in
lmdb.h), the others are those of Python's `dbm.dumb` and `dbm.ndbm`.
"""
_ENDINGS = tuple(_JOURNALS)
_LMDB = {"lock.mdb": "data.mdb"}


def is_journal_name(name: str) -> bool:
    """Return whether a file is a database's journal if the database exists: `app.db-wal`."""
    return name.endswith(_ENDINGS)


def databases(names: Collection[str], exists: Callable[[str], bool]) -> dict[str, str]:
    """Return the main file of each file that belongs to a database with a journal among `names`.

    For `a.db`, `a.db-wal` and `b.db` that is `{"a.db": "a.db", "a.db-wal": "a.db"}`. `exists` is
    asked about main files that are not among the names.
    """
    main_files: dict[str, str] = {}
    known_names = frozenset(names)
    for name in names:
        main_file = _main_file(name)
        if main_file and (main_file in known_names or exists(main_file)):
            main_files[name] = main_file
    present = known_names.intersection(main_files.values())
    return {**main_files, **{name: name for name in present}}


def parts_of(main_files: Mapping[str, str], names: Iterable[str]) -> set[str]:
    """Return all files of the databases to which some of the `names` belong.

    `main_files` is the result of `databases`.
    """
    hits = {main_files.get(name) for name in names}
    return {name for name, main_file in main_files.items() if main_file in hits}


def _main_file(name: str) -> str | None:
    """Return the name of the database whose journal has this name; "" and None for others."""
    folder, slash, last = name.rpartition("/")
    if last in _LMDB:
        return f"{folder}{slash}{_LMDB[last]}"
    if not last.endswith(_ENDINGS):
        return None
    ending = next(ending for ending in _ENDINGS if last.endswith(ending))
    stem = last.removesuffix(ending)
    return stem and f"{folder}{slash}{stem}{_JOURNALS[ending]}"
