"""What runs unasked without a sandbox: a short list, and nothing else, however it is written.

A real bash runs random scripts that the rating takes for plain. None may change a file, or print
what was planted as a secret.
"""

from __future__ import annotations

import os
import random
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from oh_daemon.features.risk.rating import rate_command
from oh_daemon.features.risk.short_list import Form, ShortList, short_list, why_not_plain
from oh_daemon.system.environment import clean_env
from oh_daemon.workspace.path_classes import Disk, RatingScope
from oh_daemon.workspace.paths import Folders, in_bare_repository

_SECRET = "planted-as-a-secret"
"""What must not be read unasked."""

PLAIN = """ls -la¦ls -R src¦pwd¦cat README.md src/a.py¦head -n 20 src/a.py¦tail -5 README.md
¦wc -l 'src/b c.txt'¦grep -n 'def \tname' src/a.py¦grep -in -A 3 -e one -e two README.md src/a.py
¦find . -name '*.py' -type f -not -path './.git/*'¦find src -maxdepth 1 '(' -name a.py -o -empty ')'
¦git status --short¦git --no-pager diff HEAD -- src¦git log --oneline -5¦git show HEAD:src/a.py
¦git diff HEAD~1 HEAD^ --stat¦git blame -L 1,2 src/a.py¦git branch -a¦git rev-parse HEAD
¦git ls-files | sort | uniq -c | sort -rn | head -3¦cd src && ls && cat a.py¦cd src¦cat - | wc -c
¦cut -d , -f 2 README.md¦echo --- && ls; ls || true¦sort -k2,2n -t : README.md¦date +%F¦echo "it's"
¦diff -u README.md src/a.py¦du -sh src¦stat -c %s README.md¦which ls¦git --version¦find --version
¦grep -n 'Größe 長' README.md¦ls;pwd""".replace("\t", "")

ASKED = {
    "C1": r"""true [[ a =~ x;touch PWNED ]]¦echo [[ a =~ x;touch PWNED ]]¦echo \ #;touch PWNED
    ¦echo \⇥#;touch PWNED¦echo ${x^^{};touch PWNED;: }¦echo ${x,,{};touch PWNED;: }
    ¦echo ${x##{};touch PWNED;: }¦echo ${x%%{};touch PWNED;: }¦echo ${x//{};touch PWNED;: }
    ¦cat <<E;ls⏎$x;a⏎E⏎$x;touch PWNED¦true [[ a == >C ]]¦echo [[ a =~ [ ⏎touch C⏎ ] ]]
    ¦⏎ls¦ls⏎touch PWNED¦ls⇥-l¦ls & touch PWNED¦ls |& cat¦ls ;; ls¦ls > C¦ls >| C¦ls $x¦ls *
    ¦ls `ls`¦ls "$x"¦ls a\ b¦ls 'a'b¦ls {a,b}¦A=1 ls¦ls # x¦! ls¦(ls)¦{ ls; }¦time ls¦ls a=~
    ¦echo "!!"¦''¦¦ls ;¦&& ls¦ls ~¦ls [a]¦ls a?b¦ls 'a""",
    "C2": r"""perl -ne 'print if /uid/' 'touch${IFS}PWNED|'¦perl -ne 'print if /uid/' '>file'
    ¦sed -n '/x\/p;/! etouch PWNED;#/p' README.md¦sed -n '/x\/p;/! w PWNED' README.md
    ¦awk 'BEGIN{print 1 -F|"touch PWNED"}'¦awk 'BEGIN{print "x;" >> "HOME/.bashrc"}'
    ¦awk -W exec ./evil.awk¦mapfile -tC 'touch PWNED;:' -c1 a < README.md
    ¦sqlite3 -readonly -init evil.sql "select 1"¦diff3 --diff-program=./evil.sh a b c
    ¦nm --plug=./evil.so a.o¦openssl req -in r.csr -text -config ./evil.cnf
    ¦apt-cache policy bash -o Dir::Bin::dpkg=./evil.sh¦apt list -c ./a.conf
    ¦man --config-file=./man.conf ./p.1¦uniq README.md -c victim.txt¦sort -o C README.md
    ¦sort -no C README.md¦sort --out=C README.md¦find . -delete¦find . -exec touch PWNED ';'
    ¦find . -fprint C¦git log -S --output=C¦tree -o C¦file -C -m x¦date 0101¦date -s 0101
    ¦git branch x¦git diff --output=C¦git -c core.pager=x log¦git log --ext-diff¦git grep -Oless x
    ¦git blame -S C¦diff -l a b¦tree -Ifo a C¦sort --compress-program=./x README.md
    ¦sort -T x README.md¦git stash""",
    "C3": """GCONV_PATH=. iconv x¦OPENSSL_CONF=x openssl version¦LESSKEYIN=x less README.md
    ¦MANOPT=x man ls¦GROFF_BIN_PATH=. man ls¦JDK_JAVA_OPTIONS=x java -version
    ¦MAVEN_OPTS=x mvn --version¦RUSTUP_TOOLCHAIN=x cargo --version¦export A=1¦set -k""",
    "C4": """pytest --help¦flask --help¦mvn --version¦cargo --version¦yarn --version¦tox --version
    ¦git --help¦ls --help""",
    "H1": """grep -rn K¦grep -r "" .¦grep -dn recurse K .¦grep -d recurse K .¦grep --recursiv K .
    ¦rg --hidden K .¦rg K¦cat docs/link.md¦cat docs/../docs/link.md¦cd docs && cat link.md
    ¦cat outside/x¦cd outside && cat x¦cat .env¦grep -n K .env¦grep -f .env README.md
    ¦wc --files0-from=README.md¦diff -r . src¦diff . src¦git diff --no-index . src¦git diff . src
    ¦printenv -0¦declare -xp¦env -u FOO¦ps eaux¦set¦cd ..¦cd src/..¦cd -¦cd src; cat a.py¦ls ../x
    ¦cat outside/../secret.txt¦ls && cd src¦git show HEAD:.env¦git diff ':(top)x'""",
}


