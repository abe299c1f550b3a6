"""What providers and models refuse in a request, as rows of data with their source; pure.

All rows that fit a model hold together: `rules_for("mistral/devstral-latest", None)` has those of
Mistral. `request_healing` makes any conversation keep them; the log stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import reduce

from msgspec import Struct
from msgspec.structs import asdict, replace

_ANY = re.compile(r".*", re.DOTALL)
_NINE = re.compile(r"[A-Za-z0-9]{9}")


class Rules(Struct, frozen=True):
    """What is refused; the defaults refuse nothing."""

    alternates: bool = False
    """Two messages of the user in a row are refused."""
    bridges_results: bool = False
    """A message of the user right after a tool's result is refused."""
    takes_system: bool = True
    """Whether there may be a system prompt; otherwise the first message of the user has it."""
    takes_parallel_calls: bool = True
    """Whether an answer may have several calls; otherwise each is an answer with its result."""
    takes_text_with_calls: bool = True
    """Whether an answer may have text and calls; otherwise the text is left out."""
    names_results: bool = False
    """A result carries its tool's name, which is not part of OpenAI's format."""
    call_ids: re.Pattern[str] = re.compile(r"[A-Za-z0-9_-]{1,64}")
    """The ids of tool calls that are accepted, whichever model made them."""
    needs_signatures: bool = False
    """A call without the model's own signature is refused, also one that another model made."""
    takes_root_unions: bool = True
    """Whether `anyOf`, `oneOf`, `allOf`, `not` and `enum` may be at the top of a tool's schema."""
    max_images: int | None = None
    """Most images in a request."""
    max_side: int | None = None
    """Most pixels of an image's longer side."""
    max_image_bytes: int | None = None
    """Most bytes of an image in base64."""
    max_tools: int | None = None
    """Most tools in a request."""
    property_keys: re.Pattern[str] = _ANY
    """The names that the arguments of a tool may have."""
    tool_names: re.Pattern[str] = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Row(Struct, frozen=True):
    """Rules, whom they are for, and where that is said."""

    models: str
    """A pattern that the model's name has, with its provider in front."""
    rules: Rules
    source: str


ROWS: Sequence[Row] = (
    Row(
        r"^anthropic/|claude",
        Rules(
            max_images=100,
            max_side=2000,
            max_image_bytes=5 << 20,
            takes_root_unions=False,
            property_keys=re.compile(r"[a-zA-Z0-9_.-]{1,64}"),
        ),
        "platform.claude.com, Vision, general limits (2026-11-28): 2,000 pixels beside 20 others;"
        " github.com/decocms/studio/pull/6874 (2026-09-02): property keys",
    ),
    Row(
        r"^(?:openai|azure|github_copilot)/",
        Rules(max_tools=128, max_images=500),
        "github.com/zed-industries/zed/issues/42393 (2025-11-10): array_above_max_length",
    ),
    Row(
        r"mistral|mixtral|ministral|devstral|codestral|magistral|pixtral",
        Rules(alternates=True, bridges_results=True, call_ids=_NINE),
        "github.com/mistralai/mistral-vibe/issues/578 (2026-04-09): invalid_request_message_order;"
        " github.com/aaif-goose/goose/issues/5998 (2025-12-05)",
    ),
    Row(
        r"mistral-(?:7b|nemo|large(?:-instruct)?-2407)|mixtral|codestral-(?:22b|2405)"
        r"|ministral-8b|pixtral-12b",
        Rules(takes_text_with_calls=False),
        "mistral-common 1.13.1 (2026-11), InstructTokenizerV2 and V3, by which vLLM reads models of"
        " these versions: Cannot have tool calls and content defined in the same assistant message",
    ),
    Row(
        r"gemma",
        Rules(alternates=True),
        "github.com/google/adk-python/issues/1373 (2025-06-13): roles must alternate, in vLLM",
    ),
    Row(
        r"gemma-?(?:2|1\.1)\b|codegemma",
        Rules(takes_system=False),
        "huggingface.co/google/gemma-2-2b-it, its chat template (2024-07): System role not"
        " supported",
    ),
    Row(
        r"llama-?3[.-]?[123]",
        Rules(takes_parallel_calls=False),
        "huggingface.co/meta-llama/Llama-3.1-8B-Instruct, its chat template (2024-07): This model"
        " only supports single tool-calls at once!",
    ),
    Row(
        r"^(?:hosted_vllm|llamafile|lm_studio|ollama|ollama_chat)/",
        Rules(alternates=True, names_results=True),
        "github.com/nextai-translator/raycast-openai-translator/issues/34 (2026-02-19): llama.cpp"
        " runs the model's own template, whichever it is; that of google/functiongemma-270m-it"
        " (2025-12) reads the name of a result",
    ),
    Row(
        r"gemini",
        Rules(call_ids=_ANY),
        "litellm 1.106.2 (2026-11) keeps Gemini's signatures in the ids of calls",
    ),
    Row(
        r"^gemini/gemini-(?:[3-9]|\d\d)|^gemini/.*-latest",
        Rules(needs_signatures=True),
        "ai.google.dev/gemini-api/docs/thought-signatures (2026-11-28); vercel/ai,"
        " @ai-sdk/google 3.0.80",
    ),
)


def rules_for(model: str, provider: str | None) -> Rules:
    """Return what holds for a model; `provider` is one that its name does not have in front."""
    name = f"{provider}/{model}".lower() if provider else model.lower()
    return reduce(_both, (row.rules for row in ROWS if re.search(row.models, name)), Rules())


_FREE = asdict(Rules())
_TEMPLATES = Rules(
    alternates=True,
    bridges_results=True,
    takes_system=False,
    takes_parallel_calls=False,
    takes_text_with_calls=False,
    call_ids=_NINE,
)
"""All that the chat template of any model may refuse in an order of messages."""


def strict_rules(rules: Rules) -> Rules:
    """Return the rules with all that a template may refuse, for a model of unknown name."""
    return _both(rules, _TEMPLATES)


def _both(one: Rules, other: Rules) -> Rules:
    """Return what holds when both do: all that is refused, and the smaller of two limits."""
    before = asdict(one)
    changes = {
        name: value
        for name, value in asdict(other).items()
        if value != _FREE[name]
        and (before[name] == _FREE[name] or (isinstance(value, int) and value < before[name]))
    }
    return replace(one, **changes)
