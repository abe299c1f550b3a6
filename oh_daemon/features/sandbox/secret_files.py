"""Finds the files that may hold secrets, which a sandbox covers: nothing in it can read them.

What git tracks is no secret, else a repository would look changed in a sandbox. What was covered
once stays so while the sandbox lives: a command could have git track a file just to see it.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from oh_daemon.system.git import ask_git, repositories
from oh_daemon.system.proc import other_names
from oh_daemon.system.spawner import Spawner
from oh_daemon.workspace.paths import looks_secret

_MAX_IN_FOLDER = 10_000
NEEDED = tuple(
    Path(path).resolve() for path in (sys.prefix, sys.base_prefix, Path(__file__).parents[2])
)
"""Without these, nothing starts in a sandbox."""


class SecretCovers:
    """The places to cover in one sandbox. Safe from any thread."""

    def __init__(
        self,
        host: Spawner,
        roots: Sequence[Path],
        home: Path,
        environment: Mapping[str, str],
        *,
        own: Sequence[Path] = (),
        patterns: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        """`roots` are the real paths of the open folders, and `own` is what the daemon keeps.

        `allowed` are paths of secrets, or patterns for them, that the user lets commands read.
        """
        self._roots = roots
        self._needed_places = [f"{place}/" for place in (*NEEDED, *roots)]
        self._patterns_allowed = patterns
        bases = (_base(variable, home, environment) for variable in _APP_BASES)
        self._home = home
        self._trees = [
            *(FolderSecrets(root) for root in roots),
            FolderSecrets(home, app_prefix="."),
            *(FolderSecrets(base, app_prefix="") for base in bases),
        ]
        self._places = [*secret_places(home, environment), *own]
        self._tracked_by_root = {root: TrackedFiles(host, root) for root in roots}
        self._lock = threading.Lock()
        self._ever: set[Path] = set()

    def find(self) -> Mapping[Path, str]:
        """Return the places to cover, which exist, each with what changes when it must be anew."""
        patterns = self._patterns()
        with self._lock:
            places = {
                real: numbers
                for path, numbers in self._candidates()
                for real in [Path(os.path.realpath(path))]
                if real.exists() and self._may_cover(path, real, patterns)
            }
            known_places = self._ever.intersection(places)
            secret = known_places | set(self._untracked_paths(places.keys() - known_places))
            self._ever |= secret
            secret |= self._in_other_mounts(secret, patterns)
            outermost = {path for path in secret if secret.isdisjoint(path.parents)}
            return {path: places.get(path, "") for path in sorted(outermost)}

    def fixed_places(self) -> Sequence[Path]:
        """Return the real paths of the table's places, of which some may come to be only later."""
        patterns = self._patterns()
        pairs = [(path, Path(os.path.realpath(path))) for path in self._places]
        return [real for path, real in pairs if self._may_cover(str(path), real, patterns)]

    def without_secrets(self, texts: Mapping[Path, str]) -> Mapping[Path, str]:
        """Leave out what would stand, at a real path, where commands must not see it."""
        if not texts:
            return texts
        covered_places = self.find()
        return {
            path: text
            for path, text in texts.items()
            if covered_places.keys().isdisjoint((path, *path.parents))
            and not self._is_new_secret(path)
        }

    def _is_new_secret(self, path: Path) -> bool:
        is_secret = looks_secret(path.name) and not path.exists()
        return is_secret and not _fits(path, self._patterns())

    def _candidates(self) -> Iterator[tuple[str, str]]:
        for tree in self._trees:
            for path in tree.find():
                yield path, tree.numbers(path)
        for place in self._places:
            if os.path.lexists(place):
                yield str(place), ""

    def _in_other_mounts(self, secret: set[Path], patterns: Sequence[str]) -> set[Path]:
        """Return where else secrets and the home folder are, as by a bind mount."""
        names = {name for path in (self._home, *secret) for name in other_names(path)}
        return {name for name in names if self._may_cover(str(name), name, patterns)}

    def _may_cover(self, path: str, real: Path, patterns: Sequence[str]) -> bool:
        if any(
            needed_place.startswith(f"{str(real).rstrip('/')}/")
            for needed_place in self._needed_places
        ):
            return False
        return not (patterns and (_fits(Path(path), patterns) or _fits(real, patterns)))

    def _patterns(self) -> Sequence[str]:
        """Return the patterns for what commands may read."""
        # Unlike `Path.expanduser`, this one leaves the home folder of an unknown user as it is.
        patterns = (os.path.expanduser(text) for text in self._patterns_allowed())  # noqa: PTH111
        return [pattern for pattern in patterns if Path(pattern).parts]

    def _untracked_paths(self, paths: set[Path]) -> Iterator[Path]:
        for root in self._roots:
            inside = {path for path in paths if path.is_relative_to(root)}
            paths = paths - inside
            tracked_paths = self._tracked_by_root[root].among(inside) if inside else set[Path]()
            folders = {up for path in tracked_paths for up in path.parents}
            for path in inside - tracked_paths:
                yield from _files_below(path, tracked_paths) if path in folders else (path,)
        yield from paths


