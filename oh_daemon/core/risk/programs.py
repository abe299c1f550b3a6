"""What programs do with their arguments, as rows of a table: `git push` sends, `rg` reads folders.

`table` has the format, and `uses` finds what fits a command.
"""

from __future__ import annotations

from typing import Literal

from oh_daemon.contract.items import Risk

Use = Literal["text", "read", "run", "write"]
"""What a program does with a path: nothing, reads it, runs or follows what is there, changes it."""

EFFECTS: dict[str, tuple[Risk, Use, str]] = {
    "text": ("low", "text", "changes no files"),
    "names": ("low", "text", "gives variables other values"),
    "read": ("low", "read", "only reads"),
    "search": ("low", "read", "only searches or filters"),
    "deep": ("medium", "read", "reads whole folders, with all that may be secret in them"),
    "ask": ("medium", "text", "asks a server or the system"),
    "start": ("medium", "read", "may start a program that a setting names"),
    "run": ("medium", "run", "may run code of the project or of its packages"),
    "change": ("medium", "run", "may change files, processes or the repository"),
    "write": ("medium", "write", "creates, changes or deletes files"),
    "unknown": ("medium", "write", "is not known"),
    "fetch": ("medium", "write", "fetches from the network"),
    "send": ("high", "read", "may send something to another machine, or change something there"),
    "cloud": ("high", "read", "may change something on another machine"),
    "lose": ("high", "read", "may delete or replace something for good"),
    "stop": ("high", "read", "may end processes"),
    "secret": ("high", "read", "may show secrets"),
    "system": ("high", "read", "may act outside the workspace, on the system, or with its rights"),
    "later": ("high", "read", "may decide what other commands do later"),
    "inline": ("high", "read", "may run code that the command contains or fetches"),
}
"""The effects of programs: the risk of each, what happens to paths, and what a sentence says."""

CHANGES = frozenset(
    """create delete rm rmi remove update set put apply cp mv sync run start stop kill ssh exec push
    login load save commit import export attach prune swarm plugin install""".split()  # noqa: SIM905
)
"""Words that `*` never stands for in a phrase that makes an effect better."""

