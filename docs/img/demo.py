"""Writes docs/img/demo.svg from a real run of `oh-daemon demo`; `make picture` calls it."""  # noqa: INP001 - a script, no package.

import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

PICTURE = Path(__file__).with_name("demo.svg")
WIDTH = 96
CUTS = (
    ("Here is how", False),
    ("One test fails", True),
    ("  .", False),
    ("  1 passed", True),
    ("All of it", False),
    ("The discount", True),
)
"""Where the picture leaves lines out (False) and goes on (True), by how a line begins."""
LEFT_OUT = ("oh-daemon demo", "Used:", "Log:", "Show:", "  allow (by user)")
# Rich loads a font from the web; whoever looks at the picture has a fixed one of their own.
FORMAT = re.sub(
    r"@font-face \{\{.*?\}\}\s*|<!--.*?-->", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL
).replace("Fira Code", "ui-monospace, SFMono-Regular, Menlo, DejaVu Sans Mono")


def main() -> None:
    with tempfile.TemporaryDirectory() as home:
        project = Path(home) / "shop"
        environment = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": "200", "OH_DAEMON_HOME": home}
        environment |= {"OH_DAEMON_MODEL": "demo"}
        command = [sys.executable, "-m", "oh_daemon", "demo", "--folder", str(project)]
        shown = subprocess.run(
            command, env=environment, check=True, capture_output=True, text=True
        ).stdout.replace(str(project), "~/shop")
    console = Console(record=True, width=WIDTH, file=io.StringIO())
    for line in chain(["$ oh-daemon demo"], _excerpt(shown.splitlines())):
        console.print(Text.from_ansi(line))
    svg = console.export_svg(
        title="oh-daemon demo", theme=MONOKAI, code_format=FORMAT, unique_id="demo"
    )
    # Some renderers drop the spaces that a line begins with.
    PICTURE.write_text(svg.replace("<text ", '<text xml:space="preserve" '), "utf-8")


def _excerpt(lines: list[str]) -> Iterator[str]:
    """Without the plan, the first of the two test runs, and what only this run has."""
    shows = True
    for line in lines:
        plain = Text.from_ansi(line).plain
        match = next((shown for start, shown in CUTS if plain.startswith(start)), None)
        shows = shows if match is None else match
        if shows and not plain.startswith(LEFT_OUT):
            yield line


if __name__ == "__main__":
    main()
