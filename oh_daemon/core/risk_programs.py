"""Which programs are known, and the kind of each; `risk_uses` and `risk_rules` look at arguments.

A program without a row is unknown, which is never low, unless it only shows its version or help.
"""

from __future__ import annotations

import re
from functools import cache

from oh_daemon.contract.items import Risk
from oh_daemon.core import risk_git

MEANINGS: dict[str, tuple[Risk, str]] = {
    "text": ("low", "changes no files"),
    "enter": ("low", "changes the folder of the shell"),
    "read": ("low", "only reads"),
    "pattern": ("low", "only searches or filters"),
    "names": ("low", "gives variables other values"),
    "ask": ("medium", "asks a server or the system"),
    "act": ("medium", "may change files or processes"),
    "repo": ("medium", "may change the repository or its files"),
    "start": ("medium", "may start a program that a setting names"),
    "run": ("medium", "runs code of the project or of its packages"),
    "write": ("medium", "creates, changes or deletes files"),
    "unknown": ("medium", "is not known"),
    "fetch": ("medium", "fetches from the network"),
    "high": ("high", "reaches beyond the workspace, or cannot be undone"),
}

_PROGRAMS: dict[str, str] = {
    "text": """: true false popd sleep wait exit return break continue shift umask times let
        nproc tty whoami id groups uname uptime locale getconf seq expr cal which type whereis
        help clear pwd dirs echo basename dirname test [ jobs printf printenv export declare
        typeset local readonly date apropos whatis ps pgrep pidof ss netstat free vmstat
        iostat lscpu lsb_release sw_vers hostname df numfmt factor yes""",
    "names": "read mapfile readarray getopts unset",
    "enter": "cd pushd",
    "read": """cat nl head tail wc tac rev od hexdump strings stat du ls dir cut
        paste join comm diff cmp tr fold fmt column md5sum sha1sum sha256sum sha512sum b2sum
        cksum shasum realpath readlink base64 base32 zcat bzcat xzcat tsort pr file tree xxd
        uniq sort shuf less more man bc bat eza exa lsd hexyl lsof nm objdump readelf size
        otool addr2line c++filt javap zipinfo pdfinfo ffprobe mediainfo cloc tokei scc
        shellcheck hadolint yamllint actionlint xmllint iconv expand unexpand sum zdiff
        colordiff pkg-config exiftool identify perldoc csvstat csvcut csvlook csvgrep xsv qsv
        mlr pandoc""",
    "pattern": "grep egrep fgrep zgrep rg fd fdfind ag ack sed gsed awk gawk mawk nawk jq yq",
    "ask": """top kubectl helm aws gcloud az gh glab heroku oc apt apt-get apt-cache aptitude
        dpkg yum dnf apk pacman snap flatpak brew conda mamba psql mysql redis-cli""",
    "act": """set shopt ulimit docker podman nerdctl docker-compose buildah terraform tofu
        terragrunt pulumi kill svn hg jj""",
    "run": """npm pnpm yarn pip uv poetry pdm pipenv hatch rye pixi cargo go composer bundle
        mvn gradle dotnet cabal stack mix rebar3 sbt lein make gmake ninja just task rake
        rails cmake meson bazel nox tox gulp grunt gcc g++ cc clang clang++ ld zig rustc javac
        java kotlinc scalac swift swiftc tsc pytest unittest coverage mypy ruff black isort
        autopep8 yapf flake8 pylint pyright bandit eslint prettier biome stylelint jest vitest
        mocha cypress playwright webpack vite rollup esbuild parcel turbo nx lerna next nuxt
        astro svelte-check storybook prisma drizzle-kit knex typeorm sequelize tailwindcss
        vue-tsc ng knip nyc c8 rspec rubocop phpunit phpstan psalm pint pest php-cs-fixer
        ctest pre-commit husky lefthook changeset vsce ovsx flit gofmt goimports golangci-lint
        staticcheck rustfmt clang-format clang-tidy cppcheck stylua luacheck shfmt ktlint
        swiftlint alembic flask uvicorn gunicorn django-admin flutter dart pod xcodebuild
        mkdocs sphinx-build ldd protoc buf dvc latexmk pdflatex xelatex lualatex platformio
        pio arduino-cli west idf.py opam luarocks dune nim clj prove bower conan expo
        conda-lock ghc nix nix-build nix-shell scons waf""",
    "write": """mkdir touch tee rmdir split csplit gzip gunzip bzip2 xz unxz zstd truncate
        patch cp mv ln install rm unlink chmod tar zip unzip 7z jar mkfifo rename dos2unix
        ctags sips plutil pdftotext ar""",
    "fetch": "curl wget",
    "code": """python pypy ipython node bun deno tsx ts-node perl ruby php lua luajit rscript
        julia tclsh expect elixir groovy irb gdb guile sbcl ghci nu xonsh R Rscript clojure""",
    "shell": "sh bash zsh dash ksh ash fish csh tcsh source . eval trap watch",
    "find": "find",
    "git": "git",
    "wrap": """env timeout nice ionice stdbuf time nohup exec command builtin busybox xargs
        npx bunx uvx cross-env caffeinate flock""",
    "high": """pwsh powershell cmd parallel coproc alias unalias hash enable bind complete
        disown at batch crontab systemctl service launchctl setsid screen tmux loginctl pm2
        history fc shred wipe srm dd mkfs fdisk parted wipefs shutdown reboot halt poweroff
        init pkill killall fuser sudo doas su pkexec runuser gosu sg newgrp systemd-run chroot
        unshare nsenter setpriv setcap setfacl passwd chpasswd chsh useradd userdel usermod
        groupadd visudo insmod rmmod modprobe sysctl mknod losetup cryptsetup swapoff mount
        umount iptables nft ufw pfctl firewall-cmd nmcli route chattr chown chgrp nc ncat
        netcat telnet ssh scp sftp ftp socat websocat grpcurl rsync rclone mosh sshpass
        ssh-copy-id ssh-keygen ssh-add ssh-agent nmap dig nslookup host ping traceroute whois
        mail mutt sendmail lftp ngrok cloudflared tcpdump aria2c ip ifconfig http xh openssl
        gpg age sops vault pass op bw lpass keyring secret-tool doppler infisical
        ansible-vault security xdg-open open xclip pbcopy pbpaste wl-copy write wall logger
        mongo mongosh mongodump mongorestore mysqldump mysqladmin pg_dump pg_restore createdb
        dropdb sqlcmd sqlite3 duckdb etcdctl twine semantic-release goreleaser fastlane
        ansible ansible-playbook firebase vercel netlify wrangler serverless sls cdk sam
        eksctl flyctl railway eas doctl gsutil azcopy s3cmd argocd skaffold nomad consul
        vagrant packer puppet salt certbot keytool git-filter-repo bfg pipx gem cpan rustup
        nvm pyenv rbenv asdf mise sdk volta corepack update-alternatives update-rc.d ldconfig
        defaults rpm m4 dc ed ex vi vim nvim emacs nano codex aider claude gemini http.server
        smtpd pty code timeit adb esptool esptool.py avrdude openocd dfu-util fastboot
        helmfile codium osascript xdotool ydotool wl-paste screencapture tailscale wg-quick
        chezmoi stow mc restic borg surge gh-pages virsh VBoxManage multipass limactl minikube
        k3d cqlsh clickhouse-client influx rabbitmqctl""",
}

