"""A fleet as a user starts it: a repository, tasks in a file, a model that knows each prompt."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from command_line import Ran, end, environment, start
from fake_llm import Step, first_user_text, script_by_key
from starts import SCRIPT
from world import World

Json = dict[str, Any]
UNHELD = ("--sandbox", "off", "--boundary", "vm")


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=t", "-c", "user.email=t@t")
    outcome = subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)
    return outcome.stdout.decode().strip()


def make_repository(folder: Path) -> Path:
    folder.mkdir()
    (folder / "a.txt").write_text("one\n")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "base")
    return folder


@dataclass(frozen=True)
class FleetWorld:
    world: World
    repo: Path
    out: Path

    def script(self, **scripts: Sequence[Step]) -> None:
        """Answer each conversation by the task whose id is in its first message."""
        by_id = {name.replace("_", "-"): steps for name, steps in scripts.items()}

        def key(request: Json) -> str:
            prompt = first_user_text(request)
            return next(name for name in by_id if f"Do {name}." in prompt)

        self.world.llm.play(script_by_key(key, by_id))

    def tasks(self, *ids: str, **fields: str) -> str:
        """Write the file of tasks and return its name."""
        file = self.out.with_name("tasks.jsonl")
        rows = [{"id": i, "repo": str(self.repo), "prompt": f"Do {i}.", **fields} for i in ids]
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return str(file)

    @property
    def environment(self) -> dict[str, str]:
        return environment(self.world.home, **self.world.environment)

    def begin(self, *words: str, **more: str) -> subprocess.Popen[str]:
        return start([SCRIPT, "fleet", *words], self.out.parent, {**self.environment, **more})

    def run(self, tasks: str, *words: str) -> Ran:
        return end(self.begin(tasks, "--out", str(self.out), *words))

    def results(self, of: str = "results") -> dict[str, Json]:
        lines = (self.out / f"{of}.jsonl").read_text().splitlines()
        rows = [json.loads(line) for line in lines]
        by_id = {row.get("id") or row["instance_id"]: row for row in rows}
        assert len(by_id) == len(rows)
        return by_id

    def events(self, task: str) -> list[Json]:
        log = self.out / "tasks" / task / "log" / "events.jsonl"
        lines = map(json.loads, log.read_text().splitlines())
        return [line["event"] for line in lines if "event" in line]

    def set(self, settings: Mapping[str, Any]) -> None:
        (self.world.home / "settings.json").write_text(json.dumps(settings))
