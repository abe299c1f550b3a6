"""`ask`: a question to the user. It ends the turn when no client can answer."""

from __future__ import annotations

from oh_daemon.core.plain_text import clipped, first_line
from oh_daemon.core.ports import (
    Footprint,
    Intent,
    Json,
    Question,
    ToolContext,
    ToolResult,
    ToolSpec,
)
from oh_daemon.tools.forms import harmless, takes

_TITLE_CHARS = 80


class AskTool:
    """The user's answer is the observation; later calls of the same model answer wait for it."""

    spec = ToolSpec(
        name="ask",
        description=(
            "Ask the user one question and wait for the answer. Only when you are truly blocked or "
            "the task has two readings that differ in what gets built. Propose choices where you "
            "can; the user may also answer in their own words, or not at all: then decide yourself "
            "and say what you decided."
        ),
        input_schema=takes(
            ["question"],
            question={"type": "string", "minLength": 1, "maxLength": 4000},
            choices={
                "type": "array",
                "items": {"type": "string", "minLength": 1, "maxLength": 200},
                "minItems": 2,
                "maxItems": 10,
                "uniqueItems": True,
            },
        ),
        read_only=True,
    )

    def plan(self, args: Json) -> Intent:
        title = f"Ask: {clipped(first_line(args['question']), _TITLE_CHARS)}"
        question = Question(args["question"], tuple(args.get("choices", ())))
        # Calls after a question may depend on the answer.
        return harmless("ask", args, title, footprint=Footprint(), question=question)

    def run(self, args: Json, context: ToolContext) -> ToolResult:  # noqa: ARG002 - the port's shape.
        """End the turn with the question, as no client can answer now; a message may answer it."""
        content = {"type": "text", "text": question_text(args)}
        return ToolResult((content,), ends_turn="needsInput")


def question_text(args: Json) -> str:
    """Return the question with its choices, as Markdown."""
    return "\n".join((args["question"], *(f"- {choice}" for choice in args.get("choices", ()))))
