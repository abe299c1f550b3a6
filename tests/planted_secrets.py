"""A secret of every kind that is recognized by its form, for tests that search for leaks."""

BODY = "aB3dE5gH7jK9mN1pQ2sT4vX6zA8cF0hL"
_JWT = f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTYifQ.{BODY}"
_KEY = (
    f"-----BEGIN OPENSSH PRIVATE KEY-----\n{BODY}{BODY}\n{BODY}=\n-----END OPENSSH PRIVATE KEY-----"
)

# The tokens are assembled here so that no secret scanner takes this file for a leak.
TOKENS = {
    "openai": "sk-" + BODY,
    "openai project": "sk-proj-" + BODY + "_" + BODY,
    "anthropic": "sk-ant-api03-" + BODY + "-" + BODY,
    "github": "ghp_" + BODY + "abcd",
    "github fine grained": "github_pat_" + BODY + "_" + BODY,
    "gitlab": "glpat-" + BODY[:20],
    "aws id": "AKIA" + "QWERTYUIOPASDFGH",
    "google": "AIza" + BODY + "abc",
    "google oauth": "ya29." + BODY,
    "slack": "xoxb-" + "123456789012-" + BODY,
    "stripe": "sk_live_" + BODY,
    "npm": "npm_" + BODY + "abcd",
    "pypi": "pypi-AgEIcHlwaS5vcmc" + BODY + BODY,
    "hugging face": "hf_" + BODY,
    "groq": "gsk_" + BODY + BODY,
    "sendgrid": "SG." + BODY[:22] + "." + BODY + BODY[:11],
    "digitalocean": "dop_v1_" + "0123456789abcdef" * 4,
    "jwt": _JWT,
    "private key": _KEY,
}
