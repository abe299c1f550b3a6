"""What is known about commands, as one table. How it is applied is the business of risk_commands.

A name of two words is a subcommand. A command without a line is unknown, which is never low.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Literal, NamedTuple

KINDS = {
    "data": "its arguments are only text",
    "read": "reads files",
    "pattern": "searches files",
    "write": "creates or changes the files it names",
    "copy": "copies files",
    "ask": "acts in the workspace",
    "run": "runs code of the project",
    "fetch": "fetches from the network",
    "high": "reaches beyond the workspace, or cannot be undone",
    "network": "talks to another machine",
    "escalate": "gains rights or leaves the sandbox",
    "persist": "stays behind after the command, or changes what later ones do",
    "destroy": "destroys what cannot be rebuilt",
    "inline": "runs code that stands in the command line or comes from data",
}
"""Plain kinds and why they are rated so; every other kind names a function of risk_commands."""

KIND_RISK: dict[str, Literal["low", "medium", "high"]] = {
    **dict.fromkeys(("data", "read", "pattern"), "low"),
    **dict.fromkeys(("write", "copy", "ask", "run", "fetch"), "medium"),
}
"""Kinds that are not listed are high."""

# names | kind | letters of options that take a value | options or words = what they do
# An effect is a risk, or `write`: the operands count as written. A letter matches in any cluster.
_TABLE = r"""
true false : sleep wait exit return break continue shift getopts umask times let nproc tty whoami id groups uname uptime locale getconf seq expr cal which type whereis logname help clear pwd dirs echo basename dirname test [ ulimit | data | |
jobs | data | | x=high
date hostname | read | | s=high set=high F=high b=high
printf | data | | v=medium
cat nl head tail wc tac rev od hexdump strings stat du df ls dir vdir cut paste join comm diff cmp tr fold fmt column expand unexpand md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum sum realpath readlink namei base64 base32 zcat bzcat xzcat tsort pr numfmt eza exa pgrep pidof free lscpu lsb_release | read | |
file iconv | read | | C=medium compile=medium o=write output=write
tree | read | | o=write
xxd uniq | copy | | r=medium
sort shuf | read | | o=write output=write T=write temporary-directory=write compress-program=high
grep egrep fgrep zgrep rg | pattern | ABCmtTgd | pre=high hostname-bin=high pager=high search-zip=medium z=low
jq yq | jq | | i=write inplace=write in-place=write split-exp=write
bat batcat | read | | pager=high
less more most ps top htop | ask | | o=write e=high
fd fdfind ag ack ugrep | pattern | | x=high exec=high X=high exec-batch=high pager=high
sed gsed | sed | |
awk gawk mawk nawk | awk | |
find | find | |
xargs | xargs | nPILsdEa | P=medium
parallel | inline | |
cd pushd | cd | |
popd | ask | |
read mapfile readarray shopt stty reset tput unset set | ask | | C=high
printenv | printenv | |
env | env | uSC | S=high split-string=high C=medium
export declare typeset local readonly | variables | |
alias unalias hash enable bind complete disown at batch crontab systemctl service launchctl setsid screen tmux daemonize loginctl pm2 supervisorctl update-rc.d chkconfig history fc visudo anacron | persist | |
trap | trap | |
timeout gtimeout | wrap 1 | ks |
nice ionice | wrap | ncpPu | p=high P=high u=high
stdbuf | wrap | ioe |
time | wrap | of | o=write output=write
nohup exec coproc chronic unbuffer | wrap medium | a |
command builtin | wrap | | v=low V=low
busybox toybox | wrap | |
strace ltrace valgrind hyperfine watch flock script | wrap medium | nosSuwEceE | p=high c=high command=high attach=high
chrt taskset | wrap 1 | | p=high
eval | eval | |
source . | source | |
sh bash zsh dash ksh ash mksh fish rbash csh tcsh pwsh | shell | oO |
python pypy ipython | code | mWXQ | c=high m=medium i=high
node bun deno tsx ts-node | code | epr | e=high eval=high p=high print=high r=high require=high import=high loader=high i=high inspect=high
perl ruby php lua luajit rscript julia tclsh expect elixir erl ghci runghc scala groovy jshell irb r guile racket swipl osascript gdb lldb m4 dc | code | | e=high E=high n=high p=high i=high r=high M=high m=high eval=high run=high x=high
vi vim nvim view nano emacs ed ex pico micro | ask | | c=high S=high s=high cmd=high e=high u=high eval=high batch=high script=high headless=high
mkdir touch tee mkfifo rmdir split csplit gzip gunzip bzip2 bunzip2 xz unxz zstd truncate | write | | filter=high
patch | write | | e=high ed=high
cp install ginstall | copy | | t=write target-directory=write
mv ln link rename | write | |
rm unlink trash | rm | |
shred srm wipe dd mkfs fdisk parted sfdisk wipefs blkdiscard mkswap swapoff swapon shutdown reboot halt poweroff init telinit hdparm badblocks lvremove vgremove cryptsetup e2fsck fsck tune2fs losetup zpool zfs | destroy | |
kill pkill killall killall5 xkill fuser skill renice | high | |
sudo doas su pkexec runuser chroot unshare nsenter setpriv capsh bwrap firejail runas setcap passwd chpasswd useradd usermod userdel groupadd adduser deluser chsh newgrp visudo insmod rmmod modprobe sysctl mount umount iptables ip6tables nft ufw setenforce chattr swapctl mknod | escalate | |
nc ncat netcat telnet ssh scp sftp ftp tftp socat rsync rclone mosh autossh sshpass nmap dig nslookup host ping traceroute mail mailx sendmail mutt lftp lynx w3m croc wormhole magic-wormhole ngrok cloudflared websocat tcpdump tshark aria2c ip ifconfig route smbclient ssh-copy-id ssh-keygen ssh-add ssh-agent http https xh httpie grpcurl openssl gpg age sops vault pass op bw security secret-tool keyring | network | |
xdg-open open xclip xsel pbcopy pbpaste wl-copy wl-paste xdotool wall write notify-send osascript | high | |
psql mysql mariadb mongo mongosh redis-cli sqlcmd dropdb createdb pg_restore pg_dump mysqldump sqlite3 | high | |
curl | curl | oTdFHXuAmwebKx | o=write output=write O=low output-dir=write D=write dump-header=write c=write cookie-jar=write T=high upload-file=high d=high data=high F=high form=high json=high K=high config=high x=high proxy=high u=high user=high n=high netrc=high b=high cookie=high E=high cert=high X=high request=high resolve=high connect-to=high unix-socket=high url-query=high H=medium k=high insecure=high trace=write
wget | curl | OPtTQUAo | O=write output-document=write P=write directory-prefix=write post-file=high post-data=high body-file=high body-data=high method=high header=high e=high execute=high i=high input-file=high use-askpass=high user=high password=high config=high no-check-certificate=high load-cookies=high proxy-user=high
tar bsdtar gtar zip unzip 7z 7za cpio pax | archive | | to-command=high checkpoint-action=high use-compress-program=high I=high rsh-command=high F=high info-script=high new-volume-script=high P=high absolute-names=high remove-files=high TT=high unzip-command=high
chmod | chmod | | reference=low
chown chgrp setfacl | write | | R=high recursive=high
git | git | |
docker podman nerdctl docker-compose podman-compose buildah | ask | | run=high exec=high cp=high push=high login=high logout=high rm=high rmi=high kill=high stop=high prune=high down=high export=high save=high commit=high attach=high create=high start=high swarm=high context=high plugin=high update=high privileged=high v=high volume=high mount=high H=high host=high network=high secret=high ssh=high
kubectl helm terraform tofu terragrunt pulumi aws gcloud az doctl heroku flyctl fly vercel netlify firebase supabase wrangler ansible ansible-playbook cdk sam serverless oc argocd eksctl twine gh glab hub fastlane salt puppet chef | cloud | |
apt apt-get aptitude dpkg yum dnf zypper apk pacman yay snap flatpak brew port nix nix-env nix-shell guix rpm emerge choco winget scoop pkg gem cpan cpanm luarocks easy_install opam rustup nvm pyenv rbenv asdf mise conda mamba micromamba pipx | cloud | |
npm pnpm yarn bun-install | manager | w | g=high global=high location=high registry=high userconfig=high script-shell=high node-options=high c=high call=high
pip pip3 uv poetry pdm pipenv hatch rye flit | manager | | index-url=high extra-index-url=high index=high i=high find-links=high f=high trusted-host=high user=high break-system-packages=high root=high target=write t=write prefix=write proxy=high
cargo go composer bundle mvn gradle gradlew dotnet cabal stack mix rebar3 sbt lein swift | manager | | exec=high toolexec=high config=high git=high registry=high
npx bunx uvx | package | | y=high yes=high p=high package=high c=high call=high from=high with=high
make gmake ninja just task rake cmake meson scons bazel nox tox invoke gulp grunt gcc g++ cc c++ clang clang++ rustc javac kotlinc tsc ld as pytest py.test unittest coverage mypy ruff black isort flake8 pylint pyright eslint prettier jest vitest mocha tsc webpack vite rspec phpunit ctest pre-commit golangci-lint shellcheck | run | | eval=high E=high fplugin=high wrapper=high
"""


# Subcommands of git that are not high by themselves. What is missing may be an alias.
_GIT_TABLE = r"""
version help --version --help --exec-path | data | |
status log show blame annotate shortlog describe ls-files ls-tree rev-parse rev-list cat-file name-rev for-each-ref merge-base whatchanged count-objects var check-ignore check-attr diff diff-tree diff-index diff-files show-ref range-diff cherry show-branch grep fsck bundle archive format-patch | ask | | ext-diff=high textconv=high O=high open-files-in-pager=high output=write o=write output-directory=write remote=high exec=high
add commit merge cherry-pick revert init am mv apply sparse-checkout mktree write-tree hash-object subtree rerere bisect notes | ask | | unsafe-paths=high template=high exec=high separate-git-dir=high run=high prune=high
tag | ask | | d=high delete=high f=high force=high
checkout switch | checkout | | f=high force=high discard-changes=high C=high B=high -=high
branch | ask | | D=high M=high f=high force=high
reset | ask | | hard=high merge=high keep=high
restore | restore | |
stash | ask | | drop=high clear=high
remote | ask | | add=high set-url=high rm=high remove=high rename=high set-head=high prune=high
reflog | ask | | delete=high expire=high
worktree | ask | | add=write remove=high prune=high force=high f=high
submodule | ask | | foreach=high add=high set-url=high deinit=high
fetch pull ls-remote | ask | | upload-pack=high exec=high receive-pack=high f=high force=high
lfs | ask | | push=high uninstall=high
clone | fetch | | c=high config=high u=high upload-pack=high template=high separate-git-dir=high
rm | rm | |
clean | clean | |
config | config | |
"""

GIT_OPTIONS = frozenset(
    ["--no-pager", "--no-optional-locks", "--literal-pathspecs", "-P", "--bare"]
)
"""Options before the subcommand that change nothing that counts."""


class Rule(NamedTuple):
    """One command: `kind` decides, `effects` of its options may change it."""

    kind: str
    valued: str
    effects: dict[str, str]

    def effects_of(self, argument: str) -> set[str]:
        """What an option does; a long one may be cut short, as getopt allows."""
        if argument.startswith("--") and len(argument) > len("--"):
            name = argument[2:].partition("=")[0]
            long = {o: e for o, e in self.effects.items() if len(o) > 1}
            exact = long.get(name)
            return {exact} if exact else {e for o, e in long.items() if o.startswith(name)}
        if argument.startswith("-"):
            whole = self.effects.get(argument[1:])
            return (
                {whole} if whole else {self.effects[c] for c in argument[1:] if c in self.effects}
            )
        return {self.effects[argument]} if argument in self.effects else set()


@cache
def command_rules() -> dict[str, Rule]:
    return _parse(_TABLE)


@cache
def git_rules() -> dict[str, Rule]:
    return _parse(_GIT_TABLE)


def find_rule(name: str) -> Rule | None:
    rules = command_rules()
    # python3.11, gcc-12 and mkfs.ext4 are what their names without a version are.
    plain = re.sub(r"(?<=[a-z])[-.]?[\d.]+$", "", name)
    return rules.get(name) or rules.get(plain) or rules.get(name.partition(".")[0])


def _parse(table: str) -> dict[str, Rule]:
    rules: dict[str, Rule] = {}
    for line in table.strip().splitlines():
        names, kind, valued, effects = (part.strip() for part in line.split("|"))
        pairs = dict(pair.rsplit("=", 1) for pair in effects.split())
        rules.update(dict.fromkeys(names.split(), Rule(kind, valued, pairs)))
    return rules
