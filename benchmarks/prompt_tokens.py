"""Input tokens that three small tasks cost `oh-daemon run`, and the fixed part of each request.

`make bench BENCH_ARGS="prompt_tokens"` prints a Markdown table; `--before=FOLDER` adds columns for
the code of an older clone, whose model makes the same calls. Tokens are those of cl100k, summed
over all requests of a task. The fixed part is the prompt and tools of a first request, with a user
at the terminal and without a language server and MCP servers. Asserts nothing.
"""

from __future__ import annotations

import os
import pty
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fake_llm import FakeLLM, Step, call, calls, say
from measure import PATIENCE_S, PYTHON, Json
from peers import Peer, peers
from replay import tokens

_SIZES = """def size_text(n_bytes):
    for unit in ("B", "kB", "MB"):
        if n_bytes < 1000:
            return f"{n_bytes:.0f} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.0f} GB"
"""
_SIZES_TEST = """from sizes import size_text


def check():
    assert size_text(999_999) == "1 MB", size_text(999_999)
    assert size_text(999) == "999 B"


check()
print("all passed")
"""
_SHAPES = """class Failure(Exception):
    pass


def to_failures(texts):
    return [Failure(text) for text in texts]
"""
_SHOP = """from shapes import Failure, to_failures


def sell(item):
    if item is None:
        raise Failure("no item")
    return to_failures([item])
"""
_SERVER = """from http.server import BaseHTTPRequestHandler, HTTPServer


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"helo\\n")


HTTPServer(("127.0.0.1", 8123), Handler).serve_forever()
"""


@dataclass(frozen=True)
class Task:
    """A project, the words of the user, and the answers of the model."""

    name: str
    words: str
    files: Mapping[str, str]
    answers: Sequence[Step]


def _view(path: str) -> Step:
    return call("edit", command="view", path=path)


def _replace(path: str, old: str, new: str) -> Step:
    return call("edit", command="replace", path=path, old_text=old, new_text=new)


def _run(command: str, **arguments: object) -> Step:
    return call("terminal", command=command, **arguments)


TASKS = (
    Task(
        "fix",
        "size_text(999_999) gives '1000 kB'. Fix it.",
        {"sizes.py": _SIZES, "test_sizes.py": _SIZES_TEST},
        (
            calls(call("list"), call("grep", pattern="size_text"), _run("python3 test_sizes.py")),
            calls(_view("sizes.py"), _view("test_sizes.py")),
            _replace("sizes.py", "if n_bytes < 1000:", "if round(n_bytes) < 1000:"),
            _run("python3 test_sizes.py"),
            say("`size_text` rounds before it chooses the unit (`sizes.py:3`). The tests pass."),
        ),
    ),
    Task(
        "rename",
        "Rename the class Failure to ShopError everywhere.",
        {"shapes.py": _SHAPES, "shop.py": _SHOP, "README.md": "A `Failure` is an error.\n" * 3},
        (
            call("grep", pattern="Failure"),
            calls(_view("shapes.py"), _view("shop.py")),
            _run("sed -i 's/\\bFailure\\b/ShopError/g' shapes.py shop.py README.md && git diff"),
            calls(call("grep", pattern=r"\bFailure\b"), _run("python3 -c 'import shop'")),
            say("`Failure` is `ShopError` in three files; the module loads."),
        ),
    ),
    Task(
        "background server",
        "Start server.py and look whether it answers; it should say hello.",
        {"server.py": _SERVER},
        (
            _view("server.py"),
            _run("python3 server.py", background=True, terminal_id="srv"),
            _run("curl -s http://127.0.0.1:8123/"),
            _replace("server.py", "helo", "hello"),
            _run("C-c", is_input=True, terminal_id="srv"),
            _run("python3 server.py", background=True, terminal_id="srv"),
            calls(
                _run("curl -s http://127.0.0.1:8123/"),
                _run("", is_input=True, terminal_id="srv", timeout_s=1),
            ),
            _run("C-c", is_input=True, terminal_id="srv"),
            say("It says hello now (`server.py:8`); I stopped it again."),
        ),
    ),
)


def main(arguments: Sequence[str]) -> None:
    before = next((a.partition("=")[2] for a in arguments if a.startswith("--before=")), None)
    peer_list = [p for p in peers(Path(before) if before else None) if not p.is_floor]
    headings = [f"{what}, {p.name}" for what in ("tokens", "fixed part") for p in peer_list]
    print("| task | requests |", " | ".join(headings), "|")
    print("|---" * (2 + len(headings)) + "|")
    for task in TASKS:
        runs = [_requests(task, peer) for peer in peer_list]
        sums = [tokens(requests).total() for requests in runs]
        fixed = [tokens([{**r[0], "messages": r[0]["messages"][:1]}]).total() for r in runs]
        cells = [task.name, str(len(runs[-1])), *(f"{n:,}" for n in (*sums, *fixed))]
        print("|", " | ".join(cells), "|", flush=True)


def _requests(task: Task, peer: Peer) -> list[Json]:
    """Do the task in a new repository; return the bodies of all requests."""
    with tempfile.TemporaryDirectory(prefix="oh-prompt-") as folder, FakeLLM(task.answers) as llm:
        project, home = Path(folder, "project"), Path(folder, "home")
        home.mkdir()
        project.mkdir()
        for name, text in task.files.items():
            (project / name).write_text(text)
        git = ("git", "-C", str(project), "-c", "user.name=a", "-c", "user.email=a@b.example")
        for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "start")):
            subprocess.run([*git, *words], check=True)
        env = {
            **os.environ,
            "HOME": str(home),
            "PYTHONPATH": str(peer.code),
            "OH_DAEMON_HOME": str(home),
            "OH_DAEMON_MODEL": "openai/fake",
            "OH_DAEMON_TITLES": "false",
            "OH_DAEMON_BASE_URL": llm.url,
            "OH_DAEMON_API_KEY": "sk-bench",
        }
        argv = (PYTHON, "-m", "oh_daemon", "run", task.words, "--ask", "never")
        # On a terminal there is a user, whom the model may ask.
        own_end, far_end = pty.openpty()
        quiet = subprocess.DEVNULL
        with subprocess.Popen(
            argv, cwd=project, env=env, stdin=far_end, stdout=quiet, stderr=quiet
        ) as process:
            os.close(far_end)
            assert process.wait(PATIENCE_S) == 0
        os.close(own_end)
        return [request.body for request in llm.requests]
