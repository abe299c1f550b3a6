"""Signs in to a server behind a URL by OAuth: keeps the tokens and receives the browser's redirect.

Only the user begins it: a server that demands it has the status `authRequired` until
`mcp/authenticate`. Then a port of 127.0.0.1 listens until the browser returns or the time is up.
What the server names to sign in at is asked only if it is no address inside the user's network.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, Protocol, Self
from urllib.parse import parse_qs, urlsplit

from oh_daemon.kernel.ports import Json
from oh_daemon.protocol.errors import ToolError

PATIENCE_S = 300.0
_PAGE = b"<!doctype html><meta charset=utf-8><title>oh-daemon</title><p>%s</p>"


class Persist(Protocol):
    """Stores a value by name, such as tokens by URL; a dict stores until the process ends."""

    def get(self, name: str, default: Json, /) -> Json: ...

    def __setitem__(self, name: str, value: Json, /) -> None: ...


class SignIn:
    """Signs the user in to one server. To be used only on the io loop.

    Also the token storage of the mcp package: keeps tokens and our registration as a client.
    """

    def __init__(self, url: str, store: Persist, on_secret: Callable[[str], None]) -> None:
        self._url = url
        self._store = store
        self._on_secret = on_secret
        self._credentials: Json = {}
        self._page: asyncio.Future[str | None] | None = None
        self.is_needed = False
        """Whether the server has demanded a sign-in that nobody has completed yet."""
        self.on_needed: Callable[[], None] = lambda: None

    def begin(self) -> asyncio.Future[str | None]:
        """Let the next connection ask the user; return a future of the sign-in page, None for none.

        Forgets whoever was signed in before.
        """
        record = self._store.get(self._url, {})
        self._store[self._url] = {key: record[key] for key in ("client",) if key in record}
        self._page = asyncio.get_running_loop().create_future()
        return self._page

    @property
    def is_under_way(self) -> bool:
        """Whether the user may still sign in."""
        return self._page is not None

    @property
    def patience_s(self) -> float:
        """How many seconds longer than usual the next connection may take."""
        return PATIENCE_S if self.is_under_way else 0.0

    def end(self) -> None:
        """Stop waiting for the user: the connection is established or given up."""
        page, self._page = self._page, None
        if page is not None and not page.done():
            page.set_result(None)

    @asynccontextmanager
    async def auth(self) -> AsyncGenerator[Any]:
        """Yield the HTTP client's `auth`; None if there are no tokens and nobody is signing in."""
        self.is_needed = False
        self._credentials = dict(self._store.get(self._url, {}))
        if self._page is not None:
            async with _Browser(self._port) as browser:
                if browser.port != self._port:
                    # We are registered with another redirect URI, and most servers insist on it.
                    self._credentials = {}
                yield self._provider(browser)
        elif "tokens" in self._credentials:
            yield self._provider(None)
        else:
            yield None

    @property
    def has_news(self) -> bool:
        """Whether another daemon of this user has kept newer tokens than those in use."""
        tokens = self._store.get(self._url, {}).get("tokens")
        return tokens is not None and tokens != self._credentials.get("tokens")

    def on_refused(self) -> None:
        """Note that the server demands a sign-in, unless there are newer tokens to try."""
        self.is_needed = self.is_under_way or not self.has_news
        self.on_needed()

    def _provider(self, browser: _Browser | None) -> Any:
        from mcp.client.auth import OAuthClientProvider  # noqa: PLC0415 - mcp is slow to import.
        from mcp.shared.auth import OAuthClientMetadata  # noqa: PLC0415

        async def ask_user(url: str) -> None:
            self.on_refused()
            if browser is None or self._page is None:
                raise ToolError("the user must sign in again")
            browser.expect(url)
            if not self._page.done():
                self._page.set_result(url)

        async def wait_for_browser() -> Any:
            if browser is None:
                raise ToolError("the user must sign in again")
            return await browser.wait_for_return()

        uris = [browser.redirect_uri] if browser else self._ways_back
        metadata = OAuthClientMetadata.model_validate(
            {"client_name": "oh-daemon", "redirect_uris": uris}
        )
        take_up_news = self._take_up_news

        class Provider(OAuthClientProvider):
            def async_auth_flow(self, request: Any) -> Any:
                take_up_news()
                return super().async_auth_flow(request)

        provider: Any = Provider(self._url, metadata, self, ask_user, wait_for_browser)
        self._context = provider.context
        self._complete()
        return provider

    def _take_up_news(self) -> None:
        """Use the tokens of another daemon: when it refreshed them, ours became worthless."""
        if self.has_news:
            self._credentials = dict(self._store.get(self._url, {}))
            self._context.current_tokens = self._tokens()
            self._context.client_info = self._client()
            self._complete()

    def _complete(self) -> None:
        """Add what the package does not load, and without which it could not refresh a token."""
        from mcp.shared.auth import OAuthMetadata  # noqa: PLC0415 - see `_provider`.

        self._context.token_expiry_time = self._credentials.get("expiresAt")
        if "server" in self._credentials:
            self._context.oauth_metadata = OAuthMetadata.model_validate(self._credentials["server"])
        self._mask()

    def _tokens(self) -> Any:
        from mcp.shared.auth import OAuthToken  # noqa: PLC0415 - see `_provider`.

        tokens = self._credentials.get("tokens")
        return tokens and OAuthToken.model_validate(tokens)

    def _client(self) -> Any:
        from mcp.shared.auth import OAuthClientInformationFull  # noqa: PLC0415 - see `_provider`.

        client = self._credentials.get("client")
        return client and OAuthClientInformationFull.model_validate(client)

    async def get_tokens(self) -> Any:
        return self._tokens()

    async def set_tokens(self, tokens: Any) -> None:
        self._change("tokens", tokens)

    async def get_client_info(self) -> Any:
        return self._client()

    async def set_client_info(self, client_info: Any) -> None:
        self._change("client", client_info)

    def _change(self, key: str, value: Any) -> None:
        self._credentials[key] = _json(value)
        self._mask()
        if self._context.oauth_metadata is not None:
            self._credentials["server"] = _json(self._context.oauth_metadata)
        self._credentials["expiresAt"] = self._context.token_expiry_time
        if "tokens" in self._credentials:
            self.is_needed = False
        self._store[self._url] = self._credentials

    def _mask(self) -> None:
        for holder in (self._credentials.get("tokens", {}), self._credentials.get("client", {})):
            for name in ("access_token", "refresh_token", "client_secret"):
                if holder.get(name):
                    self._on_secret(holder[name])

    @property
    def _ways_back(self) -> list[str]:
        """The redirect URIs that we are registered with."""
        client: Json = self._credentials.get("client", {})
        return list(client.get("redirect_uris") or ())

    @property
    def _port(self) -> int:
        return next((urlsplit(uri).port or 0 for uri in self._ways_back), 0)


