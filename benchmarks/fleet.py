"""How long 100 tasks of five steps take as a fleet, and what a running task weighs.

`make bench BENCH_ARGS="fleet"` prints a Markdown table; more words are options of
`oh-daemon fleet`, such as `--executor processes`. Asserts nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import psutil
from fake_llm import FakeLLM, Step, call, say

N_TASKS, N_STEPS, N_JOBS = 100, 5, 8
UNHELD = ("--sandbox", "off", "--boundary", "container")
SHELLS = {"bash", "sh", "git", "cat"}


def answer(request: dict[str, Any]) -> Step:
    """Run a command in each step but the last, by the number of results that were sent."""
    n = sum(message["role"] == "tool" for message in request["messages"])
    return say("Done.") if n >= N_STEPS - 1 else call("terminal", command=f"echo {n}")


def make_tasks(home: Path) -> Path:
    repo = home / "repo"
    repo.mkdir()
    (repo / "a.txt").write_text("one\n")
    who = ("-c", "user.name=b", "-c", "user.email=b@b")
    for words in (("init", "-q"), ("add", "."), (*who, "commit", "-qm", "base")):
        subprocess.run(["git", *words], cwd=repo, check=True)
    rows = [{"id": f"t{n}", "folder": "repo", "prompt": "Go."} for n in range(N_TASKS)]
    file = home / "tasks.jsonl"
    file.write_text("".join(json.dumps({**row, "check": "true"}) + "\n" for row in rows))
    return file


def weigh(driver: psutil.Process, is_over: threading.Event, peaks: dict[str, float]) -> None:
    """Keep the most memory that the driver and all it started had at once, without shells."""
    while not is_over.wait(0.3):
        total = 0.0
        for process in (driver, *driver.children(recursive=True)):
            try:
                if process.name() not in SHELLS:
                    total += process.memory_full_info().pss / 1e6
            except psutil.Error:
                continue
        peaks["first"] = peaks.get("first") or total
        peaks["most"] = max(peaks.get("most", 0.0), total)


def main(options: list[str]) -> None:
    words = options or list(UNHELD)
    with tempfile.TemporaryDirectory(prefix="oh-fleet-") as folder, FakeLLM(answer) as fake:
        home = Path(folder)
        variables = {"OH_DAEMON_MODEL": "openai/fake", "OH_DAEMON_BASE_URL": fake.url}
        env = {**os.environ, **variables, "OH_DAEMON_API_KEY": "sk-b", "OH_DAEMON_HOME": folder}
        file, script = make_tasks(home), Path(sys.executable).with_name("oh-daemon")
        command = [script, "fleet", file, "--out", home / "out", "-j", str(N_JOBS), *words]
        begin, before = time.monotonic(), os.times()
        driver = subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True)
        is_over, peaks = threading.Event(), dict[str, float]()
        weighing = (psutil.Process(driver.pid), is_over, peaks)
        watch = threading.Thread(target=weigh, args=weighing)
        watch.start()
        _, output = driver.communicate()
        seconds, after = time.monotonic() - begin, os.times()
        is_over.set()
        watch.join()
    cpu_s = sum(after[2:4]) - sum(before[2:4])
    each_mb = (peaks["most"] - peaks["first"]) / N_JOBS
    sys.stdout.write(
        f"{output.splitlines()[-2]}\n\n| {N_TASKS} tasks x {N_STEPS} steps, -j {N_JOBS}"
    )
    sys.stdout.write(" | wall s | CPU s | MB each beyond the shell |\n|---|---|---|---|\n")
    sys.stdout.write(f"| {' '.join(words)} | {seconds:.1f} | {cpu_s:.1f} | {each_mb:.1f} |\n")


if __name__ == "__main__":
    main(sys.argv[1:])