# The part without words is the usual effect, or says that the program runs another one: `inner`
# after its options, `shell` and `code` in text or a file, `evals` all its words as text. Phrases
# say what certain arguments make of it; of those that fit, the worst counts.
#   word       the first operands; `*` is as in a shell, but never a word that changes something
#   -x, --long an option anywhere
#   ~regex     is found in any argument, in which `…` stands for what only the shell knows
#   $          no operand follows
# What is worse than usual is also found behind options that are not known, whose value the next
# word may be, and by a beginning of an option. What is better must stand there as it is. `inner`
# says after what another command begins, `with` which options may stand before words, with `=` if
# the next word is their value. A row `<effect>` is for all programs that usually have that effect.
ROWS = r"""
: true false popd sleep wait exit return break continue shift umask times nproc tty whoami id groups
 uname uptime locale getconf seq expr cal which type whereis help clear pwd dirs echo basename
 dirname test [ jobs printf apropos whatis ps pgrep pidof ss netstat free vmstat iostat lscpu
 lsb_release df numfmt factor yes: text
read mapfile readarray getopts unset export declare typeset local readonly: names
cat nl head tail wc tac rev od hexdump strings stat du ls dir cut paste join comm diff cmp tr fold
 fmt column md5sum sha1sum sha256sum sha512sum b2sum cksum shasum realpath readlink base64 base32
 zcat bzcat xzcat tsort pr file tree xxd uniq sort shuf less more man bc bat eza exa lsd lsof nm
 objdump readelf size cd pushd tokei shellcheck yamllint iconv expand unexpand sum colordiff
 gofmt shfmt clang-format date: read
grep egrep fgrep zgrep fd fdfind sed gsed awk gawk mawk nawk jq yq: search
find: find
rg ag ack: deep
dig nslookup host ping traceroute whois top: ask
ulimit shopt hg jj svn: change
npm pnpm yarn bun deno pip uv poetry pdm pipenv hatch rye pixi cargo go composer bundle gem mvn mvnw
 gradle gradlew mix sbt dotnet make gmake ninja cmake meson just task rake rails django-admin pytest
 unittest tox nox coverage mypy ruff black isort eslint prettier biome tsc jest vitest playwright
 vite webpack prisma nx lerna gcc g++ cc clang ld rustc javac java swift rspec rubocop nix: run
mkdir touch tee rmdir split csplit gzip gunzip bzip2 xz unxz zstd truncate patch cp mv ln install rm
 unlink chmod tar zip unzip 7z jar mkfifo rename dos2unix ctags sips plutil pdftotext ar: write
curl wget pg_dump mysqldump mongodump: fetch
python pypy ipython node tsx ts-node perl ruby php lua luajit rscript Rscript R julia tclsh expect
 elixir groovy irb gdb guile sbcl ghci nu xonsh scala clojure: code
sh bash zsh dash ksh ash fish csh tcsh source .: shell
eval trap watch: evals
env nice ionice stdbuf time nohup exec command builtin busybox xargs npx bunx uvx cross-env
 caffeinate timeout flock: inner
git: git
nc ncat netcat telnet ssh scp sftp ftp socat websocat grpcurl rsync rclone mosh sshpass ssh-copy-id
 nmap mail mutt sendmail lftp ngrok cloudflared aria2c http xh write wall logger psql mysql mongo
 mongosh mongorestore mysqladmin pg_restore createdb dropdb sqlcmd cqlsh clickhouse-client influx
 twine semantic-release goreleaser fastlane ansible http.server smtpd gh-pages azcopy s3cmd: send
kubectl oc helm terraform tofu terragrunt pulumi aws gcloud az gh glab heroku redis-cli etcdctl adb
 ansible-playbook firebase vercel netlify wrangler serverless sls cdk sam eksctl flyctl railway eas
 doctl gsutil argocd skaffold helmfile nomad consul salt tailscale wg-quick mc restic borg surge
 rabbitmqctl chezmoi virsh VBoxManage multipass limactl minikube k3d vagrant packer: cloud
shred wipe srm dd mkfs fdisk parted wipefs git-filter-repo bfg sqlite3 duckdb esptool avrdude
 openocd dfu-util fastboot lvremove vgremove pvremove: lose
kill pkill killall fuser shutdown reboot halt poweroff: stop
history fc printenv set ssh-keygen ssh-add ssh-agent tcpdump openssl gpg age sops vault pass op bw
 lpass keyring secret-tool doppler infisical ansible-vault security xclip pbcopy pbpaste wl-copy
 wl-paste certbot keytool screencapture: secret
alias unalias hash enable bind complete disown at batch crontab: later
let pwsh powershell cmd parallel coproc setsid screen tmux m4 ed ex vi vim nvim emacs nano codex
 aider claude gemini pty code codium timeit osascript xdotool ydotool xdg-open open dc: inline
setcap setfacl chown chgrp sudo doas su pkexec runuser gosu sg newgrp chroot unshare nsenter
 systemd-run docker podman nerdctl buildah conda mamba apt apt-get apt-cache aptitude dpkg yum dnf
 apk pacman snap flatpak brew rpm systemctl service launchctl loginctl pm2 init setpriv passwd
 chpasswd chsh useradd userdel usermod groupadd visudo insmod rmmod modprobe sysctl mknod losetup
 cryptsetup swapoff mount umount iptables nft ufw pfctl firewall-cmd nmcli route ip ifconfig
 hostname chattr puppet pipx cpan rustup nvm pyenv rbenv asdf mise sdk volta corepack defaults stow
 update-alternatives update-rc.d ldconfig: system

<read> <search> <deep> <write>: write -o, --{output,write*}; deep --files0-from, --files-from;
 inline --{pre,pager,exec,*-program,*-command,*plugin*,*filter*,config*,lesskey}, ~^-J|^@
<run> <unknown>: send {publish,deploy,upload,push,login,logout}, ~^(publish|deploy|upload)|:publish;
 lose ~(?i:\b(drop|truncate)\s(table|database|schema)|\bdelete\sfrom\b), --{delete,prune,purge};
 inline -{exec,toolexec,wrapper,vettool}, ~\beval\b|^install-|^(npm|jsr):, --*{command,call,git};
 inline --*{eval,exec,execute,shell,escape,extension,registry,index,config,node-options}*;
 send ~^(?!https?|file|git)[a-z+]+://|\b0\.0\.0\.0\b; lose migrate reset
<unknown>: lose {erase,destroy,delete,purge,wipe,flash,reset,revert,forget,apply,remove};
 inline ~^-ex?$
<run> <unknown> <code>: lose ~\bdb:(drop|reset|purge|wipe)|schema:drop|migrate:(fresh|reset)|\.drop$
<code>: lose * {flush,sqlflush}; inline * shell; inline -e, --{eval,print,execute,exec}
<cloud>: with --{namespace,context,profile,region,repo,output}=; inline --{post-renderer,pipe,eval};
 ask {,* }{get,get-*,list,list-*,ls,show,show-*,view,status,describe,describe-*,version,help,logs};
 ask {,* }{search,diff,events,explain,top,wait,watch,tail,scan,query,checks,graph,history,devices};
 ask {info,plan,preview,ps,keys,whoami,snapshots,fmt,validate,init}, * * {list,show,describe};
 secret --raw, --with-decryption, ~^print-|(?i:secret|token|passw|credential|\bauth\b|\bkeys\b);
 secret ~(?i:access_?key|appsettings|connection-string|kubeconfig); inline -from-module
kubectl oc helm: with -n= -o=; send --dry-run
gh glab: ask api, run {list,view,watch}; fetch * {clone,download,checkout}; with -R=;
 send --{hostname,method,input,field,raw-field}, -f, -F, -X
aws: fetch s3api get-object
docker podman nerdctl buildah: with -H= -f= -p= --{context,file,profile}=; inline ~://|git@|git\+;
 ask {,compose }{ps,images,logs,top,version,port,config,events}, {inspect,stats,info,diff,history};
 ask * {ls,list,inspect,logs,ps,df}; change {build,pull,tag,restart}, {network,volume} create;
 change compose {build,pull,up,down,stop,start,restart,create,watch,exec,run}; send --push;
 inline build -, --privileged; lose compose down {-v,--volumes,--rmi}; inner compose {exec,run} *
apt apt-get apt-cache: ask {list,show,search,policy,depends}; inline -o, -c, --{option,config-file}
yum dnf apk brew snap: ask {list,ls,show,search,info,deps}
conda mamba: ask {list,info,search}; run {run,install,create}, env {create,update}; inner run;
 with -n= -p= --name= --prefix=
npm pnpm yarn pip uv poetry pdm pipenv hatch rye: read {,pip }{ls,list,show,freeze}, why, prefix;
 system -g, --{global,location,user,break-system-packages,root}, {config,set,link,global,tool,self};
 system cache;
 send npm publish, {adduser,token,owner,access,unpublish,deprecate,dist-tag}; inline x, -i;
 inline {dlx,create}, init [!-]*, ~://|git@|git\+, {,pip }{install,download} -f, --*{proxy,links}*;
 system python install
uv poetry pdm pipenv hatch rye pixi coverage: inner run; with -p=;
 with --{with,python,group,extra,env-file,package,directory,project}=
npm pnpm yarn cargo bundle composer: inner exec
npm: inline exec
cargo go composer bundle: send {yank,owner}; system --{global,root}, env {-w,-u}; inner watch -s;
 inline create-project, run ~@(latest|v\d)
cargo go gem: system {install,uninstall}; read {doc,env}
dotnet: system -g, --global
dotnet mvn gradle gradlew sbt mix: send ~publish|deploy|upload|release:, push; inline run -e
make gmake ninja cmake meson: inline ~^-E$; system ~^(un)?install$|LAUNCHER
bun deno: inline -p, --print, {x,create,repl}, ~://, $, run -; system {add,install,i} {-g,--global}
gcc g++ cc clang ld: inline ~-f?plugin
ruff black isort: read check, --check, --diff; write format, --fix, --unsafe-fixes, -o
eslint prettier biome rubocop: write {-w,-a,-A}, --{write,fix*,auto*}
rails django-admin: inline {runner,shell}; lose {flush,sqlflush}
nix: inline {run,shell}; inner develop {-c,--command}; system {profile,copy,store,registry}
hg jj svn: send {commit,ci,import,push,serve,git}; later --config; lose {revert,strip,rm,undo,op}
python: with -W= -X=; inline -c
node tsx ts-node: with -r=; inline -p
perl ruby php julia: with -I= -d=; inline -n, -p, -i, -r, -E
bash sh zsh dash ksh: with -o= -O= --rcfile= --init-file=
env: with -u= -C= --{unset,chdir}=; system -C, -S, --{chdir,split*}; start -i, -u, --{ignore*,unset}
nice ionice: with -n= -c=
stdbuf time: with -i= -o= -e= -f=
exec: inline -c, ~\{; with -a=
command: text -v, -V
xargs: with -n= -P= -I= -L= -s= -d= -E= -a=
npx bunx uvx: inline -y, -p, -c, --{yes,package,call,from,with}
timeout flock: inner *; with -k= -s= -w= -E= --signal= --kill-after=
sed gsed: write -i, --in-place; inline -f, --file, *…*, ~^[ewW]\s;
 inline ~[\d$/\x3b{}\s]\s*[ewW](\s|$)|[/|#,@:!][gpIi\d]*[ew]\b
awk gawk mawk nawk: inline -f, -i, -l, -E, -W, --{file,include,load,source}, *…*;
 inline ~system|getline|print[^\x3b}]*[>|]|@|ENVIRON|PROCINFO|ARGV
jq yq: write -i, --{in,split}; secret ~\benv\b|\$ENV|strenv|load; run -f, --from-file
find: lose -{delete,ok,okdir,fprint,fls}
fd fdfind: inline -x, -X
grep egrep fgrep zgrep: deep -r, -R, -d, --{recursive,dereference-recursive,directories}
diff colordiff: deep -r, --recursive
sort gofmt shfmt clang-format: write -w, -i, -T
xxd uniq: write * *, -r
tree: write -R
less more man bat: inline ~^\+, -k, -P, -H, -C
tar zip: lose -P, --{remove-files,absolute-names}; inline -F, -TT, ~^\w*I, --{to,check*,use,rsh};
 read {,-}{tf,tzf,tvf}, --list
unzip: read -l, -p
gzip xz zstd: read -c, -dc, -l, -t
pdftotext: read * -
ar jar: read {t,p,tf}
chmod install: system ~[+=]\w*s|^[2467]\d\d\d$|[oa]\w*[+=]\w*w|^[0-7]*[2367]$
rsync: write -a, -av, -avz; send ~:, -e, -M, --{rsh,rsync-path,files-from,daemon,remove*,delete*}
curl wget: send ~169\.254\.|metadata\.|^(file|gopher|dict):|[…$]|(?i:authorization);
 send --{user*,proxy*,*data*,form*,post*,body*,method,request,header*,upload*,cookie*,load*,cert*};
 send --{config,key,json,netrc*,resolve,connect*,execute,input*,trace*,unix*,url,no-check*,password}
curl: send -d, -F, -T, -u, -x, -n, -b, -E, -K, -X, ~@
wget: send -e, -i
dig nslookup host ping traceroute whois: send ~…
nc ncat netcat: ask -z, -zv, -vz; send -e, -c, -l, --{exec,sh-exec,listen}
dd: write ~^if=
date: system -s, --set, ~^\d+$
printenv: text {PATH,HOME,SHELL,USER,PWD,LANG} $
set: text -*, +*, pipefail
export declare typeset local readonly: secret $; inline -n, -i, -r; later ~^[^=]*[*?…]
export declare typeset local readonly set printf test [: inline ~\[.*(\$\(|`)
readonly: later *
printf: later -v
test [: inline -v
read mapfile readarray getopts unset: inline -C, ~[*?…[]
ps: secret ~^(?!-)[A-Za-z]*e[A-Za-z]*$, -E
ss jobs: system -K, -x, --kill
wait: inline -p
kill: text -l $; change %* $
mount ifconfig alias ulimit hostname: text $
mount: system -a
hostname: system -F, -b
systemctl: ask {status,is-*,list-*,show,cat}
gpg: read --verify
mlr: inline {split,tee,put}, --prepipe
pandoc: inline -F, --*filter, --pdf-engine
exiftool: inline -config, -if
pre-commit husky lefthook: later {install,uninstall,init}

<variable>: later LD_*, DYLD_*, PATH, ENV, GIT_{[!AC],CONFIG,ALT,ATTR,COMMON}*, BASH_*, *PAGER;
 later EDITOR, VISUAL, BROWSER, SHELL, HOME, PYTHON{STARTUP,HOME,BREAKPOINT,INSPECT}, NODE_OPTIONS;
 later PERL*, RUBY{LIB,OPT}, IFS, PS[0-4], PROMPT_COMMAND, CDPATH, SHELLOPTS, BASHOPTS, *_proxy;
 later *_PROXY, *ASKPASS, LESS{OPEN,CLOSE}, {,_}JAVA_*, *RUSTC*, PIP_*, {npm_config,NPM_CONFIG}_*;
 later UV_*INDEX*, HIST*, DOCKER_HOST, KUBECONFIG, SSH_*, MAKEFLAGS, {,S}RANDOM, OPTIND, SECONDS;
 later BASHPID, TAR_OPTIONS, RSYNC_*, *BASE_URL, XDG_CONFIG*, SUDO_*, RIPGREP_CONFIG_PATH, WGETRC;
 later ZDOTDIR
"""

