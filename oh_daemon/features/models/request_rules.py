"""What providers and models refuse in a request, as rows of data with their source; pure.

All rows that fit a model hold together: `rules_for("mistral/devstral-latest", None)` has those of
Mistral. `request_healing` makes any conversation keep them; the log stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

_ANY = re.compile(r".*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Rules:
    """What is refused; the defaults refuse nothing."""

    alternates: bool = False
    """Two messages of the user in a row are refused."""
    bridges_results: bool = False
    """A message of the user right after a tool's result is refused."""
    needs_signatures: bool = False
    """A call without the model's own signature is refused, also one that another model made."""
    takes_root_unions: bool = True
    """Whether `anyOf`, `oneOf`, `allOf`, `not` and `enum` may be at the top of a tool's schema."""
    max_images: int | None = None
    """Most images in a request."""
    max_side: int | None = None
    """Most pixels of an image's longer side."""
    many_images: int | None = None
    """With more images than this, `many_side` holds instead."""
    many_side: int | None = None
    max_tools: int | None = None
    """Most tools in a request."""
    property_keys: re.Pattern[str] = _ANY
    """The names that the arguments of a tool may have."""
    tool_names: re.Pattern[str] = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class Row:
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
            max_side=8000,
            many_images=20,
            many_side=2000,
            takes_root_unions=False,
            property_keys=re.compile(r"[a-zA-Z0-9_.-]{1,64}"),
        ),
        "platform.claude.com, Vision, general limits (2026-11-28);"
        " github.com/decocms/studio/pull/6874 (2026-09-02): property keys",
    ),
    Row(
        r"^(?:openai|azure|github_copilot)/",
        Rules(max_tools=128, max_images=500),
        "github.com/zed-industries/zed/issues/42393 (2025-11-10): array_above_max_length",
    ),
    Row(
        r"mistral|mixtral|ministral|devstral|codestral|magistral|pixtral",
        Rules(alternates=True, bridges_results=True),
        "github.com/mistralai/mistral-vibe/issues/578 (2026-04-09): invalid_request_message_order;"
        " github.com/aaif-goose/goose/issues/5998 (2025-12-05)",
    ),
    Row(
        r"gemma",
        Rules(alternates=True),
        "github.com/google/adk-python/issues/1373 (2025-06-13): roles must alternate, in vLLM",
    ),
    Row(
        r"^(?:hosted_vllm|llamafile|lm_studio|ollama|ollama_chat)/",
        Rules(alternates=True),
        "github.com/nextai-translator/raycast-openai-translator/issues/34 (2026-02-19): llama.cpp"
        " runs the model's own template, whichever it is",
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


def _both(one: Rules, other: Rules) -> Rules:
    """Return what holds when both do: all that is refused, and the smaller of two limits."""
    has_keys = one.property_keys is not _ANY
    return Rules(
        alternates=one.alternates or other.alternates,
        bridges_results=one.bridges_results or other.bridges_results,
        needs_signatures=one.needs_signatures or other.needs_signatures,
        takes_root_unions=one.takes_root_unions and other.takes_root_unions,
        max_images=_smaller(one.max_images, other.max_images),
        max_side=_smaller(one.max_side, other.max_side),
        many_images=_smaller(one.many_images, other.many_images),
        many_side=_smaller(one.many_side, other.many_side),
        max_tools=_smaller(one.max_tools, other.max_tools),
        property_keys=one.property_keys if has_keys else other.property_keys,
        tool_names=one.tool_names,
    )


def _smaller(one: int | None, other: int | None) -> int | None:
    limits = [limit for limit in (one, other) if limit is not None]
    return min(limits, default=None)
