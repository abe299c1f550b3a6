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
    "twilio": "SK" + "0123456789abcdef" * 2,
    "mailgun": "key-" + "0123456789abcdef" * 2,
    "shopify": "shpat_" + "0123456789abcdef" * 2,
    "vault": "hvs." + BODY,
    "linear": "lin_api_" + BODY + "abcdefgh",
    "figma": "figd_" + BODY + "-abc",
    "age": "AGE-SECRET-KEY-1" + "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L" + "QPZRY9X8GF2TVDW0S3JN54KHCE",
    "atlassian": "ATATT3xFfGF0" + BODY + BODY + "=1A2B3C4D",
    "databricks": "dapi" + "0123456789abcdef" * 2,
    "doppler": "dp.pt." + BODY + BODY[:11],
    "replicate": "r8_" + BODY + "abcde",
    "perplexity": "pplx-" + BODY + BODY[:16],
    "discord": "MTk4NjIyNDgzNDcxOTI1MjQ4" + ".Cl2FMQ." + BODY[:27],
    "sentry": "sntrys_" + BODY + BODY,
    "grafana": "glsa_" + BODY + "_0a1b2c3d",
    "docker": "dckr_pat_" + BODY[:27],
    "tailscale": "tskey-auth-" + BODY[:12] + "-" + BODY,
    "postman": "PMAK-" + "0123456789abcdef01234567" + "-" + "0123456789abcdef" * 2 + "01",
    "notion": "ntn_" + BODY + "abcdefghijkl",
    "rubygems": "rubygems_" + "0123456789abcdef" * 3,
    "new relic": "NRAK-" + "ABCDEFGH12345678" + "ABCDEFGHIJK",
    "brevo": "xkeysib-" + "0123456789abcdef" * 4 + "-" + BODY[:16],
    "langsmith": "lsv2_pt_" + "0123456789abcdef" * 2 + "_0123456789",
    "netlify": "nfp_" + BODY + "abcd",
    "supabase": "sbp_" + "0123456789abcdef" * 2 + "01234567",
    "discord user": "mfa." + BODY + BODY + BODY[:20],
    "fireworks": "fw_" + BODY[:24],
    "cloudflare": "cfut_" + BODY + "abcdefgh",
    "cloudflare origin": "v1.0-" + "0123456789abcdef01234567" + "-" + "0123456789abcdef" * 9,
    "jwt": _JWT,
    "private key": _KEY,
}
