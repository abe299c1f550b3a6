"""Where programs keep secrets outside of projects: what a view covers in the home folder.

A table of names, and the variables that move them. What only looks like a secret by its name, at
the top of the home folder too, `masks` finds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

_IN_HOME = """
.ssh .gnupg .password-store .pki .age .vault-token .netrc _netrc .git-credentials .Xauthority
.ICEauthority .aws .azure .kube .oci .ibmcloud .aliyun .fly .minikube .docker/config.json
.docker/contexts .terraform.d/credentials.tfrc.json .terraformrc .s3cfg .boto .passwd-s3fs
.databrickscfg .snowflake .snowsql .dbt .kaggle .huggingface .wrangler .supabase .ngrok2
.npmrc .yarnrc.yml .pypirc .gem/credentials .cargo/credentials .cargo/credentials.toml
.m2/settings.xml .m2/settings-security.xml .gradle/gradle.properties .nuget/NuGet/NuGet.Config
.composer/auth.json .pgpass .my.cnf .mylogin.cnf .mozilla .thunderbird .var/app
snap/chromium snap/firefox snap/thunderbird .claude.json .claude/.credentials.json
.codex/auth.json .gemini/oauth_creds.json
"""
_IN_CONFIG = """
gcloud gh hub glab-cli op doctl hcloud rclone netlify .wrangler heroku flyctl ngrok sops age
containers/auth.json git/credentials pypoetry/auth.toml composer/auth.json configstore
github-copilot io.datasette.llm stripe google-chrome google-chrome-beta google-chrome-unstable
chromium BraveSoftware microsoft-edge vivaldi opera Bitwarden 1Password keepassxc Signal Slack
discord Element evolution
"""
_IN_DATA = """
keyrings kwalletd password-store TelegramDesktop com.vercel.cli opencode/auth.json evolution
fish/fish_history
"""
_IN_CACHE = "google-chrome chromium mozilla huggingface/token keyring"
_BASES = {
    "": ("", _IN_HOME),
    "XDG_CONFIG_HOME": (".config", _IN_CONFIG),
    "XDG_DATA_HOME": (".local/share", _IN_DATA),
    "XDG_CACHE_HOME": (".cache", _IN_CACHE),
}
"""By the variable that moves it: a folder of the home folder, and names in it."""
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


def secret_places(home: Path, environment: Mapping[str, str]) -> Iterator[Path]:
    """Yield where secrets may lie, whether they exist or not."""
    for variable, (usual, names) in _BASES.items():
        base = Path(environment.get(variable) or home / usual)
        yield from (base / name for name in names.split())
    for variable in _VARIABLES:
        named = environment.get(variable, "").split(":")
        yield from (Path(name) for name in named if name.startswith("/"))
    yield from map(Path, _OF_SYSTEM)