def _fits(path: Path, patterns: Sequence[str]) -> bool:
    return any(path.match(pattern) for pattern in patterns)


def _files_below(folder: Path, tracked_paths: set[Path]) -> Iterator[Path]:
    """Yield what git does not track in a folder of which it tracks something."""
    n_found = 0
    for parent, _, names in os.walk(folder):
        for path in (Path(parent, name) for name in names):
            if path not in tracked_paths and n_found < _MAX_IN_FOLDER:
                n_found += 1
                yield path


_LEFT_OUT = frozenset({".git", "node_modules", "site-packages", "dist-packages"})
"""Git needs its own files; and what packages bring along under such names is public."""
_MAX_FOLDERS = 20_000
_SLACK_NS = 20_000_000
"""How far the clock of files may lag behind, so that a change may not show in the times."""


class _Folder(Struct):
    """What a folder had when it was listed."""

    changed_ns: int
    number: int
    folders: list[str] = field(default_factory=list[str])
    secrets: list[str] = field(default_factory=list[str])


class FolderSecrets:
    """One folder and what is below it. Not for several threads at once."""

    def __init__(self, root: Path, *, app_prefix: str | None = None) -> None:
        """An `app_prefix` says that the root has one folder per program, named with this prefix.

        Only these folders are listed, not those in them. In them, names count as secret that in a
        project may stand for code.
        """
        self._root = str(root)
        self._app_prefix = app_prefix
        self._listings: dict[str, _Folder] = {}
        self._secrets: Mapping[str, int] = {}
        self._verdict_by_name: dict[str, bool] = {}

    def find(self) -> Mapping[str, int]:
        """Return the paths, links too, each with the number of the folder that it is in.

        Of a folder whose whole content counts as secret, only the folder. The uppermost come first;
        in very large trees the deepest are not found.
        """
        if not self._is_unchanged():
            self._secrets = self._list_numbers()
        return self._secrets

    def _is_unchanged(self) -> bool:
        try:
            return bool(self._listings) and all(
                os.lstat(path).st_ctime_ns == listing.changed_ns
                for path, listing in self._listings.items()
            )
        except OSError:
            return False

    def _list_numbers(self) -> Mapping[str, int]:
        listings: dict[str, _Folder] = {}
        queue = deque([self._root])
        now = time.time_ns()
        while queue and len(listings) < _MAX_FOLDERS:
            path = queue.popleft()
            try:
                status = os.lstat(path)
                listing = self._listings.get(path)
                if listing is None or listing.changed_ns != status.st_ctime_ns:
                    listing = self._list_folder(path, status, now)
            except OSError:
                continue
            listings[path] = listing
            queue += listing.folders
        self._listings = listings
        return {path: listing.number for listing in listings.values() for path in listing.secrets}

    def numbers(self, path: str) -> str:
        """Return what changes when a folder above a path was replaced."""
        numbers: list[str] = []
        while (path := path.rpartition("/")[0]) in self._listings:
            numbers.append(str(self._listings[path].number))
        return " ".join(numbers)

    def _list_folder(self, path: str, status: os.stat_result, now: int) -> _Folder:
        is_settled = status.st_ctime_ns < now - _SLACK_NS
        listing = _Folder(status.st_ctime_ns if is_settled else 0, status.st_ino)
        with os.scandir(path) as entries:
            for entry in entries:
                is_folder = entry.is_dir(follow_symlinks=False)
                name = f"{entry.name}/x" if is_folder else entry.name
                if self._is_secret(path, name):
                    listing.secrets.append(entry.path)
                elif is_folder and self._is_listed(path, entry.name):
                    listing.folders.append(entry.path)
        return listing

    def _is_listed(self, folder: str, name: str) -> bool:
        if self._app_prefix is None:
            return name not in _LEFT_OUT
        return folder == self._root and name.startswith(self._app_prefix)

    def _is_secret(self, folder: str, name: str) -> bool:
        # Most names are judged alone, so that each is judged once for all folders.
        above = folder.rpartition("/")[2]
        if folder != self._root:
            name = f"{above if above.startswith('.') or above in _PARENTS else '-'}/{name}"
        verdict = self._verdict_by_name.get(name)
        if verdict is None:
            is_of_app = self._app_prefix is not None and folder != self._root
            verdict = looks_secret(name) or (is_of_app and _is_secret_of_app(name))
            self._verdict_by_name[name] = verdict
        return verdict


