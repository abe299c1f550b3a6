"""Git repositories as projects of a test."""

import subprocess
from pathlib import Path


def git(place: Path, *words: str) -> str:
    """Run git as the user does, outside of any sandbox."""
    outcome = subprocess.run(["git", *words], cwd=place, check=True, capture_output=True, text=True)
    return outcome.stdout.strip()


def repository(place: Path) -> Path:
    place.mkdir(exist_ok=True, parents=True)
    git(place, "init", "-q")
    git(place, "symbolic-ref", "HEAD", "refs/heads/main")
    git(place, "config", "user.name", "Somebody")
    git(place, "config", "user.email", "somebody@example.org")
    for name in ("a.txt", "b.txt"):
        (place / name).write_text("one\n")
    git(place, "add", ".")
    git(place, "commit", "-qm", "First")
    return place
