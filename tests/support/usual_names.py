"""Usual names of secret files, of files that steer tools, and of ordinary files, by kind."""

from __future__ import annotations

PROJECT_SECRETS = {
    "environment": ".env .env.local .env.js prod.env config/.env .envrc .envrc.local .dev.vars"
    " .envs/.local/.postgres env.production fastlane/.env",
    "backup": ".env~ .env.bak ..env.swp #.env# .#.env server.key.old .id_rsa.swo",
    "key": "id_ed25519 deploy_key server.key AuthKey_A1.p8 cert.p12 upload.keystore jwt_private.pem"
    " jwt.private private.asc krb.keytab client.ovpn age/keys.txt config/master.key",
    "word": "secret.json secrets.toml .secrets/x credentials.csv creds.json token.json"
    " token.pickle passwords.txt passwd .vault_pass vault-password.txt .api_key apikey.txt"
    " .openai_api_key rootkey.csv accessKeys.csv new_user_credentials.csv values.secret.yaml"
    " secret-values.yaml client_secret_1.apps.googleusercontent.com.json gcp-key.json"
    " gcloud-service-key.json google-credentials.json serviceAccountKey.json access_token.txt",
    "cluster": "kubeconfig kubeconfig.yaml kube/config prod.kubeconfig admin.conf .dockerconfigjson"
    " terraform.tfvars.json terraform.tfstate .kube/config",
    "tool": ".sentryclirc sentry.properties .ftpconfig sftp-config.json .vscode/sftp.json"
    " .idea/dataSources.local.xml rclone.conf auth.json .npmrc .mcp.json .cursor/mcp.json"
    " .wrangler/config/default.toml local.settings.json .claude/settings.local.json"
    " local_settings.py config/local.json wp-config.php keystore.properties .bash_history",
    "wallet": "wallet.json keystore/UTC--2026 mnemonic.txt seed.txt",
}
"""Files in a project whose usual content is secret."""

HOME_SECRETS = {
    "word in a new program's folder": ".newtool/credentials .newtool/token.json .newtool/api_key"
    " .config/newtool/auth.json .config/newtool/secrets.yml .local/share/newtool/cookies.sqlite"
    " .local/state/newtool/history .config/newtool/keys/k .newtool/oauth_creds.json"
    " .config/newtool/server.pem .local/share/newtool/refresh-token",
    "cloud": ".aws/credentials .pulumi/credentials.json .cf/config.json .config/scw/config.yaml"
    " .cloudflared/cert.pem .mc/config.json .railway/config.json .tsh/keys/x .argocd/config",
    "package manager": ".yarnrc .bundle/config .ivy2/.credentials .sbt/1.0/credentials"
    " .hex/hex.config .condarc .config/dart/pub-credentials.json .bunfig.toml",
    "history": ".viminfo .lesshst .local/share/nvim/shada/main.shada .local/share/atuin/history.db"
    " .local/state/bash/history .rediscli_history",
    "agent": ".openhands/secrets.json .cursor/mcp.json .continue/config.json .aider.conf.yml"
    " .qwen/oauth_creds.json .factory/auth.json .config/goose/config.yaml"
    " .config/Code/User/globalStorage/state.vscdb .local/share/amp/secrets.json",
    "browser, mail and chat": ".librewolf/p/logins.json .zen/p/logins.json .msmtprc .authinfo"
    " .config/qutebrowser/x .config/aerc/accounts.conf .purple/accounts.xml .weechat/sec.conf",
    "other": ".sentryclirc .vnc/passwd .smbcredentials .config/solana/id.json .android/adbkey"
    " .config/syncthing/key.pem .step/secrets/k .config/nix/netrc .snapshots/1/snapshot/x",
}
"""Files in a home folder whose usual content is secret."""

HOME_ORDINARY = """.bashrc .profile .gitconfig .vimrc .config/git/config .config/git/ignore
.config/nvim/init.lua .config/nvim/lua/keys.lua .config/pip/pip.conf .config/Code/User/settings.json
.config/Code/User/keybindings.json .config/fish/config.fish .config/htop/htoprc .cargo/config.toml
.cargo/bin/cargo .rustup/settings.toml .local/bin/tool .local/share/applications/secret-tool.desktop
.local/lib/python3.11/site-packages/keyring/auth.py .nvm/nvm.sh .pyenv/version .gradle/init.gradle
.m2/toolchains.xml .pulumi/bin/pulumi .vscode/extensions/x/package.json .claude/CLAUDE.md
.claude/skills/x/SKILL.md .config/gtk-3.0/settings.ini Documents/notes.md go/bin/dlv
.oh-my-zsh/oh-my-zsh.sh .config/starship.toml .tmux.conf .sdkman/etc/config"""
"""Files in a home folder that programs need and that hold no secrets."""