# What only reads starts no program in a fresh clone, whatever that contains (decision 56). All that
# has no row is high, because it may be an alias for anything.
GIT_ROWS = r"""
annotate blame cat-file check-attr check-ignore check-mailmap cherry count-objects describe diff
 diff-files diff-index diff-tree for-each-ref log ls-files ls-tree merge-base name-rev range-diff
 reflog rev-list rev-parse shortlog show show-branch show-ref status version whatchanged: read
--version --help: text
grep: search; deep --{no-index,untracked}; inline -O
ls-remote: ask
clone: fetch; inline -c, -u, --config
help var: start; read -a, -g, GIT_*
add am apply archive bisect branch bundle checkout cherry-pick commit fetch format-patch fsck gc
 hash-object init merge merge-tree notes pull rebase remote rerere reset revert sparse-checkout
 stash switch stage tag update-index worktree write-tree: change
mv rm: write
push send-email send-pack: send
clean restore symbolic-ref update-ref filter-branch filter-repo prune replace: lose
config submodule lfs: later

*: start ~%G|%\(signature, --{show-signature,remerge-diff,diff-merges,alternate-refs};
 lose --{force,discard-changes,output}; inline ~^ext::, --{ext-diff,textconv,open-files-in-pager};
 inline --{upload-pack,exec,receive-pack,template,separate-git-dir,unsafe-paths}
cat-file: start --{batch,batch-check,batch-command}
branch: lose -D, -M, -C, -f; change -d, -m, -c, -u; read --show-current
tag: lose -d, -f, --delete; change -a, -s, -m, -F
branch tag: read $, -a, -r, -v, -vv, -l, --{list,contains,no-contains,merged,no-merged,points-at}
checkout: lose ~^(--|\.|.*/|.*\.[a-z]\w{0,3}|[A-Z]\w*file)$
checkout switch fetch: lose -f, -C, -B
clean: change -n, --dry-run
config: with --{local,global,system}; read --get, get, *.* $; ask list, -l, --list; later edit;
 secret ~(?i:extraheader|password|token|cookie)
diff: deep --no-index
gc: lose --{prune,aggressive}
lfs: read {ls-files,status,env,version}; change {fetch,pull,checkout,track}
rebase: lose -i, --{interactive,root,autosquash}; inline -x
reflog: lose {delete,expire,write}
remote: later {add,set-*,remove,rename,rm,prune}; read $, -v, get-url
reset: lose --{hard,merge,keep}
restore: lose -W, --worktree; change -S, --staged
rm: lose ~^(:/|/|(\./)?[.*]?)$
stash: lose {drop,clear}; read {list,show}
submodule: change $, {update,status,init,sync,foreach,summary}; inner foreach
symbolic-ref: read * $; lose -d, -m, --delete
worktree: read list; later {remove,repair}
bisect: inner run
"""
