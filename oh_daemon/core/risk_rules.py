"""What is known about commands, as one table: names | kind | options that take a value | effects.

A name of two or three words is a subcommand. Kinds and effects are explained at `KINDS`; how they
are applied to an argv is the business of `risk_commands`. What has no line is unknown: it asks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from itertools import product

KINDS = {
    "read": "reads files",
    "data": "its arguments are only text",
    "pattern": "the first operand is a pattern, the others are read",
    "write": "creates or changes the files it names",
    "copy": "reads all operands but the last, which it writes",
    "run": "runs code of the project or changes the workspace",
    "fetch": "fetches from the network",
    "git": "reads or writes the repository, and may run programs that it configures",
    "ask": "acts in the workspace",
    "high": "reaches beyond the workspace, or cannot be undone",
    "escalate": "gains rights or runs outside this sandbox",
    "network": "talks to another machine in both directions",
    "persist": "stays behind after the command, or hides what comes later",
    "destroy": "destroys what cannot be rebuilt",
    "inline": "runs code from the command line or from data",
}
"""Plain kinds and why. The others (`sub`, `wrap`, `shell`, `rm` …) name a function.

Effects of options: a risk (`medium`, `high`), a value that is a path (`read`, `write`), code
(`code`), a command (`cmd`), or nothing (`arg`). `=` at a short option means that it takes a value.
"""

_TABLE = r"""
true,false,:,sleep,wait,exit,return,break,continue,shift,getopts,umask,times,let,nproc,arch,tty,date,whoami,id,groups,uname,hostname,uptime,locale,getconf,seq,expr,cal,which,type,whereis,logname,ulimit,jobs,fg,bg,help,clear,lsb_release,lscpu,pwd,dirs | data | | date -s=high date --set=high hostname -F=high hostname -b=high
echo,printf,basename,dirname | data | | printf -v=high
test,[,[[ | read | |
cat,nl,head,tail,wc,tac,rev,od,hexdump,strings,file,stat,du,df,ls,dir,vdir,cut,paste,join,comm,diff,cmp,tr,fold,fmt,column,expand,unexpand,md5sum,sha1sum,sha224sum,sha256sum,sha384sum,sha512sum,b2sum,cksum,sum,realpath,readlink,namei,base64,base32,zcat,bzcat,xzcat,look,iconv,tsort,pr,numfmt,exa,eza,lsd,cloc,tokei,scc,mapfile,readarray,free,ps,pgrep,pidof,bc,pathchk,factor | read | ncbIwLTksdtof | iconv -o=write iconv --output=write file -C=high file --compile=high ps e=high diff -n=medium mapfile -C=high readarray -C=high
bat,batcat | read | | --pager=high
less,more,most,pg | ask | | -o=write -O=write
tree | read | LIPo | -o=write
xxd | xxd | csloeg |
uniq | uniq | fsw |
sort | read | kotST | -o=write --output=write --compress-program=high
shuf | read | einos | -o=write --output=write
grep,egrep,fgrep,zgrep,rg,ag,ack,ugrep,git-grep | pattern | efmABCdDtTgjr | -e=arg --regexp=arg -f=read --file=read --pre=high --hostname-bin=high --pager=high --filter=high --search-zip=medium -z=low
jq,gojq,yq,xq | pattern | | --arg=arg --argjson=arg -f=read --from-file=read -i=medium --in-place=medium --inplace=medium
sed,gsed | sed | efl | -e=arg -f=read -i=medium --in-place=medium --expression=arg --file=medium
awk,gawk,mawk,nawk | awk | Fvfie | -F=arg -v=arg -f=medium --file=medium -i=high -l=high --include=high --load=high -e=high --source=high -E=high --exec=high -o=medium -d=medium -p=medium -D=high
find | find | |
fd,fdfind | pattern | dteEcjS | -x=cmd --exec=cmd -X=cmd --exec-batch=cmd
xargs | xargs | nPILsdEa | -a=read --arg-file=read --replace=low -i=low
cd,pushd,popd,chdir | cd | |
read | variables | pdnNtuia |
printenv,env | env | uSC | -S=code --split-string=code -C=write --chdir=write --unset=arg
export,declare,typeset,local,readonly,unset | variables | |
set | set | |
shopt,stty,reset,tput | ask | |
alias,unalias | persist | |
trap,hash,enable,bind,complete,compopt,disown,setsid,daemonize,at,batch,screen,tmux,launchctl,chkconfig,update-rc.d,rc-update,initctl,loginctl,pm2,supervisorctl | persist | |
history,fc | persist | |
timeout,gtimeout | wrap 1 | ks |
nice | wrap | n | --adjustment=arg
ionice | wrap | cnpPu | -p=high
chrt,taskset | wrap 1 | | -p=high --pid=high
stdbuf | wrap | ioe |
nohup | wrap | | nohup=medium
time,command,builtin,coproc,chronic,unbuffer,caffeinate,noglob,nocorrect,exec,then,do | wrap | aof | time -o=write time --output=write command -v=low command -V=low
strace,ltrace,perf,valgrind,hyperfine,rr | wrap | oePSEsapwr | -p=high --attach=high -o=write hyperfine -p=high hyperfine --prepare=high strace=medium ltrace=medium perf=medium valgrind=medium hyperfine=medium rr=medium
flock | wrap 1 | wEc | -c=code --command=code flock=medium
watch,entr | watch | n | --interval=arg
busybox,toybox | wrap | |
eval | eval | |
source,. | source | |
sh,bash,zsh,dash,ksh,ash,mksh,fish,rbash,csh,tcsh,pwsh | shell | oO | --rcfile=high --init-file=high -s=high
python,pypy | code | cmWXQ | -c=high -m=cmd
node,nodejs,bun,deno,tsx,ts-node | code | epr | -e=high --eval=high -p=high --print=high -r=high --require=high --import=high --loader=high --experimental-loader=high -i=high --interactive=high --inspect=high --inspect-brk=high --test=medium --check=medium
perl,ruby,php,lua,luajit,rscript,julia,tclsh,wish,expect,elixir,erl,ghci,runghc,scala,groovy,jshell,irb,r,guile,racket,swipl,osascript,jjs,rlwrap,gdb,lldb,m4,dc | code | | -e=high -E=high -n=high -p=high -i=high -r=high -M=high -m=high -c=high -B=high -R=high -ex=high --eval=high --execute=high --batch=medium --run=high -x=high -d=high -I=high
ed,ex | inline | |
vi,vim,nvim,view,nano,emacs,pico,micro,joe | ask | | -c=high -S=high -s=high --cmd=high -e=high -es=high -u=high --eval=high --batch=high --script=high -l=high -f=high --headless=high +*=high
mkdir,touch,truncate,tee,mkfifo,patch,rmdir,split,csplit,gzip,gunzip,bzip2,bunzip2,xz,unxz,zstd,ex | write | smdtrpDilnabCx | -d=write -i=read --directory=write -o=write -r=arg --reference=read --filter=high -p=arg --input=read --unsafe-paths=high touch -d=arg truncate -s=arg
cp,install,ginstall | copy | tSmgo | -t=write --target-directory=write install -o=high install -g=high
mv,ln,link,rename | write | tS | -t=write --target-directory=write
rm,unlink,grm,trash | rm | |
shred,srm,wipe | destroy | |
dd | dd | |
tar,bsdtar,gtar | tar | fCTXbgIFKNVL | --to-command=high --checkpoint-action=high --use-compress-program=high -I=high --rsh-command=high -F=high --info-script=high --new-volume-script=high -P=high --absolute-names=high --rmt-command=high --remove-files=high -C=write --directory=write -f=write --file=write -T=read -X=read --one-top-level=write
zip | write | tbinxPO | -T=medium -TT=high --unzip-command=high -m=high --move=high
unzip,7z,7za | ask | dPx | -d=write -o=medium -l=low -Z=low -t=low
cpio,pax | high | |
rsync | rsync | eBfTM | -e=high --rsh=high --rsync-path=high --delete=high --delete-before=high --delete-after=high --delete-excluded=high --remove-source-files=high --files-from=read --daemon=high --config=high -M=high --remote-option=high
chmod | chmod | | --reference=read
chown,chgrp,setfacl,chattr,setfattr,setcap,chcon | escalate | |
kill | kill | |
pkill,killall,killall5,skill,snice,xkill,reboot,shutdown,halt,poweroff,init,telinit | destroy | |
sudo,sudoedit,doas,su,pkexec,runuser,runas,gosu,su-exec,setpriv,chroot,unshare,nsenter,capsh,newgrp,sg,bwrap,firejail,fakeroot,systemd-run,machinectl,visudo,passwd,chpasswd,useradd,usermod,userdel,adduser,deluser,groupadd,groupmod,gpasswd,chsh,chfn,vipw,polkit,dbus-send,busctl,gdbus,qdbus,multipass,vagrant,lxc,lxd,virsh,qemu | escalate | |
mount,umount,losetup,swapon,swapoff,fdisk,sfdisk,cfdisk,gdisk,sgdisk,parted,wipefs,blkdiscard,hdparm,cryptsetup,lvremove,vgremove,pvremove,lvcreate,zpool,zfs,btrfs,mkswap,badblocks,sysctl,modprobe,insmod,rmmod,iptables,ip6tables,nft,ufw,firewall-cmd,ip,ifconfig,route,setenforce,aa-disable,apparmor_parser,timedatectl,hostnamectl,localectl,dmsetup,fsck,tune2fs,debugfs,dumpe2fs,efibootmgr,grub-install,update-grub,ldconfig,update-alternatives,make-install | destroy | |
crontab | high | | -l=medium
systemctl,service | sub | HMtnop | -H=high -M=high --host=high
systemctl {status,list-units,list-unit-files,is-active,is-enabled,show,cat} | ask | |
systemctl *,service * | persist | |
journalctl | ask | | --vacuum-size=high --vacuum-time=high --vacuum-files=high --rotate=high --flush=high
ssh,scp,sftp,telnet,nc,ncat,netcat,socat,ftp,lftp,tftp,ncftp,rlogin,rsh,rcp,mosh,autossh,sshfs,sshpass,ssh-add,ssh-agent,ssh-keygen,ssh-copy-id,ssh-keyscan,croc,wormhole,ngrok,cloudflared,localtunnel,lt,frpc,chisel,mail,mailx,sendmail,mutt,msmtp,swaks,rclone,s3cmd,s5cmd,gsutil,azcopy,nmap,masscan,tcpdump,tshark,wireshark,arpspoof,wscat,websocat,grpcurl,curlftpfs,torsocks,proxychains,aria2c,axel,transfer,serve,http-server,live-server,http.server | network | |
dig,nslookup,host,ping,ping6,traceroute,tracepath,mtr,whois,getent,drill,resolvectl | fetch | QTtxk | dig -f=high host -f=high
curl | fetch | XHduoFTAebcxmKwEUCLyYzrtQ | -d=high --data=high --json=high -F=high --form=high -T=high --upload-file=high -X=high --request=high -K=high --config=high -x=high --proxy=high --preproxy=high --socks5=high -u=high --user=high -n=high --netrc=high -E=high --cert=high --key=high -b=high --cookie=high -k=high --insecure=high -Q=high --quote=high -t=high --unix-socket=high --abstract-unix-socket=high --url-query=high --resolve=high --connect-to=high --interface=high --doh-url=high -o=write --output=write --output-dir=write -D=write --dump-header=write -c=write --cookie-jar=write --trace=write --trace-ascii=write --stderr=write --engine=high --libcurl=write --etag-save=write --create-dirs=low -H=header --header=header -A=arg -m=arg --max-time=arg --retry=arg -w=arg --write-out=arg -e=arg --url=arg --connect-timeout=arg
wget,wget2 | fetch | OPUtTQoaeiBADIRX | --post-file=high --post-data=high --body-file=high --body-data=high --method=high -e=high --execute=high --config=high --use-askpass=high --no-check-certificate=high --header=header --user=high --password=high --proxy-user=high --load-cookies=high -i=high --input-file=high -r=medium -m=medium -O=write --output-document=write -P=write --directory-prefix=write -o=write --output-file=write -a=write --append-output=write --save-cookies=write
http,https,xh,xhs,httpie | high | |
openssl | high | |
openssl {version,dgst,md5,sha256,rand} | read | |
gpg,gpg2,gpgconf,age,sops,ansible-vault,vault,pass,op,bw,lpass,gopass,secret-tool,keyring,security,keychain,kwallet-query,cmdkey,certutil,git-credential | high | |
xclip,xsel,pbcopy,pbpaste,wl-copy,wl-paste,clip,xdg-open,open,start,gio,sensible-browser,x-www-browser,firefox,chrome,google-chrome,chromium,xdotool,ydotool,notify-send,wall,write,import,scrot,ffmpeg-capture | high | |
psql,mysql,mariadb,mongo,mongosh,redis-cli,cqlsh,sqlcmd,clickhouse-client,pg_dump,pg_dumpall,mysqldump,mongodump,dropdb,createdb,pg_restore | high | |
sqlite3 | sqlite | |
aws,gcloud,az,doctl,heroku,flyctl,fly,vercel,netlify,firebase,supabase,wrangler,ibmcloud,oci,linode-cli,hcloud,terraform,tofu,terragrunt,pulumi,cdk,sam,serverless,sls,ansible,ansible-playbook,ansible-pull,salt,puppet,chef,helm,oc,k9s,argocd,flux,eksctl,minikube,kind,skaffold,kubectl,twine,flit,fastlane,gh,glab,hub,docker,podman,nerdctl,buildah,skopeo,ctr,crictl,runc,docker-compose,podman-compose | sub | nRHlc | -H=high --host=high --context=high -R=arg --repo=arg --namespace=arg -c=high --config=high -f=read --file=read -n=arg
{terraform,tofu} {plan,validate,fmt,show,output,version,init,providers,graph},{docker,podman} {ps,images,logs,version,info,inspect,search,stats,top,port,history,diff,build,pull},{docker,podman} compose,{docker,podman} {image,container,volume,network},{docker,podman} {image,container,volume,network,compose} {ls,list,ps,logs,inspect,config,images,build,history,top,version},docker-compose {ps,logs,config,images,build,version},kubectl {get,describe,logs,top,version,explain,api-resources,cluster-info,diff},helm {list,status,template,lint,search,version,show},flit build,twine check,minikube status,serverless package,{docker,podman} buildx | ask | | --secret=high --privileged=high --ssh=high --network=high --allow=high --push=high -o=write
{docker,podman} {image,container,volume,network,compose},gh {pr,issue,run,repo,release,workflow,label,search} | sub | fRpn | -f=read --file=read -R=arg --repo=arg
gh {pr,issue,run,repo,release,workflow,label} {list,view,status,diff,checks,watch,checkout},gh search {code,repos,issues,prs,commits},gh {status,browse,version} | ask | | -w=high --web=high
gh repo clone | fetch | |
aws *,gcloud *,az *,gh *,gh {pr,issue,run,repo,release,workflow,label} *,docker *,{docker,podman} {image,container,volume,network,compose} *,kubectl * | high | |
apt,apt-get,aptitude,dpkg,yum,dnf,zypper,apk,pacman,yay,paru,snap,flatpak,brew,port,nix-env,nix,guix,rpm,emerge,choco,winget,scoop,pkg,gem,cpan,cpanm,luarocks,easy_install,conda,mamba,micromamba,opam,cabal,stack,dotnet,rustup,nvm,pyenv,rbenv,asdf,mise,sdk,volta,corepack,helmfile,pipx,uv,uvx,poetry,pdm,hatch,rye,pipenv,pip,npm,pnpm,yarn,cargo,go,composer,bundle,mvn,gradle | sub | CpDF | -C=write --cwd=write --prefix=write --dir=write --directory=write --project=write --manifest-path=read
{apt,apt-cache,brew,snap,flatpak,dnf,yum,gem,conda,mamba,rustup,nvm,pyenv,rbenv,asdf,mise,pipx,nix} {list,show,search,info,policy,--version,depends,which,versions,current,outdated,env},dpkg {-l,-L,-s,-S,--list},rpm {-q,-qa,-ql,-qi},{rustup,rbenv,pyenv} which | ask | |
gem build,{cabal,stack,dotnet,opam} {build,test,run,check,restore,format,list,bench},conda {env,create} | run | |
pip {list,show,freeze,check,--version,debug,inspect,hash,config,cache} | ask | | -o=write pip config=medium
pip config | sub | |
pip config {list,get,debug} | ask | |
{pip,npm,yarn,pnpm,poetry,pipenv} config {set,edit,unset,delete},{npm,yarn,pnpm,poetry,pipenv,uv,cargo,composer,bundle,go} {publish,login,logout,adduser,token,owner,access,unpublish,deprecate,dist-tag,yank,config,set,cache,hook,org,profile,star,team,global,self,tool,link,auth,env},gem *,{apt,apt-get,aptitude,dpkg,yum,dnf,zypper,apk,pacman,yay,paru,snap,flatpak,brew,port,nix-env,nix,guix,rpm,emerge,choco,winget,scoop,pkg,cpan,cpanm,luarocks,easy_install,conda,mamba,micromamba,opam,rustup,nvm,pyenv,rbenv,asdf,mise,sdk,volta,corepack,helmfile} * | high | |
{npm,pnpm,yarn,poetry,composer} config {get,list},go env,yarn cache dir,cargo {search,info},npm {view,outdated,audit,ls,list,search,explain,why,doctor,fund} | ask | | -w=high -u=high --fix=medium
{npm,pnpm,yarn,bun} {run,test,start,stop,build,ci,install,i,add,remove,uninstall,update,rebuild,pack,init,link,run-script,t,tst,lint} | run | wC | -g=high --global=high --location=high --prefix=write --registry=high --userconfig=high --script-shell=high --node-options=high --ignore-scripts=low
{pip,uv,poetry,pdm,pipenv,rye,hatch,cargo,go,composer,bundle,mvn,gradle} * | run | etirc | --index-url=high -i=high --extra-index-url=high --index=high --default-index=high --find-links=high -f=high --trusted-host=high --user=high --break-system-packages=high --root=high --target=write -t=write --prefix=write --proxy=high --cert=high --global-option=high --install-option=high --build-option=high --config=high --config-settings=high --git=high --registry=high --toolexec=high -toolexec=high -exec=high --exec=high --system=high -D=arg --pre=low -e=write -r=read
cargo install,go install,{pip,uv} uninstall-system,uv {publish,self},go {generate-remote},{mvn,gradle} {deploy,publish,release:perform},cargo {publish,login},hatch publish,pdm publish,rye publish | high | |
uv pip | sub | |
{uv,poetry,pdm,pipenv,hatch,rye,bundle} {run,exec},{npm,pnpm,yarn} exec | runner | pwE | --with=high --with-requirements=read --env-file=read --python=arg --extra=arg --group=arg --directory=write --project=write
npx,bunx,uvx,pipx run,{pnpm,yarn,npm,bun} {dlx,x,create},uv tool run | package | pc | --package=arg --from=arg --with=high -c=code --call=code
make,gmake,ninja,just,task,rake,cmake,meson,scons,bazel,buck,nox,tox,invoke,fab,gulp,grunt,nmake,cargo-make,mage | make | fCjIOoW | -f=read --file=read --makefile=read -C=write --directory=write --eval=high -E=high -P=medium --install=high --build=write
gcc,g++,cc,c++,clang,clang++,rustc,ld,as,javac,kotlinc,swiftc,tsc,gfortran,nasm | compile | oIDLlxe | -o=write --outDir=write -wrapper=high -fplugin=high -B=high -specs=high --plugin=high
git | git | Cc | -c=gitconfig -C=write --exec-path=high --git-dir=write --work-tree=write --config-env=high --namespace=arg --super-prefix=arg
git {status,log,diff,show,blame,annotate,shortlog,describe,ls-files,ls-tree,rev-parse,rev-list,cat-file,name-rev,for-each-ref,merge-base,whatchanged,count-objects,var,version,check-ignore,check-attr,diff-tree,diff-index,diff-files,show-ref,range-diff,cherry,verify-commit,show-branch,help,--version,symbolic-ref,format-patch,archive,bundle,grep,bisect,reflog,notes,fsck} | git | nGSLUOo | --ext-diff=high --textconv=high -O=high --open-files-in-pager=high --output=write -o=write --output-directory=write --remote=high --exec=high -D=high -d=medium
git {add,commit,merge,cherry-pick,revert,tag,init,branch,am,stash,rm,mv,apply,worktree,sparse-checkout,switch,reset,checkout,restore,rebase,submodule,mktree,write-tree,hash-object,update-index,maintenance,subtree,rerere} | git | mFCcubBso | --unsafe-paths=high --template=high -D=high --hard=high --merge=high --keep=high -f=high --force=high --discard-changes=high -x=high --exec=high --separate-git-dir=high -c=medium git commit -c=arg git commit -F=read git commit -f=low git add -f=medium git add --force=medium git restore -S=low git apply --directory=write git rm -f=medium git tag -d=high git rm --force=medium git am -c=medium git checkout -b=arg git commit --template=read
git {pull,fetch,ls-remote,remote-update,lfs} | gitnet | ojsup | --upload-pack=high -u=high --exec=high --receive-pack=high -f=high --force=high
git clone | fetch | obcujr | -c=high --config=high -u=high --upload-pack=high --template=high --separate-git-dir=high --recurse-submodules=medium --recursive=medium
git {push,clean,gc,prune,filter-branch,filter-repo,update-ref,replace,pack-refs,repack,fast-import,daemon,instaweb,send-email,request-pull,credential,credential-store,credential-cache,difftool,mergetool,http-push,http-fetch,upload-pack,receive-pack,shell,svn,p4,cvsserver,imap-send,submodule foreach,remote set-url,remote add,remote rename,remote remove,bisect run,stash drop,stash clear,reflog delete,reflog expire,worktree remove,maintenance start,gui,citool,submodule add,lfs push,checkout-index,update-server-info,unpack-objects,bugreport,submodule set-url,remote rm,remote set-head,remote prune,hook,maintenance register,multi-pack-index} | high | | git clean -n=medium git clean --dry-run=medium
git {remote,bisect,stash,worktree,submodule,reflog,maintenance,lfs,notes,bundle} | git | |
git config | gitconfig | f | --global=high --system=high -f=high --file=high -e=high --edit=high --worktree=high --replace-all=high --remove-section=high --rename-section=high --blob=high
"""


@dataclass(frozen=True, slots=True)
class Rule:
    """One command: `kind` decides, `options` may change it; `valued` letters take a value."""

    name: str
    kind: str
    valued: str = ""
    options: tuple[tuple[str, str], ...] = ()

    def effect_of(self, option: str) -> str | None:
        """The effect of an option; a long one may be cut short, as getopt allows."""
        exact = dict(self.options).get(option)
        if exact or not option.startswith("--") or len(option) < len("--xx"):
            return exact
        return next((e for o, e in self.options if o.startswith(option)), None)


def find_rule(*words: str) -> Rule | None:
    """The rule of a command, or of a command with its subcommands."""
    return _rules().get(" ".join(words).casefold())


@cache
def _rules() -> dict[str, Rule]:
    """Parse the table; the first line that names a command wins."""
    rules: dict[str, Rule] = {}
    for line in _TABLE.strip().splitlines():
        names, kind, valued, effects = (part.strip() for part in line.split("|"))
        expanded = [name for word in _split_outside_braces(names) for name in _expand(word)]
        for name in expanded:
            rules.setdefault(name, Rule(name, kind, valued, _options(name, effects, set(expanded))))
    return rules
