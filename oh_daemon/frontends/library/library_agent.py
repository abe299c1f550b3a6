"""How a program describes an agent: `LLM`, `Tool` and `Agent`, frozen values that dump to JSON.

The JSON holds neither keys nor functions. Whoever loads it passes the keys again, and the functions
by their names.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from inspect import getdoc, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, cast

import orjson
from pydantic import (
    AfterValidator,
    AliasChoices,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    PydanticUserError,
    TypeAdapter,
    ValidationInfo,
    model_validator,
    validate_call,
)
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import to_json

from oh_daemon.common.cancel import CancelToken
from oh_daemon.conversations.conversation_runtime import BuiltinName, render_tool_info
from oh_daemon.features.approval.rules import check_rules
from oh_daemon.features.models.logins import Logins
from oh_daemon.features.models.models import Models, provider_name
from oh_daemon.features.settings.places import Places
from oh_daemon.features.settings.sources import SettingsSources
from oh_daemon.frontends.library.callbacks import require_sync
from oh_daemon.kernel.function_tool import FunctionTool
from oh_daemon.kernel.ports import Json, Model, ModelAnswer, ModelRequest, Progress, ToolSpec
from oh_daemon.kernel.tool_calls import render_function, schema_flaw
from oh_daemon.protocol.base import Contract
from oh_daemon.protocol.errors import AuthRequiredError
from oh_daemon.protocol.llm import LLMSettings
from oh_daemon.protocol.mcp import McpServerSettings
from oh_daemon.protocol.problems import render_problem
from oh_daemon.protocol.profiles import Router
from oh_daemon.protocol.settings import Condenser, Layer, Settings, merge_settings
from oh_daemon.system.environment import clean_env

_MORE = (
    *("mode", "rules", "hooks", "titles", "logCompletions", "hosts", "sandboxReads"),
    *("maxCostUsdPerConversation", "maxMinutes"),
)

_OF_USER = {"rules", "hooks", "hosts", "sandbox_reads"}
"""The settings of the user that an agent of theirs has in a program, too."""


class _LLMInit(LLMSettings):
    if TYPE_CHECKING:
        # Editors show the docstring of an inherited `__init__` for a call, and pydantic's says
        # nothing of the class. The signature is that of the fields.
        def __init__(self, **fields: Any) -> None:
            """Describe a model and how to reach it.

            Without `api_key` no key is sent: the providers' environment variables are not read
            here. Bedrock, SageMaker and Vertex use the machine's own credentials, as their clients
            always do. `LLM.from_login()` returns the model of `oh-daemon login`.

                LLM(model="anthropic/claude-sonnet-5-5", api_key=os.environ["ANTHROPIC_API_KEY"])
            """


class LLM(_LLMInit):
    """A model and how to reach it. Frozen; its JSON leaves out the key."""

    @classmethod
    def from_login(cls, model: str = "", **settings: Any) -> LLM:
        """Return a model, by default the user's own, with the key of `oh-daemon login`.

        Raises `AuthRequiredError` when there is none for it.
        """
        logins = Logins(Places(os.environ).logins_file)
        # Variables with another address count, since they would take the key there; keys do not.
        models = Models(Settings, clean_env(os.environ), logins=logins)
        llm = models.llm_of(model or models.require_default())
        login = logins.all().get(provider_name(llm))
        if login is None or (login.has_key, login.base_url) != (bool(llm.key), llm.base_url):
            raise AuthRequiredError(f"no login is for {llm.model!r}; run `oh-daemon login`")
        own = {"model": llm.model, "api_key": llm.api_key, "base_url": llm.base_url}
        return cls.model_validate({**own, **settings})

    def complete(
        self,
        messages: Sequence[Json],
        tools: Sequence[Tool | Json] = (),
        tool_choice: Literal["auto", "required", "none"] = "auto",
    ) -> Json:
        """Ask once, outside any conversation, and wait; tools are offered, never called.

        Messages, tools that are dicts, and the answer (`choices` and `usage`) have the form of
        OpenAI's chat completions, whatever the provider. Raises `ModelError`.
        """
        model = Models(Settings, {}, own={self.model: self}).model_for(self.model)
        schemas = [tool.to_openai() if isinstance(tool, Tool) else tool for tool in tools]
        request = ModelRequest(messages=list(messages), tools=schemas, tool_choice=tool_choice)
        return _as_completion(model.complete(request, Progress(CancelToken())))


def _as_completion(answer: ModelAnswer) -> Json:
    message: Json = {"role": "assistant", "content": answer.text or None}
    if answer.tool_calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in answer.tool_calls
        ]
    n_in, n_out = answer.usage.input_tokens, answer.usage.output_tokens
    usage = {"prompt_tokens": n_in, "completion_tokens": n_out, "total_tokens": n_in + n_out}
    choice = {"index": 0, "message": message, "finish_reason": answer.finish_reason}
    return {"choices": [choice], "usage": usage}


def _find_callback(value: object, info: ValidationInfo) -> Callable[..., object]:
    if callable(value):
        return require_sync(value)
    context = cast("dict[str, Any]", info.context or {})
    callbacks: Mapping[str, Callable[..., object]] = context.get("callbacks", {})
    if isinstance(value, str) and value in callbacks:
        return callbacks[value]
    raise ValueError(f"no callback {value!r}; pass it in `callbacks` when loading from JSON")


Callback = Annotated[
    Callable[..., object],
    PlainValidator(_find_callback),
    PlainSerializer(lambda function: function.__name__, return_type=str),
]


def _find_model(value: object, info: ValidationInfo) -> LLM | Model:
    """Return an `LLM`, or a model of the program's own, which JSON has by its name."""
    context = cast("dict[str, Any]", info.context or {})
    own: Mapping[str, object] = context.get("callbacks", {})
    model = own.get(value) if isinstance(value, str) else value
    if isinstance(value, str) and model is None:
        raise ValueError(f"no model {value!r}; pass it in `callbacks` when loading from JSON")
    is_own = not isinstance(model, type) and callable(getattr(model, "complete", None))
    return cast("Model", model) if is_own else LLM.model_validate(model)


