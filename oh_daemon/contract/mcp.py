"""MCP servers: how the user names one, how it stands, and the methods about them."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from oh_daemon.contract.base import Contract


class McpServerSettings(Contract):
    """One server: a `command` to start, or the `url` of one that runs."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    command: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = Field(default_factory=dict)
    """More variables for the command; `${NAME}` stands for a variable or a lent secret, here and
    in `args` and `headers`."""
    url: Annotated[str, Field(pattern=r"^https?://\S+$")] | None = None
    headers: dict[str, str] = Field(default_factory=dict)
    transport: Literal["http", "sse"] = "http"
    """What `url` speaks: streamable HTTP, or the older server-sent events."""
    enabled: bool = True
    allow: tuple[str, ...] | None = None
    """Only these of its tools."""
    deny: tuple[str, ...] = ()
    """Not these of its tools."""
    start_timeout_s: Annotated[float, Field(gt=0, le=3_600)] = 60
    """Until it lists its tools; a conversation waits 10 s for it and gets them when they come."""
    timeout_s: Annotated[float, Field(gt=0, le=86_400)] = 600
    """For one call."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("give either `command` or `url`")
        return self


McpStatus = Literal["disabled", "starting", "running", "authRequired", "failed"]


class McpServerInfo(Contract):
    """One server as it stands."""

    name: str
    status: McpStatus
    """`authRequired`: it wants the user to sign in, see `mcp/authenticate`."""
    tools: tuple[str, ...] = ()
    """As the model calls them."""
    left_out: tuple[str, ...] = ()
    """Tools that are not offered, each with the reason."""
    error: str | None = None


class McpListParams(Contract):
    """MCP servers of the settings: how each stands and what it offers."""


class McpServers(Contract):
    """All of them, by name."""

    servers: tuple[McpServerInfo, ...]


class McpSetEnabledParams(Contract):
    """Start a server or end it; the settings stay as they are."""

    server: str
    enabled: bool


class McpRestartParams(Contract):
    """Start a server anew, and take its tools as they are now."""

    server: str


class McpAuthenticateParams(Contract):
    """Sign in to a server with a `url`; who was signed in before is forgotten."""

    server: str


class McpAuthenticateResult(Contract):
    """Where the user signs in; the server comes to `running` once they have."""

    url: str | None = None
    """Open it in a browser of the same machine. None when the server asks for nothing."""
    opened: bool = False
    """Whether the client was asked to open it (`window/showDocument`)."""
    servers: tuple[McpServerInfo, ...]
