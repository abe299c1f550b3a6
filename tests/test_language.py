"""The lint of names and prose. Each finding names the better form.

`language_baseline.tsv` counts what offended when the lint came, by file and rule. It may only
shrink: after an improvement, `.venv/bin/python tests/test_language.py` writes it again.
"""

import ast
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

REPO = Path(__file__).parents[1]
BASELINE = Path(__file__).with_name("language_baseline.tsv")
NOUNS = {
    "found": "`match`, `paths`, `entry`",
    **dict.fromkeys(("told", "said"), "`text`, `message`, `answer`, `note`"),
    "known": "`names`, `options`, `earlier_rows`",
    "named": "`params`, `path`, `names`",
    **dict.fromkeys(
        ("given", "wanted", "asked", "chosen"), "`arguments`, `expected_mode`, `request`, `option`"
    ),
    **dict.fromkeys(("kept", "left", "held"), "`remaining_files`, `blob`, `is_sandboxed`"),
    **dict.fromkeys(("ended", "done", "begun", "started", "ran"), "`outcome`, `result`, `is_done`"),
    **dict.fromkeys(
        ("shown", "listed", "seen", "sent", "made", "taken", "stored", "written"),
        "`text`, `entries`, `items`, `record`",
    ),
    **dict.fromkeys(
        ("opened", "changed", "planned", "refused", "offered", "allowed"),
        "`log`, `changes`, `plan`, `error`, `options`, `folders`",
    ),
    **dict.fromkeys(
        ("ours", "theirs", "mine", "here", "there"), "`own_end`, `other_end`, `local_path`"
    ),
}
"""Names of variables that say what happened to a value, with names that say what it is."""
TERMS = {
    **dict.fromkeys(("land", "lands", "landed", "landing"), "apply, pending changes"),
    **dict.fromkeys(("lend", "lends", "lent"), "expose, exposed"),
    **dict.fromkeys(("front", "fronts"), "frontend"),
    **dict.fromkeys(("hub", "acting"), "MultiClientServer, ActiveClient"),
    "desk": "control (command line), editor (tests)",
    "keeper": "monitor",
    **dict.fromkeys(("workbench", "bench"), "runtime"),
    "recipe": "config",
    **dict.fromkeys(("aside", "asides"), "side question"),
    "unasked": "without approval",
    "unheld": "not sandboxed",
    "novelties": "unapproved programs",
    **dict.fromkeys(("mend", "mended"), "fix, fixed"),
    **dict.fromkeys(("tell", "tells", "told"), "notify, report"),
}
"""Words inside an identifier, with the industry's word."""
OPENING = re.compile(r"(What|Whatever|Who|Whoever|Whose|Where|That|Those|Of|With|Without|How)\b")
"""A docstring, comment or label that starts so has no subject."""
TITLE_OPENING = re.compile(r"(What|Whatever|Who|Whoever|Whose|Where|That|Those|Of)\b")
PHRASES = {
    r"\bnobody\b": "no one, or who it is: no client",
    r"\banew\b": "again",
    r"\bbeside\b": "next to",
    r"\b(?:is|are) no \w+ of\b": "is not a",
    r"[Nn]othing but\b": "only",
    r", too\b": "also",
    r"\bor else\b": "otherwise",
    r"\bunasked\b": "without approval",
    r"\bwhat (?:waits|decides|holds|runs|it changed)\b": "the noun: pending approvals, policy",
    r"\bhas a (?:say|word|line)\b": "can block or modify; contains",
    r"\b(?:is|are|was|were) (?:told|said)\b": "is notified, is reported",
    r"\bin (?:a|the|its) view\b": "in the sandbox",
    r"\bland(?:s|ed|ing)?\b": "apply, applied",
    r"\blen[dt]s?\b": "expose, exposed",
    r"\bself-running\b": "project programs",
    r"\bmend(?:s|ed)?\b": "fix, fixed",
}
"""Phrases of docstrings, comments, labels and documents, with the better form."""
ANY_PHRASE = re.compile("|".join(PHRASES))
COMMENT = re.compile(r"(?:^ *|  )# (.*)$")
CODE = ("oh_daemon", "oh_schema", "tests", "benchmarks", "examples")
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "protocol.md", "docs/", "editors/")
FOREIGN_OR_GENERATED = (
    "demo_project",
    "oh_daemon/frontends/acp/schema.py",
    "oh_daemon/protocol/plain.py",
    "tests/test_language.py",
)
LABELS = {"title", "description", "markdownDescription", "enumDescriptions"}


@dataclass(frozen=True)
class Finding:
    """A place that breaks a rule."""

    file: str
    line: int
    rule: str
    text: str
    better: str

    @property
    def key(self) -> tuple[str, str]:
        return self.file, self.rule

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.rule}: {self.text!r}; better: {self.better}"


