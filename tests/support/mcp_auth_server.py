"""A real MCP server that wants its users to sign in, with its own authorization server.

Usage: `python mcp_auth_server.py [http | sse] PORT [agrees | denies]`. The sign-in page asks
nothing: it answers with the last argument.
"""

import secrets
import sys
import time

from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl

LIFETIME_S = 3_600
PATHS = {"http": "/mcp", "sse": "/sse"}


class Authority(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """Remembers its clients and the codes and tokens that it gave them, until the process ends."""

    def __init__(self, *, agrees: bool) -> None:
        self._agrees = agrees
        self._clients: dict[str, OAuthClientInformationFull] = {}
        self._codes: dict[str, AuthorizationCode] = {}
        self._access: dict[str, AccessToken] = {}
        self._refresh: dict[str, RefreshToken] = {}

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self._clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        assert client_info.client_id
        self._clients[client_info.client_id] = client_info

    async def authorize(
        self, client: OAuthClientInformationFull, params: AuthorizationParams
    ) -> str:
        back = str(params.redirect_uri)
        if not self._agrees:
            refusal = {"error": "access_denied", "error_description": "\x1b[31mnot \u202eyou"}
            return construct_redirect_uri(back, **refusal, state=params.state)
        code = AuthorizationCode(
            code=secrets.token_urlsafe(24),
            scopes=params.scopes or [],
            expires_at=time.time() + 300,
            client_id=client.client_id or "",
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        self._codes[code.code] = code
        return construct_redirect_uri(back, code=code.code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        code = self._codes.get(authorization_code)
        return code if code and code.client_id == client.client_id else None

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        code = self._codes.pop(authorization_code.code)
        return self._give(client, code.scopes)

    async def load_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: str
    ) -> RefreshToken | None:
        token_found = self._refresh.get(refresh_token)
        return token_found if token_found and token_found.client_id == client.client_id else None

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        # As some servers do: from now on, both of the client's earlier tokens are worth nothing.
        del self._refresh[refresh_token.token]
        self._access.clear()
        return self._give(client, scopes)

    async def load_access_token(self, token: str) -> AccessToken | None:
        token_found = self._access.get(token)
        return token_found if token_found and (token_found.expires_at or 0) > time.time() else None

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self._access.pop(token.token, None)
        self._refresh.pop(token.token, None)

    def revoke(self) -> None:
        """Forget every token."""
        self._access.clear()
        self._refresh.clear()

    def _give(self, client: OAuthClientInformationFull, scopes: list[str]) -> OAuthToken:
        client_id = client.client_id or ""
        access, refresh = (f"{kind}-{secrets.token_urlsafe(32)}" for kind in ("access", "refresh"))
        expires_at = int(time.time()) + LIFETIME_S
        self._access[access] = AccessToken(
            token=access, client_id=client_id, scopes=scopes, expires_at=expires_at
        )
        self._refresh[refresh] = RefreshToken(token=refresh, client_id=client_id, scopes=scopes)
        return OAuthToken(
            access_token=access,
            refresh_token=refresh,
            expires_in=LIFETIME_S,
            scope=" ".join(scopes),
        )


def main(transport: str, port: int, *, agrees: bool) -> None:
    address = AnyHttpUrl(f"http://127.0.0.1:{port}")
    authority = Authority(agrees=agrees)
    server = MCPServer(
        "vault",
        auth_server_provider=authority,
        auth=AuthSettings(
            issuer_url=address,
            resource_server_url=AnyHttpUrl(f"http://127.0.0.1:{port}{PATHS[transport]}"),
            client_registration_options=ClientRegistrationOptions(enabled=True),
            validate_token_resource=False,
        ),
    )

    @server.tool()
    def open_vault() -> str:  # pyright: ignore[reportUnusedFunction] - the server calls it.
        """What only the signed-in user may see."""
        return "gold"

    @server.tool()
    def revoke() -> str:  # pyright: ignore[reportUnusedFunction] - the server calls it.
        """Let nobody in any more who has signed in so far."""
        authority.revoke()
        return "revoked"

    if transport == "sse":
        server.run("sse", host="127.0.0.1", port=port)
    server.run("streamable-http", host="127.0.0.1", port=port)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), agrees=sys.argv[3] == "agrees")
