"""A process that owns a log and does what its stdin says, for faults that come from outside.

Commands: `append SEQ SIZE`, `batch SEQ N SIZE`, `sync`, `blob SIZE`, `close`, `loop SEQ SEED`.
"""

import random
import sys
from pathlib import Path
from typing import Any

import orjson

from oh_daemon.protocol.errors import DaemonError, StorageError
from oh_daemon.storage.commit import CommitThread
from oh_daemon.storage.event_log import LogFile, open_log


def line(seq: int, size: int) -> bytes:
    """Return an event whose bytes depend only on its number and size."""
    event = {"type": "notice", "severity": "info", "title": f"{seq}-" * (size // 3)}
    record = {"v": 2, "seq": seq, "ts": "2026-01-01T00:00:00.000Z", "event": event}
    return orjson.dumps(record) + b"\n"


def sizes(seed: int) -> random.Random:
    return random.Random(seed)


def next_size(source: random.Random) -> int:
    return source.choice((10, 300, 5_000, 100_000))


def print_line(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def obey(log: LogFile, command: str, *numbers: int) -> None:
    match (command, *numbers):
        case ("append", int(seq), int(size)):
            log.append(line(seq, size))
        case ("batch", int(seq), int(n), int(size)):
            log.append(b"".join(line(seq + i, size) for i in range(n)))
        case ("sync",):
            log.sync()
        case ("blob", int(size)):
            print_line(log.put_blob(b"x" * size))
        case ("close",):
            log.close()
        case ("loop", int(seq), int(seed)):
            run_until_killed(log, seq, seed)
        case _:
            raise ValueError(command)


def run_until_killed(log: LogFile, seq: int, seed: int) -> None:
    source = sizes(seed)
    while True:
        log.append(line(seq, next_size(source)))
        if seq % 7 == 0:
            log.sync()
        print_line(str(seq))
        seq += 1


def main() -> None:
    try:
        records: list[Any] = []
        folder = Path(sys.argv[1])
        opened_log = open_log(folder, CommitThread(), records.append, client="child", create=True)
    except DaemonError as exc:
        print_line(f"refused {exc.kind}: {exc}")
        return
    print_line(f"open {len(records)} {opened_log.epoch}")
    for text in sys.stdin:
        command, *numbers = text.split()
        try:
            obey(opened_log.log, command, *map(int, numbers))
        except StorageError as exc:
            print_line(f"error {exc}")
        else:
            print_line("ok")


if __name__ == "__main__":
    main()