VALUED = {
    "timeout": "ks", "nice": "n", "ionice": "cn", "stdbuf": "ioe", "time": "of", "env": "uC",
    "xargs": "nPILsdEa", "exec": "a", "bash": "oO", "sh": "o", "watch": "n", "grep": "ABCmdD",
    "rg": "ABCmtTgj", "awk": "Fv", "fd": "dteE", "python": "WX", "node": "r", "php": "d", "uv": "p",
    "conda": "np", "mamba": "np", "flock": "wE", "perl": "I", "ruby": "Ir",
}  # fmt: skip
"""Letters of the options whose value is the next word."""
VALUED_WORD = re.compile(
    r"--(with|python|group|extra|env-file|package|directory|project|name|prefix|chdir|signal|rcfile|init-file)"
)
"""The same for long options, whichever program runs another one."""


@cache
def _kinds() -> dict[str, str]:
    kinds = {name: kind for kind, names in _PROGRAMS.items() for name in names.split()}
    git = {f"git {name}": kind for kind, names in risk_git.KINDS.items() for name in names.split()}
    return kinds | git


def bare_name(word: str) -> str:
    """Return the name of a system program without its directory."""
    return re.sub(r"^(/usr(/local)?)?/s?bin/(?=[^/]+$)", "", word)


def find_program(name: str) -> tuple[str, str]:
    """Return the name in the tables and its kind; python3.11 and mkfs.ext4 are there by stem."""
    kinds = _kinds()
    stems = (name, re.sub(r"(?<=[a-z])[-.]?[\d.]+$", "", name), name.partition(".")[0])
    known = next((stem for stem in stems if stem in kinds), name)
    return known, kinds.get(known, "unknown")