OwnModel = Annotated[
    LLM | Model,
    PlainValidator(_find_model),
    PlainSerializer(lambda model: model if isinstance(model, LLM) else model.name),
]


class _Loadable(Contract):
    """A value with callbacks, of which its JSON holds only the names.

    Unknown fields are refused: a misspelled `approval` would otherwise mean the default.
    """

    model_config = ConfigDict(extra="forbid")

    @classmethod
    def from_json(cls, text: str, callbacks: Mapping[str, Callable[..., object] | Model]) -> Self:
        """Load the output of `model_dump_json`; `callbacks` maps names to functions.

        Raises pydantic's `ValidationError`, which is a `ValueError`.
        """
        return cls.model_validate_json(text, context={"callbacks": callbacks})


def _check_schema(schema: dict[str, Any]) -> dict[str, Any]:
    if flaw := schema_flaw(schema):
        raise ValueError(f"it is not a JSON Schema: {flaw}")
    return schema


class Tool(_Loadable):
    """A plain function that the model may call; it gets its arguments as keywords.

    With a schema that is of no object, it gets the one value, whatever its argument is called.

    `Tool.from_function` makes one of a function with type hints and a docstring.

    It may return text, any JSON value, a `ToolResult`, or a dict in MCP's form. An exception that
    it raises is reported to the model. It runs on threads of the conversation; calls may overlap
    if it is `read_only`, and those of sub-agents always.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    description: str
    input_schema: Annotated[
        dict[str, Any],
        Field(validation_alias=AliasChoices("input_schema", "inputSchema")),
        AfterValidator(_check_schema),
    ] = Field(default_factory=lambda: {"type": "object", "properties": {}})
    """JSON Schema of the arguments. A schema that is not of an object becomes that of the only
    argument, `value`."""
    callback: Callback
    read_only: bool = False
    """The tool changes nothing: its calls are of low risk rather than medium, run in mode `plan`
    too, and may run beside other calls."""

    from_hints: bool = False
    """The schema was made from the function's type hints, so arguments are converted to them."""

    @classmethod
    def from_function(
        cls,
        function: Callable[..., object],
        *,
        name: str | None = None,
        description: str | None = None,
        read_only: bool = False,
    ) -> Self:
        """Make a tool of a function: its name, its docstring, a schema of its type hints.

        Raises `ValueError` when one of them is missing or cannot be used.
        """
        text = description or getdoc(function)
        if not text:
            raise ValueError(f"{function!r} needs a docstring or a `description`")
        return cls(
            name=name or function.__name__,
            description=text,
            input_schema=_schema_of(require_sync(function)),
            callback=function,
            read_only=read_only,
            from_hints=True,
        )

    def to_openai(self) -> Json:
        """Return the tool in the form of OpenAI's chat completions, as for `LLM.complete`."""
        return render_function(self._spec())

    def to_mcp(self) -> Json:
        """Return the tool as an MCP server lists it."""
        return render_tool_info(self._spec())

    def bound(self) -> FunctionTool:
        """Return the tool in the form that the agent's core uses."""
        call = validate_call(self.callback) if self.from_hints else self.callback
        if self.input_schema.get("type") != "object" and not _takes_value(call):
            return FunctionTool(self._spec(), _by_position(self.callback))
        return FunctionTool(self._spec(), call)

    def _spec(self) -> ToolSpec:
        schema = self.input_schema
        if schema.get("type") != "object":
            schema = {"type": "object", "properties": {"value": schema}, "required": ["value"]}
        return ToolSpec(self.name, self.description, schema, read_only=self.read_only)