def commands(text: str) -> list[str]:
    parts = re.split(r"\n *¦|¦", text)
    return [command.replace("⏎", "\n").replace("⇥", "\t") for command in parts]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project as a clone can be: with links that lead out, and a secret that git ignores."""
    base = tmp_path_factory.mktemp("plain")
    project = base / "project"
    for folder in (project / "src", project / "docs", base / "home", base / "out"):
        folder.mkdir(parents=True)
    (base / "out/x").write_text(_SECRET)
    (base / "secret.txt").write_text(_SECRET)
    (project / "outside").symlink_to(base / "out")
    (project / "docs/link.md").symlink_to(base / "secret.txt")
    (project / "README.md").write_text("one\ntwo x PWNED\n")
    (project / ".gitignore").write_text(".env\n")
    (project / "src/a.py").write_text("def name() -> None:\n    pass\n")
    (project / "src/b c.txt").write_text("a,b\n")
    git = ("git", "-C", str(project), "-c", "user.name=Ana", "-c", "user.email=ana@example.org")
    init = ("init", "-q", "--template=", "--separate-git-dir", str(base / "git"))
    for args in (init, ("add", "-A"), ("commit", "-qm", "one")):
        subprocess.run([*git, *args], check=True)
    (project / ".env").write_text(f"KEY={_SECRET}\n")
    return base


def disk_of(project: Path) -> Disk:
    return Disk(in_bare_repository, Folders((project,)).leads_away, os.path.isdir)


@pytest.mark.parametrize("command", commands(PLAIN))
def test_reading_a_project_in_plain_words_runs_unasked(template: Path, command: str) -> None:
    project = template / "project"
    rating = rate_command(command, [project], None, disk_of(project))
    assert (rating.risk, rating.only_reads) == ("low", True), rating.reasons


@pytest.mark.parametrize("kind", ASKED)
def test_what_was_once_found_to_do_more_asks(template: Path, kind: str) -> None:
    project = template / "project"
    disk = disk_of(project)
    assert [
        c for c in commands(ASKED[kind]) if rate_command(c, [project], None, disk).risk == "low"
    ] == []


_GRAMMAR = {
    "script": """<line>¦<line>¦<line>¦<simple> <joint> <line>¦<simple> <joint> <line>
        ¦<hidden>¦<line><gap><evil>""",
    "line": """<simple>¦<simple>¦<simple> <joint> <simple>¦cd <path> && <simple>
        ¦<simple><gap><simple>""",
    "joint": "&&¦||¦|¦;",
    "gap": ";¦ ;¦&¦|¦⏎¦ \\⏎¦ #¦ #⏎¦ &&¦ ||⏎¦|&¦;;¦ \\¦ & ¦⇥",
    "simple": "<table>¦<table>¦<table>¦<other>",
    "other": """ls <path>¦cat <path>
        ¦grep <option> x <path>¦grep <option> ''¦grep <option> ''¦find <path> <option>¦find <option>
        ¦echo <word> <word>¦find <path> <option> <word>¦git log <option> <word>¦cd <path>
        ¦git diff <option> <path> <path>¦sort <option> <path>¦uniq <path> <path>¦x=<word> ls
        ¦ls <word>¦printenv¦declare -xp¦env -u A¦perl -ne 'print' '<evil>|'¦test -v <word>
        ¦awk 'BEGIN{system("<evil>")}'¦sed -n '1e <evil>' README.md¦sed -n 'w PWNED' README.md
        ¦ls > <path>¦tee <path>¦git --help¦[[ x == x ]]¦mapfile -tC '<evil>;:' -c1 a < README.md""",
    "hidden": """true [[ a =~ x;<evil> ]]¦echo [[ a =~ [ ⏎<evil>⏎ ] ]]¦true [[ a == >PWNED ]]
        ¦echo \\ #;<evil>¦echo \\⇥#;<evil>¦echo ${x^^{};<evil>;: }¦echo "${x//{};<evil>;: }"
        ¦cat <<E;ls⏎$x;a⏎E⏎$x;<evil>¦cat <<E⏎$(<evil>)⏎E¦ls # ⏎<evil>¦ls \\⏎;<evil>
        ¦echo '<word>'<evil>''¦echo "<word>";<evil>¦echo 'x\\';<evil>;'¦echo {a,$(<evil>)}
        ¦echo $((a[$(<evil>)]))¦ls `<evil>`¦ls <(<evil>)¦ls 'x'\\'';<evil>'¦eval <evil>¦time <evil>
        ¦a[$(<evil>)]=1¦ls & <evil>¦if <evil>; then ls; fi¦{ <evil>; }¦(<evil>)
        ¦f() { <evil>; }; f""",
    "evil": "touch PWNED¦touch PWNED¦>PWNED¦cp .env PWNED¦cat .env¦grep -rn . .¦cat docs/link.md",
    "path": "<near>¦<near>¦<near>¦<far>",
    "near": "README.md¦src/a.py¦'src/b c.txt'¦src¦.¦-",
    "far": """.env¦docs/link.md¦outside/x¦docs/../docs/link.md¦../secret.txt¦outside/../secret.txt¦*
        ¦docs/*¦.e?v¦~¦$PWD/.env¦src/../.env¦''¦link.md""",
    "word": "<text>¦<text>¦<text>¦<trick>",
    "text": "x¦1¦2¦+1¦'x y'¦\"x y\"¦HEAD¦HEAD:src/a.py¦a:b¦'é'¦%s¦+%F¦PWNED¦'x;<evil>'¦--¦<near>",
    "trick": """HEAD:.env¦x=~¦$x¦$(<evil>)¦"$(<evil>)"¦'$(<evil>)'¦;<evil>¦x;<evil>¦\\;¦"`<evil>`"
        ¦!!¦"!"¦{x,y}¦é¦x#y¦#x¦@(a|b)¦[a]¦\\¦<far>""",
    "option": """-n¦-r¦-r¦-R¦-rn¦-o¦-f¦-e¦-d¦-delete¦-delete¦-exec¦-fprint¦-name¦-type f
        ¦--output=PWNED¦--no-index¦-O¦-c¦-C¦-L¦-H¦-z¦-s¦-T¦--files0-from=README.md¦--ext-diff¦--help¦-5¦-p¦--stat
        ¦-n 2¦-nr¦--recursive¦--""",
}
_RULES = {name: commands(rules) for name, rules in _GRAMMAR.items()}


_BATCH = 100


class Fuzzer:
    """Random scripts; what is plain is run by bash in a folder of its own."""

    def __init__(self, template: Path, scratch: Path, plain: ShortList) -> None:
        self._choose = random.Random(os.environ["OH_TEST_SEED"])
        self._project, self._repository = template / "project", template / "git"
        self._as_it_was = _contents(self._project), _contents(self._repository)
        self._scratch = scratch
        self._plain = plain
        self.n_run = 0
        (scratch / "secret.txt").write_text(_SECRET)

    def harmful(self, n_scripts: int) -> Iterator[str]:
        """Yield the scripts, among so many, that were taken for plain and did harm."""
        for _ in range(n_scripts // _BATCH):
            scripts = [self.compose("script").replace("⏎", "\n") for _ in range(_BATCH)]
            plain = [each for each in scripts if self._is_plain(each)]
            self.n_run += len(plain)
            yield from self._run(plain)

    def _is_plain(self, script: str) -> bool:
        ground = RatingScope((str(self._project),), str(self._project), disk_of(self._project))
        return why_not_plain(script, ground, self._plain) is None

    def _run(self, scripts: list[str]) -> Iterator[str]:
        for n, script in enumerate(scripts):
            folder = self._scratch / f"{n}"
            # One that a script left as it was serves the next.
            if not folder.exists():
                shutil.copytree(self._project, folder, symlinks=True)
            folder.with_suffix(".sh").write_text(script, "utf-8")
        lines = [f"(cd {n}; . ../{n}.sh) < /dev/null &> {n}.out" for n in range(len(scripts))]
        environment = {"PATH": os.defpath, "HOME": str(self._scratch), "LENT": _SECRET}
        subprocess.run(
            ["bash"],
            input="\n".join([f"cd {shlex.quote(str(self._scratch))}", *lines, ""]).encode(),
            env=clean_env({**environment, "LC_ALL": "C.UTF-8"}),
            check=False,
        )
        for n, script in enumerate(scripts):
            folder = self._scratch / f"{n}"
            output = folder.with_suffix(".out").read_text("utf-8", "replace")
            is_changed = _contents(folder) != self._as_it_was[0]
            if is_changed:
                shutil.rmtree(folder)
            if is_changed or _SECRET in output:
                yield script
        stems = {path.stem for path in self._scratch.iterdir()}
        assert stems <= {"secret", *map(str, range(_BATCH))}, scripts
        assert _contents(self._repository) == self._as_it_was[1], scripts

    def compose(self, symbol: str, depth: int = 8) -> str:
        if symbol == "table":
            return self._call(depth - 1)
        rules = _RULES[symbol]
        flat = [rule for rule in rules if "<" not in rule]
        rule = self._choose.choice(rules if depth > 0 or not flat else flat)
        return re.sub(r"<([a-z]+)>", lambda found: self.compose(found[1], depth - 1), rule)

    def _call(self, depth: int) -> str:
        """Compose a program of the list with options that it may have, and values of all kinds."""
        program, form = self._choose.choice(list(self._plain.forms.items()))
        n_options = min(self._choose.randint(0, 2), len(form.options))
        actual_options = self._choose.sample(list(form.options.items()), k=n_options)
        is_search = form.operands == "search"
        options = [self._option(*each, depth=depth, is_search=is_search) for each in actual_options]
        paths = [self.compose("path", depth) for _ in range(self._choose.randint(0, 2))]
        # Other programs find their options anywhere.
        parts = [*paths, *options] if is_search or depth % 2 else [*options, *paths]
        return " ".join((program, *parts))

    def _option(self, option: str, sign: str, *, depth: int, is_search: bool) -> str:
        value = "1" if sign == "#" else self.compose("word", depth)
        if is_search:
            return option[1:].replace("=", f" {value}")
        if option.endswith("="):
            return option + value
        return option + self._choose.choice(("", " ")) + value if sign else option


def _contents(folder: Path) -> dict[str, bytes | None]:
    """Return what is in all files below; a link has no content of its own.

    Not of git's index: `git diff` brings the times in it up to date.
    """
    files = (path for path in folder.rglob("*") if not path.is_dir() or path.is_symlink())
    paths = [path for path in files if path.name != "index"]
    return {
        str(path.relative_to(folder)): None if path.is_symlink() else path.read_bytes()
        for path in paths
    }


def _check(template: Path, tmp_path: Path, n_scripts: int) -> None:
    fuzzer = Fuzzer(template, tmp_path, short_list())
    assert list(fuzzer.harmful(n_scripts)) == []
    assert fuzzer.n_run >= 0.1 * n_scripts
    print(f"{n_scripts} scripts, {fuzzer.n_run} of them plain")  # noqa: T201 - a report.


@pytest.mark.full
def test_random_scripts_that_run_unasked_change_nothing_and_show_no_secret(
    template: Path, tmp_path: Path
) -> None:
    _check(template, tmp_path, 3_000)


@pytest.mark.full
def test_the_same_holds_for_many_scripts(template: Path, tmp_path: Path) -> None:
    _check(template, tmp_path, 60_000)


def _with(program: str, operands: str, **options: str) -> ShortList:
    """Return the short list with a wrong row."""
    wrong = Form(operands, {f"-{name}".replace("_", "-"): sign for name, sign in options.items()})
    return short_list()._replace(forms={**short_list().forms, program: wrong})


_HOLES = {
    "an option that writes": _with("sort", "files", o="="),
    "an operand that is written to": _with("uniq", "files"),
    "a test that deletes": _with("find", "search", _delete=""),
    "an option that reads whole folders": _with("grep", "pattern", r=""),
    "a program that shows variables": _with("printenv", "none"),
    "paths taken for texts": _with("cat", "texts"),
    "a word with a semicolon": short_list()._replace(word=r"[\w./:@%+,^;-]+"),
    "a word with a redirect": short_list()._replace(word=r"[\w./:@%+,^>-]+"),
}


@pytest.mark.full
@pytest.mark.parametrize("hole", _HOLES)
def test_a_hole_in_the_list_or_in_its_words_is_found(
    template: Path, tmp_path: Path, hole: str
) -> None:
    assert next(Fuzzer(template, tmp_path, _HOLES[hole]).harmful(6_000), None) is not None