_PARENTS = ("config", "kube")
"""Folders with a plain name in which files with harmless names hold secrets."""
_OF_APP = re.compile(
    r"""(^|[._-])(auth|oauth2?|creds?|credentials?|tokens?|secrets?|passw(or)?ds?|pass|keys?|apikeys?
    |adbkey|cookies|accounts?|history|shada|keyrings?|keystores?|wallets?)([._-]|$)""",
    re.VERBOSE,
)
_CODE = re.compile(r"\.(\w*sh|[cm]?[jt]sx?|py|rb|lua|vim|el|css|html?|md|svg|png|so|desktop|pub)$")


def _is_secret_of_app(name: str) -> bool:
    """Return whether a file (`"-/auth.json"`) or folder (`"-/keys/x"`) is a program's secret."""
    name = name.removesuffix("/x").rpartition("/")[2].casefold()
    return _OF_APP.search(name) is not None and _CODE.search(name) is None


_IN_HOME = """
.ssh .gnupg .password-store .pki .age .vault-token .netrc _netrc .git-credentials .Xauthority
.ICEauthority .xsession-errors .aws .azure .kube .oci .ibmcloud .bluemix .cf/config.json .aliyun
.fly .railway/config.json .minikube .docker/config.json .docker/contexts
.terraform.d/credentials.tfrc.json .terraformrc .pulumi/credentials.json .cloudflared .s3cfg .boto
.mc .passwd-s3fs .databrickscfg .snowflake .snowsql .dbt .kaggle .huggingface .wrangler .supabase
.ngrok2 .argocd .step .tsh .sentryclirc .wakatime.cfg .transifexrc .npmrc .yarnrc .yarnrc.yml
.pypirc .condarc .bunfig.toml .gem/credentials .bundle/config .hex/hex.config .cargo/credentials
.cargo/credentials.toml .m2/settings.xml .m2/settings-security.xml .ivy2/.credentials
.sbt/1.0/credentials .gradle/gradle.properties .nuget/NuGet/NuGet.Config .composer/auth.json
.subversion/auth .hgrc .android/debug.keystore .pgpass .my.cnf .mylogin.cnf .mongorc.js .dbshell
.lesshst .viminfo .mozilla .librewolf .zen .thunderbird .var/app snap/chromium snap/firefox
snap/thunderbird .muttrc .msmtprc .mbsyncrc .offlineimaprc .fetchmailrc .authinfo .authinfo.gpg
.weechat .irssi .purple .vnc .davfs2 .smbcredentials .jupyter .bitcoin .electrum .ethereum
.steam/config .openai .anthropic .claude.json .claude/.credentials.json .codex/auth.json
.gemini/oauth_creds.json .copilot/config.json .aider.conf.yml .continue/config.json
.continue/config.yaml .codeium/config.json .cursor/mcp.json .openhands/settings.json
.openhands/secrets.json .vscode-server/data/User/globalStorage
"""
_IN_CONFIG = """
gcloud gh hub glab-cli op doctl hcloud scw linode-cli vultr-cli.yaml fly rclone netlify .wrangler
vercel heroku flyctl ngrok tailscale teleport sdm argocd helm k9s sops age chezmoi/key.txt restic
borg syncthing containers/auth.json git/credentials hg pypoetry/auth.toml composer/auth.json
configstore wandb replicate openai github-copilot goose crush mods shell_gpt fabric
zed/settings.json io.datasette.llm stripe google-chrome google-chrome-beta google-chrome-unstable
google-chrome-for-testing chromium BraveSoftware microsoft-edge vivaldi opera librewolf
qutebrowser Bitwarden 1Password keepassxc rbw Signal Slack discord Element evolution aerc himalaya
isync weechat filezilla remmina freerdp spotify obs-studio solana openhands nix/netrc nix/nix.conf
Code/User/globalStorage Code/User/mcp.json Cursor/User/globalStorage VSCodium/User/globalStorage
Windsurf/User/globalStorage JetBrains gurobi.lic
"""
_IN_DATA = """
keyrings kwalletd password-store TelegramDesktop com.vercel.cli opencode/auth.json evolution atuin
amp jupyter/runtime pki qutebrowser remmina rbw Steam/config JetBrains
"""
_IN_STATE = "bash syncthing"
_IN_CACHE = "google-chrome chromium mozilla huggingface/token keyring"
_BASES = {
    "": ("", _IN_HOME),
    "XDG_CONFIG_HOME": (".config", _IN_CONFIG),
    "XDG_DATA_HOME": (".local/share", _IN_DATA),
    "XDG_STATE_HOME": (".local/state", _IN_STATE),
    "XDG_CACHE_HOME": (".cache", _IN_CACHE),
}
"""By the variable that moves it: a folder of the home folder, and names in it."""
_APP_BASES = ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")
"""Each has a folder for each program, by the XDG Base Directory Specification 0.8."""
_VARIABLES = (
    *("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AZURE_CONFIG_DIR", "CLOUDSDK_CONFIG"),
    *("DOCKER_CONFIG", "GH_CONFIG_DIR", "GNUPGHOME", "GOOGLE_APPLICATION_CREDENTIALS"),
    *("HF_TOKEN_PATH", "KUBECONFIG", "NETRC", "NPM_CONFIG_USERCONFIG", "PASSWORD_STORE_DIR"),
    *("PGPASSFILE", "SSH_AUTH_SOCK", "XAUTHORITY"),
)
"""Variables that name such a file or folder, or several, as a search path does."""
_OF_SYSTEM = (
    *("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/ssl/private"),
    *("/etc/krb5.keytab", "/etc/NetworkManager/system-connections", "/etc/wireguard"),
    *("/etc/ssh/ssh_host_rsa_key", "/etc/ssh/ssh_host_ecdsa_key", "/etc/ssh/ssh_host_ed25519_key"),
)
"""Only root can read these."""
_SNAPSHOTS = (".snapshots", ".snapshot", ".zfs", "timeshift")
"""Folders with earlier states of what is next to them: of snapper, NFS servers, ZFS, Timeshift."""