def test_names_and_prose_are_plain_english() -> None:
    findings = [*_findings()]
    counts, limits = _counts(findings), _baseline()
    problems = [str(each) for each in findings if counts[each.key] > limits[each.key]]
    assert not problems, "\n".join(problems)
    shrunk = {key: (n, counts[key]) for key, n in limits.items() if counts[key] < n}
    assert not shrunk, f"better than the baseline; run `.venv/bin/python {__file__}`: {shrunk}"


def _findings() -> Iterator[Finding]:
    for name in _tracked_files():
        text = (REPO / name).read_text("utf-8")
        if name.endswith(".py"):
            yield from _in_module(name, text)
        elif name.endswith(".json"):
            yield from _in_labels(name, json.loads(text))
        else:
            yield from _in_document(name, text)


def _tracked_files() -> Iterator[str]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    output = subprocess.run(command, cwd=REPO, check=True, capture_output=True, text=True).stdout
    for name in output.splitlines():
        is_code = name.startswith(CODE) and name.endswith(".py")
        is_document = name.startswith(DOCUMENTS) and name.endswith((".md", "doc/oh.txt"))
        is_labels = name == "editors/vscode/package.json"
        is_ours = not any(part in name for part in FOREIGN_OR_GENERATED)
        if is_ours and (is_code or is_document or is_labels) and (REPO / name).is_file():
            yield name


def _in_module(name: str, source: str) -> Iterator[Finding]:
    for node in ast.walk(ast.parse(source)):
        for identifier in _bound_by(node):
            yield from _in_identifier(name, getattr(node, "lineno", 0), identifier)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node, clean=False)
            if docstring:
                yield from _in_prose(name, node.body[0].lineno, "docstring", docstring)
    above = -1
    for number, line in enumerate(source.splitlines(), 1):
        if match := COMMENT.search(line):
            # A comment below another one goes on with its sentence.
            is_start = number != above + 1
            above = number
            yield from _in_prose(name, number, "comment", match[1], is_start=is_start)


def _bound_by(node: ast.AST) -> list[str]:
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
            return [name]
        case ast.ClassDef(name=name):
            return [name]
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return [] if name.startswith("test_") else [name]
        case ast.Attribute(attr=name, value=ast.Name(id="self"), ctx=ast.Store()):
            return [name]
        case _:
            return []


def _in_identifier(file: str, line: int, identifier: str) -> Iterator[Finding]:
    if better := NOUNS.get(identifier.strip("_")):
        yield Finding(file, line, "participle", identifier, better)
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", identifier)
    for word in {word.lower() for word in words} & TERMS.keys():
        yield Finding(file, line, "term", identifier, TERMS[word])


def _in_prose(
    file: str, line: int, rule: str, text: str, *, is_start: bool = True
) -> Iterator[Finding]:
    if is_start and (match := OPENING.match(text.strip())):
        yield Finding(file, line, f"{rule} opening", match[0], "begin with the subject or a verb")
    for pattern, better in PHRASES.items() if ANY_PHRASE.search(text) else ():
        for match in re.finditer(pattern, text):
            at = line + text.count("\n", 0, match.start())
            yield Finding(file, at, f"{rule} phrase", match[0], better)


def _in_document(file: str, text: str) -> Iterator[Finding]:
    is_example = is_generated = False
    for number, line in enumerate(text.splitlines(), 1):
        is_example ^= line.startswith("```")
        is_generated = line.startswith("<!-- generated") or (
            is_generated and not line.startswith("<!-- end")
        )
        if is_example or is_generated:
            continue
        title = re.match(r"#+ (?:\d+\. )?(.*)", line)
        if title and TITLE_OPENING.match(title[1]):
            yield Finding(file, number, "title opening", title[1][:40], "topic first: `Undo: …`")
        # Decisions are history: of them, only the titles are read.
        if not file.startswith("docs/decisions"):
            yield from _in_prose(file, number, "document", line, is_start=False)


def _in_labels(file: str, value: object, key: str = "") -> Iterator[Finding]:
    match value:
        case dict():
            for name, child in value.items():
                yield from _in_labels(file, child, str(name))
        case list():
            for child in value:
                yield from _in_labels(file, child, key)
        case str() if key in LABELS:
            yield from _in_prose(file, 1, "label", value)
        case _:
            pass


def _counts(findings: list[Finding]) -> Counter[tuple[str, str]]:
    return Counter(each.key for each in findings)


def _baseline() -> Counter[tuple[str, str]]:
    rows = (line.split("\t") for line in BASELINE.read_text("utf-8").splitlines())
    return Counter({(file, rule): int(count) for file, rule, count in rows})


def _write_baseline() -> None:
    limits = _baseline() if BASELINE.exists() else None
    counts = _counts([*_findings()])
    rows = [
        f"{file}\t{rule}\t{n if limits is None else min(n, limits[file, rule])}\n"
        for (file, rule), n in sorted(counts.items())
        if limits is None or limits[file, rule]
    ]
    BASELINE.write_text("".join(rows), "utf-8")
    sys.stdout.write(f"{BASELINE.name}: {len(rows)} rows\n")


if __name__ == "__main__":
    _write_baseline()
