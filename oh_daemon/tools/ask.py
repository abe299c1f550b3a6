"""`ask`: a question to the user. It ends the turn when nobody is there to answer."""

from __future__ import annotations

from oh_daemon.contract.approvals import ToolSubject
from oh_daemon.core.ports import Intent, Json, Question, ToolContext, ToolResult, ToolSpec

_TITLE_CHARS = 80


class AskTool:
    """The answer is its observation; calls after it in the same model answer wait for that."""

    spec = ToolSpec(
        name="ask",
        description=(
            "Ask the user one question and wait for the answer. Only when you are truly blocked or "
            "the task has two readings that differ in what gets built. Propose choices where you "
            "can; the user may also answer in their own words, or not at all: then decide yourself "
            "and say what you decided."
        ),
        input_schema={
            "type": "object",
            "properties": {
                "question": {"type": "string", "minLength": 1, "maxLength": 4000},
                "choices": {
                    "type": "array",
                    "items": {"type": "string", "minLength": 1, "maxLength": 200},
                    "minItems": 2,
                    "maxItems": 10,
                    "uniqueItems": True,
                },
            },
            "required": ["question"],
            "additionalProperties": False,
        },
        read_only=True,
    )

    def plan(self, args: Json) -> Intent:
        first = args["question"].strip().partition("\n")[0]
        title = first if len(first) <= _TITLE_CHARS else f"{first[: _TITLE_CHARS - 1]}…"
        question = Question(args["question"], tuple(args.get("choices", ())))
        # Its footprint is everything: what comes after a question may depend on the answer.
        return Intent(f"Ask: {title}", ToolSubject(tool="ask", args=args), "low", question=question)

    def run(self, args: Json, context: ToolContext) -> ToolResult:  # noqa: ARG002 - the port's shape.
        """Nobody can answer: the question is the agent's last word, to be answered by a message."""
        content = {"type": "text", "text": question_text(args)}
        return ToolResult((content,), ends_turn="needsInput")


def question_text(args: Json) -> str:
    """The question with its choices, as Markdown."""
    return "\n".join((args["question"], *(f"- {choice}" for choice in args.get("choices", ()))))
