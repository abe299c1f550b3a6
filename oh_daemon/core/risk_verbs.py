"""What programs do with certain words: `gh pr view` asks a server, `sort -o` writes a file.

`risk_uses` reads these rows; arguments that are a language of their own are in `risk_rules`.
"""

from __future__ import annotations

# A row has programs, and after each effect of `risk_programs` the phrases with it. Of those that
# fit, the worst counts, but none that another one contains. A phrase is the first operands, and
# options, which may stand anywhere, as may a word after `~`; `$` says that no operand follows;
# `{a,b}` and `*` are as in a shell. After `inner` another command begins.
ROWS = """
docker docker-compose podman nerdctl buildah: send --push; lose compose down {-v,--volumes*,--rmi*}
    inline build ~{*://*,*git@*,git+*}, build -, --privileged, compose {-f,--file}=*://*
    look $, {ps,images,logs,inspect,stats,top,version,info,port,diff,history,events,search}, scout *
    look * {ls,list,inspect,logs,ps,df}, compose {config,top,images,version,events,port}
    act {build,pull,tag,rename,wait,restart,pause,unpause}, * {build,pull,tag}
    act {network,volume} create, compose {up,down,stop,start,restart,kill,create,watch}
    act compose {exec,run} *; inner compose {exec,run} *
kubectl oc: secret --raw; text version --client, config {current-context,get-*}
    ask {get,describe,logs,top,explain,diff,events,wait,version,help,api-resources,api-versions}
    ask {cluster-info,status,whoami}, rollout {status,history}, config view
    ask --dry-run={client,server}; send --dry-run={none,false}
helm: inline --post-renderer; read lint; write {template,pull,package,create,dep*}
    ask {list,ls,get,show,search,status,history,help,env}, repo list
terraform tofu terragrunt: inline -from-module*; read fmt -check
    write fmt; run {init,validate,get}
    ask {plan,show,graph,providers,help}, {state,workspace} {list,show}
aws: secret --with-decryption; fetch s3api get-object
    ask * {describe-*,list,list-*,get,get-*,ls,show-*,search-*,head-*,lookup-*,filter-*,query,scan}
    ask * {wait,tail,status,help}, help
gcloud az: secret {*,* *} print-*; ask {help,* help}
    ask {*,* *,* * *} {list,describe,show}, {*,* *} {read,search}, * {get,get-*}
gh glab: send api {-f,-F,--field,--raw-field,--input}, --hostname
    fetch * {clone,download,checkout}; ask {search,status,version,help,api}, run {list,view,watch}
    ask * {list,ls,show,view,status,diff,checks,watch}
pulumi heroku: ask {preview,logs,ps,apps,releases,version}, stack ls
redis-cli: inline --eval, --pipe
    ask {get,mget,keys,scan,info,ping,ttl,type,llen,lrange,hget*,exists,dbsize}, smembers, zrange
firebase vercel netlify wrangler serverless sls cdk sam packer vagrant:
    run {dev,build,synth,diff,local,emulators:*,validate,package,fmt,ls,list,status}
tailscale chezmoi restic borg virsh VBoxManage multipass limactl minikube k3d:
    ask {status,list,ls,info,version,snapshots,diff,show*,get,doctor}
ansible-playbook skaffold helmfile: run --syntax-check, {render,template,lint}
adb: ask {devices,logcat,get-*}
apt apt-get apt-cache aptitude: ask -s, --simulate, changelog
    text {list,show,search,policy,depends,rdepends,madison}
brew snap flatpak: text {list,ls,deps,leaves}; ask {info,search,show,outdated,config,uses}
yum dnf apk: ask {list,ls,show,search,info,policy,depends}
dpkg: text {-l,-L,-s,-S,--list,--status,--search}
pacman: ask {-Q,-Si,-Ss}
conda mamba: text {list,info}, env list; ask {search,compare}, env export
    run {run,install,create}, env {create,update}; inner run
npm pnpm: text {ls,list,ll,la,root,prefix,bin,help,why}, {pkg,config} get, {version,-v} $
    text {ls,list,root,prefix,bin} {-g,--global*}
npm pnpm yarn: run {run,test,start} -g; inner exec; text config get
    send {publish,npm publish,login,logout,adduser,token,owner,access,unpublish,deprecate,dist-tag}
    system {config,set,link,global}, -g, --{global,location,user}*; ask config {list,ls}
    inline {dlx,x,create}, init *, --{registry,script-shell,node-options}*, ~{*://*,*git@*,git+*}
npm: inline exec
pip uv poetry pdm pipenv hatch rye pixi: send {publish,upload}; inner run; text python list
    system {config,self,tool,cache,global}, python install, --{user,break,system,root}*
    inline x, -i, {install,download,wheel,pip install} -f, ~{*://*,*git@*,git+*}
    inline --{index,extra-index,find-links,trusted,proxy}*; text pip {list,show,freeze,check}
pip: ask list {-o,-u,--outdated,--uptodate}; text {list,show,freeze,check,help,debug}
cargo go composer bundle: send {login,logout,owner,yank,publish,deploy}; inner exec
    system {self-update,global}, --{global,config,registry}, config -g
    inline {create-project,binstall}, --git, {-,--}exec, {-toolexec,-vettool}
cargo go: inline {run,tool} *.*/*@*; inner watch {-s,--shell}
    system {install,uninstall}, env {-w,-u}, clean {-cache,-modcache,-testcache}
go: text {doc,env,help}
gem: ask list {-r,-a,--remote,--all}; text {list,info,which,contents,environment,spec*}; run build
mvn mvnw gradle gradlew mix sbt lein: send ~{*publish*,*deploy*,*upload*,release:*}
mix: system {archive,escript}; inline run -e
dotnet: send push, nuget push; text {--list-sdks,--list-runtimes,--info} $
    system {user-secrets,dev-certs,workload}, new install, {-g,--global,--tool-path,--trust}
make gmake ninja meson: inline --eval, -E; write ~install ~DESTDIR=[!/~]*; system ~{un,}install
cmake: system -E, --install; inline ~*LAUNCHER*
gcc g++ cc clang clang++ ld: inline ~{*-fplugin*,-wrapper*}
npx bunx uvx: inline -y, -p, -c, --{yes,package,call,from,with*}
python node ruby perl php julia tsx ts-node: inline --{eval,print,execute}
deno bun: inline -e, -p, --{eval,print}, {eval,x,create,repl}, {run -,-}, $, ~*://*
    inline {run ,}{npm:*,jsr:*}; system upgrade, {add,install} {-g,--global}; send publish
lerna nx ng mkdocs changeset vsce ovsx flit flutter dart pod cabal stack opam luarocks dvc pio
    platformio arduino-cli west idf.py: send ~{*publish,*deploy,*upload,release,push,login,flash}
django-admin: lose {flush,sqlflush}; inline shell
pre-commit husky lefthook: later {install,uninstall,init}
nix: run {run,shell} .*; inline {run,shell}; system {profile,copy,store,registry}
nix: inner develop {-c,--command}
nix-shell: inline --run, --command, -p
rustup: text show, {toolchain,target} list
nvm pyenv rbenv asdf mise volta: text {version,versions,current,list,ls,which}, {--version,-v} $
nvm pyenv rbenv asdf: act {use,local,shell}
ghc: inline ~{-e,-fplugin*,-pgm*}
pdflatex xelatex lualatex latexmk: inline {-,--}shell-escape, -enable-write18, ~-e
prove: inline -e, --exec
ruff: read check, rule, format {--check,--diff}
    write format, check {--fix*,--unsafe*,--output-file,--add-noqa,-o}
black isort yapf autopep8 rustfmt stylua: read --check, --diff, -c, --check-only; write
gofmt goimports shfmt: write -w, --write, ~-{cpu,mem,trace}*
biome: read {check,lint,format,ci}; write --{write,fix,apply*,unsafe}; write
prettier eslint stylelint rubocop golangci-lint ktlint: write {-w,-a,-A,-F}, --{write,fix*,auto*}
svn: send {commit,ci,import,mkdir,propset,ps}; inline ~--config-*
    lose {revert,delete,del,rm,switch,relocate}
hg: send {push,serve,email}; lose {revert,strip,purge,rollback}, up* {-C,--clean}; inline --config
jj: send {push,git push}; lose {abandon,restore,undo,op}; system config
tar zip unzip: lose -P, --remove-files, --absolute-names
    inline {-I,-F,-TT}, --{to-command,checkpoint-action,use-compress-program,rsh-command}
    inline --{info-script,new-volume-script,unzip-command}
gzip gunzip bzip2 xz unxz zstd: read {-c,-l,-t,--stdout,--list,--test}
jar: inline ~-J*, ~@*
plutil: read -p, -lint
sort shuf tree iconv time base64: write -o, --o*
tree: write -R
pkg-config: write --log-file*
sort shuf: write -T, --temporary-directory; inline --compress-program
xmllint: inline --{shell,noent,dtd*,valid*,xinclude,path,load*}; write ~-o, --output
xmllint: write ~*://*
exiftool: inline -config*, -if, ~{-@,-p}
pandoc: inline -F, --{filter,lua-filter,pdf-engine*}
actionlint: inline ~*-{shellcheck,pyflakes}*
file: write -C, --compile
jq yq clang-format: write {-i,-f}, --{in-place,inplace,split*,from-file}
find: write ~{-delete,-exec*}
fd fdfind: inline {-x,-X}, --exec*
rg ag ack: deep *, {-e,-f}, --{regexp,file}; inline --{pre,pager,hostname-bin}
grep egrep fgrep zgrep: deep {-r,-R,-d}, --{recursive,dereference*,directories*}
diff colordiff: deep -r, --recursive
sort wc du: deep --files0*
file: deep -f, --files-from
less more: inline ~+*, -k, --lesskey*; write {-o,-O}, --log*
ar objdump nm size cloc javap: inline ~--{plugin,extract,config,sql}*, ~-J*
systemctl: text {status,is-*,list-*,show,cat}
service: text * status $
ifconfig alias ulimit mount: text $
mount: system -*
ss: system -K, --kill; write -D, --diag
hostname: system *, -F, -b
jobs: later -x
readonly: later *
wait: inline -p
exec: inline -c, ~{*
"""
