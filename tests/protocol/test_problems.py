"""A value that does not fit the contract is described by its field and by what would fit."""

from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, ValidationError, field_validator

from oh_daemon.protocol.base import Contract, problem_in
from oh_daemon.protocol.messages import SendMessageParams


class Thing(Contract):
    name: Annotated[str, Field(min_length=2, max_length=3)]
    size: Annotated[int, Field(ge=1, le=10)] = 1
    share: Annotated[float, Field(gt=0, lt=1)] = 0.5
    color: Literal["red", "blue"] = "red"
    is_old: bool = False
    parts: Annotated[tuple[str, ...], Field(min_length=1, max_length=2)] = ("a",)
    more: dict[str, str] | None = None
    below: "Thing | None" = None

    @field_validator("name")
    @classmethod
    def _check_known(cls, name: str) -> str:
        if name == "bad":
            raise ValueError("is a bad name; take another one")
        return name


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({}, "name: is missing"),
        ({"name": 1}, "name: must be a string"),
        ({"name": "x"}, "name: must have 2 or more characters"),
        ({"name": "long"}, "name: may have 3 characters at most"),
        ({"name": "bad"}, "name: is a bad name; take another one"),
        ({"size": "many"}, "size: must be a whole number"),
        ({"size": 1.5}, "size: must be a whole number"),
        ({"size": []}, "size: must be a whole number"),
        ({"size": 0}, "size: must be 1 or more"),
        ({"size": 11}, "size: must be 10 or less"),
        ({"share": 0}, "share: must be more than 0"),
        ({"share": 1}, "share: must be less than 1"),
        ({"share": "half"}, "share: must be a number"),
        ({"color": "green"}, "color: must be 'red' or 'blue'"),
        ({"isOld": "perhaps"}, "isOld: must be true or false"),
        ({"parts": []}, "parts: must have 1 or more elements"),
        ({"parts": ["a", "b", "c"]}, "parts: may have 2 elements at most"),
        ({"parts": "a"}, "parts: must be a list"),
        ({"more": 1}, "more: must be an object"),
        ({"below": 1}, "below: must be an object"),
    ],
)
def test_a_wrong_value_is_described_by_what_would_fit(value: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as error_info:
        Thing.model_validate(value if not value or "name" in value else {"name": "ok", **value})
    assert problem_in(error_info.value) == message


@pytest.mark.parametrize(
    ("part", "actual_message"),
    [
        ({"type": "sk-secret"}, "must have one of these as 'type': 'text', 'image'"),
        ({"text": "hello"}, "must have a field 'type'"),
    ],
)
def test_a_part_of_unknown_type_is_not_quoted(part: dict[str, str], actual_message: str) -> None:
    message = {"conversationId": "c", "clientRequestId": "r", "content": [part]}
    with pytest.raises(ValidationError) as error_info:
        SendMessageParams.model_validate(message)
    assert problem_in(error_info.value).startswith(f"content.0: {actual_message}")
    assert "sk-secret" not in problem_in(error_info.value)
