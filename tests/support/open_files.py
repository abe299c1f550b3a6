"""Programs of the user that have a file open: log writers, readers, a database server."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

LOGGER = """
import logging, sys
log = logging.FileHandler(sys.argv[1])
print("open", flush=True)
sys.stdin.read()
"""
SERVER = """
import sys
from http.server import HTTPServer, SimpleHTTPRequestHandler
server = HTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler)
print("open", flush=True)
server.serve_forever()
"""
SHOWN = "lua io.stdout:write('open\\n') io.stdout:flush()"
NVIM = str(Path(sys.executable).with_name("nvim"))
APPENDING: dict[str, tuple[str, ...]] = {
    "log writer": (sys.executable, "-c", LOGGER, "FILE"),
    "shell": ("bash", "-c", 'exec 3>>"$0"; echo open; read', "FILE"),
    "dev server": ("bash", "-c", 'exec "$1" -c "$2" 2>>"$0"', "FILE", sys.executable, SERVER),
}
WRITING = {"redirection": ("bash", "-c", 'exec 3<>"$0"; echo open; read', "FILE")}
READING = {
    "tail": ("bash", "-c", 'timeout 20 tail -f "$0" & echo open; wait', "FILE"),
    "nvim": (NVIM, "--headless", "-u", "NONE", "-i", "NONE", "FILE", "-c", SHOWN),
}


DATABASE_SERVER = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute(f"PRAGMA journal_mode={sys.argv[2]}")
db.execute("CREATE TABLE t (n)")
def insert():
    db.execute("BEGIN")
    db.executemany("INSERT INTO t VALUES (?)", [(n,) for n in range(10)])
    db.execute("COMMIT")
insert()
print("open", flush=True)
sys.stdin.readline()
insert()
print(*db.execute("SELECT count(*) FROM t").fetchone(), flush=True)
"""


@contextmanager
def running(*argv: str, file: Path) -> Generator[subprocess.Popen[str]]:
    """Start a program, and wait until it says that it has the file open."""
    command = [str(file) if word == "FILE" else word for word in argv]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, process_group=0) as process:
        try:
            assert process.stdout is not None
            while "open" not in process.stdout.readline():
                assert process.poll() is None
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def check_rows(database: Path, n_rows: int) -> None:
    with closing(sqlite3.connect(database)) as db:
        assert db.execute("SELECT count(*) FROM t").fetchone() == (n_rows,)
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
