"""docs/protocol and docs/schema.json say everything, once, and agree with the core."""

import json
import re
from collections import Counter
from functools import cache
from itertools import product
from typing import Any, get_args

import jsonschema
from places import REPO

from oh_daemon.conformance.ordering import TRANSITIONS
from oh_daemon.protocol import methods as protocol
from oh_daemon.protocol.connection import Features
from oh_daemon.protocol.status import ConversationState, PauseReason
from oh_schema.field_tables import ELSEWHERE

ROOT = REPO
CHAPTERS = {page.name: page.read_text("utf-8") for page in ROOT.glob("docs/protocol/*.md")}
Json = dict[str, Any]


@cache
def _schema() -> Json:
    return json.loads((ROOT / "docs/schema.json").read_text("utf-8"))


def test_the_json_schema_is_one_and_describes_every_field_of_every_type() -> None:
    schema = _schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"].endswith("/docs/schema.json")
    assert {"ClientBlock", "ServerBlock", "ErrorData"} <= schema["$defs"].keys()
    bare = [
        f"{name}.{field}: write a string under it in oh_daemon/protocol"
        for name, definition in schema["$defs"].items()
        for field, field_doc in definition.get("properties", {}).items()
        if not field_doc.get("description")
    ]
    assert bare == []


def test_the_features_of_the_block_are_those_that_initialize_reads() -> None:
    assert tuple(field.alias for field in Features.model_fields.values()) == protocol.FEATURES


def test_every_method_and_type_has_its_fields_in_one_chapter() -> None:
    marks = Counter(
        mark
        for page in CHAPTERS.values()
        for mark in re.findall(r"<!-- generated: ((?:method|type)s? ?.*?) -->", page)
    )
    marks_expected = [f"method {method.name}" for method in protocol.METHODS]
    marks_expected += [f"type {name}" for name in ELSEWHERE]
    assert marks == Counter([*marks_expected, "types"])


def test_a_rule_is_one_row_under_an_id_of_its_own() -> None:
    ids = [rule for page in CHAPTERS.values() for rule, _ in _rules(page)]
    assert len(ids) > 100
    assert [rule for rule, n in Counter(ids).items() if n > 1] == []
    letters = re.findall(r"^\| ([A-Z, ]+) \| \[", CHAPTERS["README.md"], re.MULTILINE)
    letters += re.findall(r"rules ([A-Z])\b", CHAPTERS["README.md"])
    assert {rule[0] for rule in ids} == set(re.findall(r"[A-Z]", "".join(letters)))
    rule_ids = set(re.findall(r"\(([A-Z]\d+)\)", "\n".join(CHAPTERS.values())))
    assert rule_ids - set(ids) == set()


def _rules(page: str) -> list[tuple[str, str]]:
    return re.findall(r"^\| ([A-Z]\d+) \| (.+) \|$", page, re.MULTILINE)


# The statuses of a conversation


def _changes() -> dict[tuple[str, str], set[str | None]]:
    """Return the reasons with which the table allows each change of the status."""
    table = CHAPTERS["conversations.md"].partition("| from | to | reason | by |\n")[2]
    transitions: dict[tuple[str, str], set[str | None]] = {}
    for row in table.partition("\n\n")[0].splitlines()[1:]:
        names = [re.findall(r"`(\w+)`", cell) for cell in row.split("|")[1:4]]
        for change in product(names[0], names[1]):
            transitions.setdefault(change, set()).update(names[2] or [None])
    return transitions


def test_the_table_of_statuses_has_all_of_them_and_all_reasons() -> None:
    transitions = _changes()
    statuses = {*get_args(ConversationState)} - {"closed"}
    assert {*transitions} == {(before, to) for before, after in TRANSITIONS.items() for to in after}
    assert {before for before, _ in transitions} == {after for _, after in transitions} == statuses
    reasons = {reason for reasons_of_change in transitions.values() for reason in reasons_of_change}
    assert reasons == {None, *get_args(PauseReason)}
    assert all(
        (after == "paused") == (None not in reasons_of_change)
        for (_, after), reasons_of_change in transitions.items()
    )


def test_the_golden_logs_change_the_status_as_the_table_allows() -> None:
    transitions, n_changes = _changes(), 0
    for log in sorted(ROOT.glob("tests/golden/v*/*.jsonl")):
        last = "idle"
        for line in log.read_text("utf-8").splitlines():
            event = json.loads(line).get("event", {})
            if event.get("type") == "status.changed":
                assert event["from"] == last
                assert event.get("reason") in transitions[event["from"], event["to"]]
                last, n_changes = event["to"], n_changes + 1
    assert n_changes > 10