def _by_position(function: Callable[..., object]) -> Callable[..., object]:
    def call(value: object) -> object:
        return function(value)

    return call


def _takes_value(function: Callable[..., object]) -> bool:
    """Return whether the argument of a schema that is of no object can be passed by its name."""
    try:
        signature(function).bind(value=None)
    except (TypeError, ValueError):
        return False
    return True


class _Untitled(GenerateJsonSchema):
    """Leaves out titles that only repeat the names of arguments."""

    def field_title_should_be_set(self, schema: object) -> bool:  # noqa: ARG002 - pydantic's shape.
        return False


def _schema_of(function: Any) -> dict[str, Any]:
    try:
        schema = TypeAdapter(function).json_schema(schema_generator=_Untitled)
    except (PydanticUserError, NameError) as exc:
        problem = str(exc).partition("\n")[0]
        raise ValueError(f"{function!r} has a type hint without a JSON Schema: {problem}") from exc
    if schema.get("type") != "object":
        raise ValueError(f"{function!r} takes arguments without names; tools are called by name")
    return schema


def _check_settings(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Raises `ValueError` for a setting without effect: here nobody reads a list of problems."""
    if unknown_settings := [name for name in settings if name not in _MORE]:
        raise ValueError(f"{unknown_settings[0]!r} is none of {', '.join(_MORE)}")
    merged_settings = merge_settings([Layer("user", settings)])
    if problems := (*merged_settings.problems, *check_rules(merged_settings.settings.rules)[1]):
        raise ValueError("; ".join(map(render_problem, problems)))
    return settings


class _AgentInit(_Loadable):
    if TYPE_CHECKING:
        # As in `_LLMInit`.
        def __init__(self, **fields: Any) -> None:
            """Describe an agent: its model, tools, instructions and policy.

                Agent(llm=LLM(model="anthropic/claude-sonnet-5-5"), approval="askRisky")

            Raises pydantic's `ValidationError`, which is a `ValueError`.
            """


class Agent(_AgentInit):
    """Who answers: its model, tools, instructions and policy. Frozen; the same after JSON."""

    llm: OwnModel
    """An `LLM`, or a `Model` of your own: whatever has its attributes and its `complete`."""
    models: Mapping[str, LLM | Router] = Field(default_factory=dict[str, Any])
    """More models under names of your own, for single messages, `set_option` and `fallbacks`. A
    `Router` chooses one of the models for each request."""
    fallbacks: tuple[str, ...] = ()
    """Names of `models`, tried in this order when `llm` does not answer."""
    tools: tuple[Tool | BuiltinName, ...] = ()
    """Tools of your own, and names of built-in ones. Without any such name all built-in tools are
    offered, otherwise only those that are named."""
    system_prompt: str = ""
    """Text in place of the packaged system prompt. What is particular to the conversation, such as
    its folder and `AGENTS.md`, follows it all the same."""
    instructions: str = ""
    """Text that is added to the system prompt."""
    approval: Literal["askAlways", "askRisky", "askNever"] = "askNever"
    """With `askNever`, an action in a protected place is refused instead of asked about."""
    risk_analyzer: Callback | None = None
    """Called with a tool's `ToolSpec` and an `Intent`; returns low, medium or high in place of the
    built-in rating. An exception counts as high."""
    approval_policy: Callback | None = None
    """Called with the same arguments; returns allow, ask or reject, or None to leave the decision
    to `approval`. After an exception, the user is asked."""
    max_steps: Annotated[int, Field(ge=1)] = 100
    max_cost_usd: Annotated[float, Field(gt=0)] | None = None
    tool_choice: Literal["auto", "required"] = "auto"
    """`required` applies only to the first request of each turn."""
    result_schema: dict[str, Any] | None = None
    """JSON Schema of the value that `finish` must give beside its message; the turn's `result`."""
    mcp_servers: Mapping[str, McpServerSettings] = Field(default_factory=dict[str, Any])
    """As in the setting `mcpServers`. Their tools are offered regardless of `tools`."""
    mcp_tokens: Path | None = None
    """A folder, readable by its owner only, for the tokens that `Conversation.sign_in` brings. With
    None, they end with the conversation."""
    condenser: Condenser = "pipeline"
    """What to do when the conversation fills the model's window: see the setting `condenser`."""
    memory: Path | None = None
    """A folder for the user's notes, which outlive a conversation; the notes of a project are kept
    beside its logs. With None, no notes are read or written."""
    settings: Annotated[Mapping[str, Any], AfterValidator(_check_settings)] = Field(
        default_factory=dict[str, Any]
    )
    """Other settings by name: `mode`, `rules`, `hooks`, `titles` (off unless given),
    `logCompletions`, `hosts`, `sandboxReads`, `maxCostUsdPerConversation`, `maxMinutes`."""

    @property
    def main_model(self) -> str:
        """The name of `llm`."""
        return self.llm.model if isinstance(self.llm, LLM) else self.llm.name

    @classmethod
    def from_user(cls, model: str = "", **fields: Any) -> Agent:
        """Return the agent that `oh-daemon run` has in any folder, by default with its model.

        That is: the key, rules, hooks, hosts, MCP servers and instructions of the user's settings,
        variables and login. Raises `ModelError` when no model is known, or not this one, and
        `InvalidParamsError` when a limit of cost would not hold for lack of a price.
        """
        places = Places(os.environ)
        settings = SettingsSources(os.environ, places.settings_file).merged().settings
        models = Models(lambda: settings, os.environ, logins=Logins(places.logins_file))
        name = model or models.require_default()
        models.check(name)
        of_user = orjson.loads(to_json(settings, include=_OF_USER, exclude_none=True))
        more = {**of_user, **fields.pop("settings", {})}
        own = {"instructions": settings.instructions, "mcp_servers": settings.mcp_servers}
        if fields.get("max_cost_usd") or more.get("maxCostUsdPerConversation"):
            models.require_price(name)
        llm = LLM.model_validate(dict(models.llm_of(name)))
        return cls.model_validate({"llm": llm, "settings": more, **own, **fields})

    @model_validator(mode="after")
    def _check_tools(self) -> Self:
        counts = Counter(tool.name for tool in self.tools if isinstance(tool, Tool))
        if twice := [name for name, count in counts.items() if count > 1]:
            raise ValueError(f"tools: more than one has the name {twice[0]!r}")
        return self

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        """Check that every model exists that `fallbacks` and routers name."""
        main = self.main_model
        if main in self.models:
            raise ValueError(f"models: {main!r} is the name of `llm`; choose another")
        routers = [router for router in self.models.values() if isinstance(router, Router)]
        names = {*self.fallbacks, *(name for router in routers for name in router.names)}
        if unknown := sorted(names - {main, *self.models}):
            raise ValueError(f"{unknown[0]!r} is the name of none of `models`, nor of `llm`")
        return self