def _base(variable: str, home: Path, environment: Mapping[str, str]) -> Path:
    return Path(environment.get(variable) or home / _BASES[variable][0])


def secret_places(home: Path, environment: Mapping[str, str]) -> Iterator[Path]:
    """Yield where secrets may lie, whether they exist or not."""
    for variable, (_, names) in _BASES.items():
        base = _base(variable, home, environment)
        yield from (base / name for name in names.split())
    for variable in _VARIABLES:
        values = environment.get(variable, "").split(":")
        yield from (Path(name) for name in values if name.startswith("/"))
    yield from (up / name for up in (home, *home.parents) for name in _SNAPSHOTS)
    yield from map(Path, _OF_SYSTEM)


_MAX_WORDS = 200
_TRACKED = ("--literal-pathspecs", "ls-files", "-z", "--")


class TrackedFiles:
    """What git tracks below one open folder. Not for several threads at once."""

    def __init__(self, host: Spawner, folder: Path) -> None:
        self._host = host
        self._folder = folder
        self._answers: dict[Path, tuple[object, frozenset[Path]]] = {}
        """By repository: what was asked of which state of its index, and the answer."""

    def among(self, paths: Collection[Path]) -> set[Path]:
        """Return those of some files, and what is tracked below those that are folders."""
        find = repositories(self._folder)
        by_repository: dict[Path, list[Path]] = {}
        for path in sorted(paths):
            if (repository := find(str(path))) is not None:
                by_repository.setdefault(repository, []).append(path)
        tracked_paths: set[Path] = set()
        for repository, inside in by_repository.items():
            tracked_paths |= self._in_repository(repository, inside)
        return tracked_paths

    def _in_repository(self, repository: Path, paths: Sequence[Path]) -> frozenset[Path]:
        state = (_state_of_index(repository), tuple(paths))
        if (answer := self._answers.get(repository)) and answer[0] == state and state[0]:
            return answer[1]
        # Of more names than that, git is asked for all it has.
        names = [os.fspath(path.relative_to(repository)) for path in paths]
        words = (*_TRACKED, *names) if len(names) <= _MAX_WORDS else _TRACKED
        tracked_paths = frozenset(
            repository / name for name in ask_git(self._host, repository, words)
        )
        self._answers[repository] = (state, tracked_paths)
        return tracked_paths


def _state_of_index(repository: Path) -> tuple[int, int] | None:
    """Return what changes with the index; None when it is not known where that lies."""
    git = repository / ".git"
    try:
        if git.is_file():  # A linked worktree, or a submodule; gitrepository-layout(5).
            git = repository / git.read_text("utf-8").removeprefix("gitdir:").strip()
        entry = (git / "index").stat()
    except (OSError, UnicodeDecodeError):
        return None
    return entry.st_ino, entry.st_ctime_ns