class _Browser:
    """The local address to which the browser is redirected; refuses every other request."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._state: str | None = None
        self._answer: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()

    @property
    def redirect_uri(self) -> str:
        return f"http://127.0.0.1:{self.port}/callback"

    async def __aenter__(self) -> Self:
        try:
            self._server = await asyncio.start_server(self._on_request, "127.0.0.1", self.port)
        except OSError:
            self._server = await asyncio.start_server(self._on_request, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_exception: object) -> None:
        self._server.close()

    def expect(self, url: str) -> None:
        """Accept only a browser that comes from `url`, which its `state` parameter proves."""
        [self._state] = parse_qs(urlsplit(url).query)["state"]

    async def wait_for_return(self) -> Any:
        """Wait for the browser and return what it brought. Raises `ToolError`."""
        from mcp.shared.auth import AuthorizationCodeResult  # noqa: PLC0415 - see `SignIn`.

        try:
            async with asyncio.timeout(PATIENCE_S):
                answer = await self._answer
        except TimeoutError:
            raise ToolError(f"the sign-in was not completed within {PATIENCE_S:g} s") from None
        finally:
            self._server.close()
        if "code" not in answer:
            reason = answer.get("error_description") or answer.get("error", "no code came back")
            raise ToolError(f"signing in was refused: {reason[:300]}")
        return AuthorizationCodeResult.model_validate(answer)

    async def _on_request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        method = path = ""
        query: dict[str, str] = {}
        with suppress(ValueError):  # The line is too long, or names no address.
            method, _, rest = (await reader.readline()).decode("latin-1").partition(" ")
            target = urlsplit(rest.split(" ")[0])
            path = target.path
            query = {name: values[0] for name, values in parse_qs(target.query).items()}
        is_ours = (method, path) == ("GET", "/callback") and self._state is not None
        if is_ours and query.get("state") == self._state:
            status, says = b"200 OK", b"That is all: go back to where you came from."
            if not self._answer.done():
                self._answer.set_result(query)
        else:
            status, says = b"404 Not Found", b"There is nothing here."
        head = b"HTTP/1.1 %s\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n" % status
        with suppress(ConnectionError):
            writer.write(head + _PAGE % says)
            await writer.drain()
        writer.close()


def _json(model: Any) -> Json:
    return model.model_dump(mode="json", exclude_none=True)


def only_where_public(server_url: str) -> Callable[[Any], Awaitable[None]]:
    """Return a hook for the HTTP client, called before each request, also after a redirect.

    A name is looked up here and once more for the request itself: whoever controls its DNS records
    can answer differently the second time.
    """
    server = urlsplit(server_url)

    async def check_request(request: Any) -> None:
        """Raise `ToolError` for a target that this server must not name."""
        url = request.url
        if _origin(str(url)) == _origin(server_url):
            return
        inside = [address for address in await _addresses(url.host) if not _is_public(address)]
        if not inside:
            return
        own = await _addresses(server.hostname or "")
        if own and not any(map(_is_public, own)):
            return
        origin = f"{url.scheme}://{url.netloc.decode('ascii', 'replace')}"
        raise ToolError(
            f"the server wants to sign in at {origin}, which is on this machine or in its network;"
            " only a server that is there itself may do that"
        )

    return check_request


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    default = {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname, parts.port or default


async def _addresses(host: str) -> list[IPv4Address | IPv6Address]:
    """Look a name up; nothing is known of one that only a proxy can look up."""
    try:
        addresses = await asyncio.get_running_loop().getaddrinfo(
            host, None, type=socket.SOCK_STREAM
        )
    except OSError:
        return []
    return [ip_address(str(each[4][0]).partition("%")[0]) for each in addresses]


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    if isinstance(address, IPv6Address):
        address = address.ipv4_mapped or address
    return address.is_global
