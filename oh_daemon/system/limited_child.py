"""Runs programs of ours that read untrusted data, each in a child process for one call.

A decoder that crashes or hangs takes only its child along; the program itself sets its limits of
memory and processor time.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Sequence

logger = logging.getLogger(__name__)


def run_limited(module: str, args: Sequence[object], data: bytes, within_s: float) -> bytes:
    """Return all that a module prints for `data` on its stdin, also when it ends badly.

    Blocks for `within_s` at most. The child gets none of the user's variables, and so no key.
    """
    with subprocess.Popen(
        [sys.executable, "-P", "-m", module, *map(str, args)],
        env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            output, problem = process.communicate(data, timeout=within_s)
        except subprocess.TimeoutExpired:
            process.kill()
            output, problem = process.communicate()
    if process.returncode:
        words = problem[-500:].decode("utf-8", "replace")
        logger.warning("%s ended with %d: %s", module, process.returncode, words)
    return output
