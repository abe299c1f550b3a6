"""MCP servers: their settings, their state, and the methods that control them."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from oh_daemon.protocol.base import Contract, StrictContract


class McpServerSettings(StrictContract):
    """One server: a `command` to start, or the `url` of a running server."""

    model_config = ConfigDict(hide_input_in_errors=True)

    command: str | None = None
    """Program to start."""
    args: tuple[str, ...] = ()
    """Its arguments."""
    env: dict[str, str] = Field(default_factory=dict)
    """Additional environment variables for the command. Here and in `args` and `headers`, `${NAME}`
    is replaced by an environment variable or a exposed secret."""
    url: Annotated[str, Field(pattern=r"^https?://\S+$")] | None = None
    """Address of a server that runs already."""
    headers: dict[str, str] = Field(default_factory=dict)
    """HTTP headers to send with every request."""
    transport: Literal["http", "sse"] = "http"
    """Transport of `url`: streamable HTTP, or the older server-sent events."""
    enabled: bool = True
    """Whether to use it."""
    allow: tuple[str, ...] | None = None
    """Offer only these of the server's tools."""
    deny: tuple[str, ...] = ()
    """Do not offer these of the server's tools."""
    start_timeout_s: Annotated[float, Field(gt=0, le=3_600)] = 60
    """Timeout in seconds until the server has listed its tools. A conversation waits at most 10 s
    for them; later ones are added when they arrive."""
    timeout_s: Annotated[float, Field(gt=0, le=86_400)] = 600
    """Timeout in seconds for one tool call, counted from its last report of progress; at most six
    times that in all."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("give either `command` or `url`")
        return self


McpStatus = Literal["disabled", "starting", "running", "authRequired", "failed"]


class McpServerInfo(Contract):
    """The current state of one server."""

    name: str
    """Its name in the settings."""
    status: McpStatus
    """`authRequired`: the user must sign in, see `mcp/authenticate`."""
    tools: tuple[str, ...] = ()
    """Names of the tools as the model sees them."""
    omitted: tuple[str, ...] = ()
    """Tools that are not offered, each with the reason: `"price: its input schema is none: …"`."""
    error: str | None = None
    """Why it does not run."""


class McpListParams(Contract):
    """List MCP servers of the settings, skills in use and the browser, each with its state."""


class McpServers(Contract):
    """All MCP servers with their current state, by name."""

    servers: tuple[McpServerInfo, ...]
    """Sorted by name."""


class McpSetEnabledParams(Contract):
    """Start or stop a server; the settings do not change."""

    server: str
    enabled: bool
    """Whether it shall run."""


class McpRestartParams(Contract):
    """Restart a server and accept its tools as they are now."""

    server: str


class McpAuthenticateParams(Contract):
    """Sign in to a server with a `url`; an earlier sign-in is forgotten."""

    server: str


class McpAuthenticateResult(Contract):
    """Where the user signs in; the server's status becomes `running` once they have."""

    url: str | None = None
    """To open in a browser on the same machine. None when the server asked for no sign-in or could
    not be reached."""
    opened: bool = False
    """Whether the client was asked to open it (`window/showDocument`)."""
    servers: tuple[McpServerInfo, ...]
    """All servers, sorted by name."""
