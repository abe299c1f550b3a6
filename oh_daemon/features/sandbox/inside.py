"""Process 1 of an overlay sandbox: it confines itself, and then is the reaper of what runs there.

Runs by file path: `TERMINALS PLACE… SOCKET SCRATCH`, with the descriptor of the folder that has the
terminals of the host, and the places where commands can write.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

if __name__ == "__main__":
    terminals, *places, number, scratch = sys.argv[1:]
    # The parts in C of these modules are enough. The enums of the rest take 0.5 MB of each sandbox.
    for name in ("signal", "socket"):
        sys.modules[name] = import_module(f"_{name}")
    here = os.path.dirname(__file__)  # noqa: PTH120 - pathlib takes memory.
    # At the end: modules of the standard library come first, whatever lies beside ours.
    sys.path += [here, f"{here}/../../system"]
    landlock = import_module("landlock")
    landlock.confine(int(terminals), places)
    os.close(int(terminals))
    landlock.refuse_tracing()
    import_module("reaper").main(sys.modules["socket"].socket(fileno=int(number)), scratch)
