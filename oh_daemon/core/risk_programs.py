"""Which programs are known, and the usual effect of each; `risk_uses` looks at arguments.

A program without a row is unknown, which is never low, unless it only shows its version or help.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Literal

from oh_daemon.contract.items import Risk
from oh_daemon.core import risk_git

Use = Literal["read", "run", "write"]
"""What a program does with a path: it reads it, runs or follows what lies there, or changes it."""

MEANINGS: dict[str, tuple[Risk, Use, str]] = {
    "text": ("low", "read", "changes no files"),
    "enter": ("low", "read", "changes the folder of the shell"),
    "read": ("low", "read", "only reads"),
    "pattern": ("low", "read", "only searches or filters"),
    "names": ("low", "read", "gives variables other values"),
    "deep": ("medium", "read", "reads whole folders, with all that may be secret in them"),
    "ask": ("medium", "read", "asks a server or the system"),
    "look": ("medium", "read", "asks a service of this machine"),
    "act": ("medium", "run", "may change files or processes"),
    "repo": ("medium", "run", "may change the repository or its files"),
    "start": ("medium", "read", "may start a program that a setting names"),
    "run": ("medium", "run", "runs code of the project or of its packages"),
    "write": ("medium", "write", "creates, changes or deletes files"),
    "unknown": ("medium", "write", "is not known"),
    "fetch": ("medium", "write", "fetches from the network"),
    "send": ("high", "read", "may send something to another machine, or change something there"),
    "lose": ("high", "read", "may delete or replace something for good"),
    "stop": ("high", "read", "may end processes"),
    "script": ("high", "read", "may run commands or change files by its script"),
    "secret": ("high", "read", "may show secrets"),
    "system": (
        "high",
        "read",
        "may act outside the workspace, on the system or the user's settings",
    ),
    "later": ("high", "read", "may decide what other commands do later"),
    "inline": ("high", "read", "may run code that the command contains or fetches"),
    "root": ("high", "read", "uses or gives other rights"),
}
"""The effects of programs: the risk of each, what happens to paths, and what a sentence says."""

_PROGRAMS: dict[str, str] = {
    "text": """: true false popd sleep wait exit return break continue shift umask times let nproc
        tty whoami id groups uname uptime locale getconf seq expr cal which type whereis help clear
        pwd dirs echo basename dirname test [ jobs printf printenv export declare typeset local
        readonly date apropos whatis ps pgrep pidof ss netstat free vmstat iostat lscpu lsb_release
        sw_vers hostname df numfmt factor yes""",
    "names": "read mapfile readarray getopts unset",
    "enter": "cd pushd",
    "read": """cat nl head tail wc tac rev od hexdump strings stat du ls dir cut paste join comm
        diff cmp tr fold fmt column md5sum sha1sum sha256sum sha512sum b2sum cksum shasum realpath
        readlink base64 base32 zcat bzcat xzcat tsort pr file tree xxd uniq sort shuf less more man
        bc bat eza exa lsd hexyl lsof nm objdump readelf size otool addr2line c++filt javap zipinfo
        pdfinfo tokei shellcheck hadolint yamllint xmllint iconv expand unexpand sum zdiff colordiff
        pkg-config gofmt goimports shfmt clang-format""",
    "pattern": "grep egrep fgrep zgrep rg fd fdfind ag ack sed gsed awk gawk mawk nawk jq yq",
    "ask": "top psql mysql",
    "act": "set shopt ulimit svn hg jj",
    "run": """bun deno npm pnpm yarn pip uv poetry pdm pipenv hatch rye pixi cargo go composer
        bundle mvn mvnw gradle gradlew dotnet cabal stack mix rebar3 sbt lein make gmake ninja just
        task rake rails cmake meson bazel nox tox gulp grunt gcc g++ cc clang clang++ ld zig rustc
        javac java kotlinc scalac swift swiftc tsc pytest unittest coverage mypy ruff black isort
        autopep8 yapf flake8 pylint pyright bandit eslint prettier biome stylelint jest vitest mocha
        cypress playwright webpack vite rollup esbuild parcel turbo nx lerna next nuxt astro
        svelte-check storybook prisma drizzle-kit knex typeorm sequelize tailwindcss vue-tsc ng knip
        nyc c8 rspec rubocop phpunit phpstan psalm pest ctest pre-commit husky lefthook changeset
        vsce ovsx flit golangci-lint staticcheck rustfmt clang-tidy cppcheck stylua luacheck ktlint
        swiftlint alembic flask uvicorn gunicorn django-admin flutter dart pod xcodebuild mkdocs
        sphinx-build ldd protoc buf dvc latexmk pdflatex xelatex lualatex platformio pio arduino-cli
        west idf.py opam luarocks dune nim clj prove bower conan expo conda-lock ghc nix nix-build
        nix-shell scons waf""",
    "write": """mkdir touch tee rmdir split csplit gzip gunzip bzip2 xz unxz zstd truncate patch cp
        mv ln install rm unlink chmod tar zip unzip 7z jar mkfifo rename dos2unix pint php-cs-fixer
        ctags sips plutil pdftotext ar""",
    "fetch": "curl wget pg_dump mysqldump mongodump",
    "code": """python pypy ipython node tsx ts-node perl ruby php lua luajit rscript julia tclsh
        expect elixir groovy irb gdb guile sbcl ghci nu xonsh R Rscript clojure""",
    "shell": "sh bash zsh dash ksh ash fish csh tcsh source . eval trap watch",
    "find": "find",
    "git": "git",
    "wrap": """env timeout nice ionice stdbuf time nohup exec command builtin busybox xargs npx bunx
        uvx cross-env caffeinate flock""",
    "send": """kubectl oc helm terraform tofu terragrunt pulumi aws gcloud az gh glab heroku
        redis-cli nc ncat netcat telnet ssh scp sftp ftp socat websocat grpcurl rsync rclone mosh
        sshpass ssh-copy-id nmap dig nslookup host ping traceroute whois mail mutt sendmail lftp
        ngrok cloudflared aria2c http xh write wall logger mongo mongosh mongorestore mysqladmin
        pg_restore createdb dropdb sqlcmd etcdctl twine semantic-release goreleaser fastlane ansible
        ansible-playbook firebase vercel netlify wrangler serverless sls cdk sam eksctl flyctl
        railway eas doctl gsutil azcopy s3cmd argocd skaffold helmfile nomad consul salt http.server
        smtpd adb tailscale wg-quick mc restic borg surge gh-pages cqlsh clickhouse-client influx
        rabbitmqctl""",
    "lose": """shred wipe srm dd mkfs fdisk parted wipefs git-filter-repo bfg sqlite3 duckdb esptool
        esptool.py avrdude openocd dfu-util fastboot lvremove vgremove pvremove""",
    "secret": """history fc ssh-keygen ssh-add ssh-agent tcpdump openssl gpg age sops vault pass op
        bw lpass keyring secret-tool doppler infisical ansible-vault security xclip pbcopy pbpaste
        wl-copy wl-paste certbot keytool screencapture""",
    "later": "alias unalias hash enable bind complete disown at batch crontab",
    "inline": """pwsh powershell cmd parallel coproc setsid screen tmux m4 ed ex vi vim nvim emacs
        nano codex aider claude gemini pty code codium timeit osascript xdotool ydotool xdg-open
        open dc""",
    "stop": "kill pkill killall fuser shutdown reboot halt poweroff",
    "root": """setcap setfacl chown chgrp sudo doas su pkexec runuser gosu sg newgrp chroot unshare
        nsenter systemd-run""",
    "system": """docker docker-compose podman nerdctl buildah conda mamba apt apt-get apt-cache
        aptitude dpkg yum dnf apk pacman snap flatpak brew rpm systemctl service launchctl loginctl
        pm2 init setpriv passwd chpasswd chsh useradd userdel usermod groupadd visudo insmod rmmod
        modprobe sysctl mknod losetup cryptsetup swapoff mount umount iptables nft ufw pfctl
        firewall-cmd nmcli route ip ifconfig chattr vagrant packer puppet pipx gem cpan rustup nvm
        pyenv rbenv asdf mise sdk volta corepack update-alternatives update-rc.d ldconfig defaults
        chezmoi stow virsh VBoxManage multipass limactl minikube k3d""",
}

VALUED = {
    "timeout": "ks", "nice": "n", "ionice": "cn", "stdbuf": "ioe", "time": "of", "env": "uC",
    "xargs": "nPILsdEa", "exec": "a", "bash": "oO", "sh": "o", "watch": "n", "grep": "ABCmdD",
    "rg": "ABCmtTgj", "awk": "Fv", "fd": "dteE", "python": "WX", "node": "r", "php": "d", "uv": "p",
    "conda": "np", "mamba": "np", "flock": "wE", "perl": "I", "ruby": "Ir", "kubectl": "nscl",
    "oc": "nscl", "helm": "n", "docker": "fpHuew", "gh": "R", "glab": "R", "redis-cli": "nhpa",
    "sort": "kotST", "fdfind": "dteE", "tree": "LPIoH", "cmake": "DSBGCPTA", "tar": "fCTXbgKNVHI",
    "unzip": "dxP", "git tag": "mFu", "git clean": "e", "git worktree": "bB", "git branch": "u",
}  # fmt: skip
"""Letters of the options whose value is the next word."""
VALUED_WORD = re.compile(
    r"--(with|python|group|extra|env-file|package|directory|project|name|prefix|chdir|signal|rcfile"
    r"|init-file|file|context|namespace|profile|region|output|kube-context|subscription|repo)"
)
"""The same for long options of all programs."""
FLAGS = frozenset(
    """-q --quiet -v --verbose -y --yes -s --silent --no-pager --no-color --debug --user -br -4 -6
    --failed --short -T -d -i -t -it --rm --no-deps --build --detach""".split()  # noqa: SIM905
)
"""Options that never have a value in a program whose first words say what it does."""


@cache
def _kinds() -> dict[str, str]:
    tables = [("", _PROGRAMS), ("git ", risk_git.COMMANDS)]
    rows = [(prefix, kind, names) for prefix, table in tables for kind, names in table.items()]
    return {prefix + name: kind for prefix, kind, names in rows for name in names.split()}


def bare_name(word: str) -> str:
    """Return the name of a system program without its directory."""
    return re.sub(r"^(/usr(/local)?)?/s?bin/(?=[^/]+$)", "", word)


def find_program(name: str) -> tuple[str, str]:
    """Return the name in the tables and its kind; python3.11 and mkfs.ext4 are there by stem."""
    kinds = _kinds()
    stems = (name, re.sub(r"(?<=[a-z])[-.]?[\d.]+$", "", name), name.partition(".")[0])
    known = next((stem for stem in stems if stem in kinds), name)
    return known, kinds.get(known, "unknown")


def has_value(program: str, option: str) -> bool:
    """Return whether the value of an option is the next word, unless it is in the same one."""
    letter = option[1:] if len(option) == len("-x") else ""
    return letter in VALUED.get(program, "") if letter else bool(VALUED_WORD.fullmatch(option))
