"""The files to which an approval of a command is bound, and the commands that cannot be bound."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from oh_daemon.features.risk.rating import Rating, rate_command
from oh_daemon.workspace.path_classes import Disk
from oh_daemon.workspace.paths import ProgramFinder, in_bare_repository

_BOUND: dict[str, list[str]] = {
    "mkdir build && rm -f build/x; grep -rn TODO . | sort | head -3 > out.txt": [],
    "git status && git log --oneline": [],
    "curl -O https://example.com/a.tgz": [],
    "./x.sh --all": ["./x.sh"],
    "{folder}/x.sh": ["{folder}/x.sh"],
    '"$OH_PROJECT_DIR"/x.sh': ["{folder}/x.sh"],
    "sh ${OH_PROJECT_DIR}/scripts/x.py": ["{folder}/scripts/x.py"],
    "cd scripts && $OH_PROJECT_DIR/x.sh && ./y.sh": ["{folder}/x.sh", "scripts/./y.sh"],
    "$PWD/x.sh": ["./x.sh"],
    "cd scripts && python3 x.py": ["scripts/x.py"],
    "./link/../x.sh": ["./link/../x.sh"],
    "sh ./scripts/../x.sh": ["./scripts/../x.sh"],
    "sh 'a b.sh' && sh a\\ b.sh && sh \"a b\"'.sh'": ["a b.sh"],
    "python3 -Bu scripts/x.py < a.txt": ["scripts/x.py"],
    ".venv/bin/python scripts/x.py": [".venv/bin/python", "scripts/x.py"],
    "node hook.js a.js; perl x.pl; ruby x.rb": ["hook.js", "x.pl", "x.rb"],
    "bash -euo pipefail x.sh": ["x.sh"],
    ". ./x.sh; source x.rb": ["./x.sh", "x.rb"],
    "bash -lc './x.sh && sh scripts/y.sh'": ["./x.sh", "scripts/y.sh"],
    "eval './x.sh'; trap ./x.sh EXIT": ["./x.sh"],
    "A=1 env B=2 nice -n 5 timeout -k 1 5 nohup ./x.sh": ["./x.sh"],
    "command ./x.sh; exec ./x.sh; time ./x.sh; ! ./x.sh": ["./x.sh"],
    "if [ -f x.sh ]; then (./x.sh) & { sh hook.js; }; fi": ["./x.sh", "hook.js"],
    "true | ./x.sh > out.txt 2>&1": ["./x.sh"],
    "./x.sh $Y > $Z; python3 x.pl *.txt; echo $ARGUMENTS": ["./x.sh", "x.pl"],
    "find . -name '*.sh' -exec ./x.sh {} \\;": ["./x.sh"],
    "for f in *.txt; do sh x.sh $f; done": ["x.sh"],
    "fmt a.txt": ["bin/fmt"],
    "nice fmt": ["bin/fmt"],
}
"""Commands in the folder of `_FILES`, and the files that they run."""
_FILES = """x.sh scripts/x.py scripts/y.sh x.pl x.rb hook.js .venv/bin/python bin/fmt a.txt a.js
link/../x.sh Makefile pkg/__main__.py watch inspect BATCH CMD"""
_UNBOUND = r"""
make check ¦ npm run lint ¦ npx tsx hook.js ¦ uvx ruff ¦ pytest -q ¦ python3 -m pkg ¦ cargo test
just x ¦ cat x.sh | sh ¦ sh < x.sh ¦ bash <(cat x.sh) ¦ python3 - < x.py ¦ python3 -c 'import pkg'
sh none.sh ¦ "$(git rev-parse --show-toplevel)/x.sh" ¦ $(pwd)/x.sh ¦ `pwd`/x.sh ¦ ./scripts/*.sh
sh scripts/y.?h ¦ S=scripts; $S/y.sh ¦ sh $X ¦ tar $X ¦ eval "$(cat x.sh)" ¦ sh -c "$X"
sh -c "sh $X" ¦ . "$X" ¦ ./{x,y}.sh ¦ PWD=scripts; $PWD/y.sh
read OH_PROJECT_DIR; $OH_PROJECT_DIR/y.sh ¦ cd -; ./x.sh ¦ pushd scripts && ./y.sh
PATH=./bin:$PATH fmt ¦ PATH=./bin ls ¦ BASH_ENV=x.sh bash -c true ¦ LD_PRELOAD=./x.so ls ¦ foo
./x.sh && make ¦ find . -exec sh {} \; ¦ ls *.sh | xargs -n1 sh ¦ for f in *.sh; do sh $f; done
f() { ./x.sh; }; f ¦ awk -f x.sh ¦ sed -f x.sh a ¦ jq -f x.sh a ¦ rg --pre ./x.sh a
git -c core.pager=./x.sh log ¦ tar -I ./x.sh -tf a ¦ git commit -m x ¦ git push ¦ sudo ./x.sh
docker build . ¦ ssh host ¦ terraform plan ¦ gh pr list ¦ psql -f x.sql ¦ node . ¦ node scripts
node -r ./a.js hook.js ¦ node --import ./a.js hook.js ¦ node inspect hook.js ¦ tsx watch hook.js
perl -Mx x.pl ¦ ruby -rx x.rb ¦ lua -l x a.js ¦ R CMD BATCH x.R ¦ python3 -i scripts/x.py
python3 -Werror::pkg.W scripts/x.py ¦ bash --rcfile x.sh -i ¦ bash -i x.sh ¦ sh ~/x.sh
env -a ls ./x.sh ¦ env -C scripts ./y.sh ¦ nice --x ls ./x.sh ¦ env --split-string ./x.sh
.venv/bin/pytest ¦ .venv/bin/python -m pkg ¦ echo $(make) ¦ sh $Y x.sh
timeout $T ./x.sh ¦ env $X ./x.sh ¦ find $X ¦ export $X ¦ git log $X
find . -execdir ./x.sh {} \; ¦ cat $X ¦ ((x)) && ./x.sh
alias ls=./x.sh ¦ hash -p ./x.sh ls ¦ function ls { ./x.sh; } ¦ if ¦ coproc ./x.sh ¦ sh pipe
sh -c 'cd scripts && sh y.sh'"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("bound") / "project"
    other = top.with_name("other") / "deep"
    other.mkdir(parents=True)
    top.mkdir()
    (top / "link").symlink_to(other)
    for name in [*_FILES.split(), "a b.sh"]:
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("exit 0\n")
        path.chmod(0o755)
    os.mkfifo(top / "pipe")
    return top


def _rate(folder: Path, command: str) -> Rating:
    finder = ProgramFinder((folder,), f"bin:{folder}/bin:/usr/bin:/bin")
    disk = Disk(in_bare_repository, is_file=os.path.isfile, find_program=finder)
    variables = {"OH_PROJECT_DIR": str(folder)}
    return rate_command(command, [folder], folder, disk, variables)


@pytest.mark.parametrize("command", _BOUND)
def test_command_is_bound_to_the_files_that_it_runs(folder: Path, command: str) -> None:
    rating = _rate(folder, command.replace("{folder}", str(folder)))
    names = [name.replace("{folder}", str(folder)) for name in _BOUND[command]]
    scripts = [os.path.join(folder, name) for name in names]  # noqa: PTH118 - `.` stays.
    assert ([*rating.scripts], rating.is_bound) == (scripts, True)


@pytest.mark.parametrize("command", re.split(r" ¦ |\n", _UNBOUND.strip()))
def test_command_that_may_run_other_files_is_not_bound(folder: Path, command: str) -> None:
    assert not _rate(folder, command).is_bound


@pytest.mark.parametrize("name", ["with space", "with'quote", "with$dollar", "with{a,b}"])
def test_project_folder_of_any_name_is_found_or_not_bound(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    (folder / "x.sh").write_text("")
    for command in ("$OH_PROJECT_DIR/x.sh", '"$OH_PROJECT_DIR/x.sh"'):
        rating = _rate(folder, command)
        assert not rating.is_bound or [*rating.scripts] == [f"{folder}/x.sh"]