PROJECT_ORDINARY = """src/auth.py src/token.ts src/secrets.rs lib/credentials.go lib/password.rb
app/models/api_key.rb tests/test_secrets.py include/keys.h src/keyboard.js src/tokenizer.py
tokenizer.json tokenizer_config.json special_tokens_map.json design-tokens.json monkey.txt
locales/en/auth.json docs/secrets.md docs/api-keys.md .github/secret_scanning.yml firebase.json
templates/reset_password.txt templates/forgot-password.json .env.example .env.sample
config/secrets.example.yml schema/credentials.schema.json config/database.yml application.properties
gradle.properties local.properties appsettings.json docker-compose.yml dump.sql google-services.json
secrets.py env.js env.ts .flaskenv .secrets.baseline .sops.yaml id_rsa.pub keys.go
bin/rotate-credentials scripts/get-token Cargo.toml tsconfig.json setup.cfg data/seed.sql seeds.rb
public/index.html assets/key.svg vault.go README.md LICENSE CONTRIBUTING.md .dockerignore"""
"""Files of popular projects that tools must be able to read."""

STEERING = {
    "editor": ".vscode/tasks.json .idea/workspace.xml .run/App.run.xml .fleet/run.json"
    " .zed/tasks.json .helix/languages.toml .dir-locals.el .emacs.d/init.el .lvimrc .vimrc.local"
    " _vimrc .nvim.lua .exrc .ycm_extra_conf.py x.sublime-project .vs/launch.vs.json .luarc.json"
    " .settings/org.eclipse.core.prefs .theia/tasks.json .clangd",
    "agent": "AGENTS.md AGENT.md CLAUDE.md CLAUDE.local.md GEMINI.md QWEN.md CONVENTIONS.md .rules"
    " AGENTS.override.md .goosehints .crush.json crush.json .qwen/settings.json .kiro/steering/x.md"
    " .amp/settings.json .factory/mcp.json .trae/mcp.json .augment/rules .clinerules .windsurfrules"
    " .cursorrules .cursor/rules/x.mdc .github/copilot-instructions.md x.instructions.md",
    "shell": ".tmux.conf .screenrc .bash_aliases .zshenv .profile .login .inputrc .direnvrc",
    "debugger or interpreter": ".gdbinit .lldbinit .radare2rc .irbrc .pryrc .pdbrc .pythonrc"
    " .ipython/profile_default/startup/x.py sitecustomize.py x.pth .Rprofile .sqliterc .psqlrc"
    " .ocamlinit .ghci .iex.exs .erlang .jvmopts ansible.cfg .terraformrc",
    "program version": ".nvmrc .python-version .ruby-version .tool-versions mise.toml .mise/x"
    " .sdkmanrc .yarn/releases/yarn.cjs .pnp.cjs .pnpmfile.cjs pnpmfile.js .mvn/jvm.config",
    "continuous integration": ".github/workflows/a.yml .gitlab-ci.yml .cirrus.yml .build.yml"
    " .builds/x.yml .teamcity/settings.kts .tekton/x.yaml .gitpod.yml .replit bitrise.yml"
    " codemagic.yaml Jenkinsfile renovate.json .github/dependabot.yml .azure-pipelines/x.yml",
    "git": ".git-hooks/pre-commit .githooks/x hooks/pre-push scripts/commit-msg .husky/x"
    " .pre-commit-hooks.yaml lefthook.toml .lintstagedrc.js lint-staged.config.js .lfsconfig"
    " .gitattributes .hgrc .jj/repo/config.toml .overcommit.yml CODEOWNERS",
}
"""Files that start programs or steer tools when somebody only opens, commits or pushes."""

BUILD_FILES = """package.json Makefile justfile Taskfile.yml tox.ini noxfile.py setup.py conftest.py
pyproject.toml build.rs build.gradle gradlew CMakeLists.txt Dockerfile docker-compose.yml flake.nix
eslint.config.js .eslintrc.js vite.config.ts jest.config.js .prettierrc.js Gemfile Rakefile mix.exs
composer.json main.tf netlify.toml vercel.json .rubocop.yml .clang-tidy deps.edn Vagrantfile
.gitignore .dockerignore .editorconfig"""
"""Files of a build, of tests and of linters: changing them is ordinary work."""
