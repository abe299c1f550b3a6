"""What each side says it can do, limits, errors and extensions: rules I, L, E and X."""

from __future__ import annotations

from typing import Any

from oh_daemon.conformance.base_checks import UNKNOWN
from oh_daemon.conformance.bench import (
    FEATURES,
    Bench,
    Violation,
    block_of,
    checks,
    expect,
    limits_of,
    text,
)
from oh_daemon.conformance.rpc_process import Json, part

NO_METHOD = -32601
CORE_METHODS = {
    *("start", "open", "close", "list", "read", "events", "sendMessage", "pause", "resume"),
    *("interrupt", "setOption", "subscribe", "unsubscribe"),
}
CORE_NOTIFICATIONS = {f"conversation/{name}" for name in ("event", "delta", "changed", "gap")}
KINDS = {
    -31002: "conversationNotFound",
    -31003: "conversationBusy",
    -31005: "turnMismatch",
    -31006: "invalidState",
    -31013: "overloaded",
    -31014: "payloadTooLarge",
    -31016: "idempotencyConflict",
    -31021: "approvalNotFound",
    -31022: "unsupportedVersion",
    -31027: "approvalStale",
    -32002: "serverNotInitialized",
    -32600: "invalidRequest",
    -32601: "methodNotFound",
    -32602: "invalidParams",
    -32700: "parseError",
    -32800: "requestCancelled",
}
FIELD_CODES = {
    *("missing", "wrong_type", "unknown", "out_of_range", "wrong_size", "wrong_form"),
    *("not_a_folder", "not_a_path", "not_editable", "invalid_name", "invalid"),
}


def our_block(runtime: Bench) -> None:
    block = block_of(runtime.server)
    expect(block["protocolVersion"]["major"] == 1, "the major version is 1", block)
    expect(bool(block["methods"]) and bool(block["notifications"]), "both lists", block)


def other_versions(runtime: Bench) -> None:
    server = runtime.start()
    params = {"protocolVersion": {"major": 2, "minor": 0}}
    for place in (
        {"initializationOptions": {"ohDaemon": params}},
        {"capabilities": {"experimental": {"ohDaemon": params}}},
    ):
        error = server.expect_refusal(-31022, "initialize", place)
        majors = [each["major"] for each in error.data["supported"]]
        expect(1 in majors, "supported must name version 1", error.data)
    server.initialize(protocolVersion={"major": 1})


def core_methods(runtime: Bench) -> None:
    block = block_of(runtime.server)
    names = {f"conversation/{name}" for name in CORE_METHODS}
    names |= {"approval/list", "approval/respond", "input/respond"}
    missing_names = (names - {*block["methods"]}) | (CORE_NOTIFICATIONS - {*block["notifications"]})
    expect(not missing_names, f"the core has {sorted(missing_names)} too", block)
    for method in sorted(names):
        answer = runtime.server.answer_to(
            runtime.server.send_request(method, {"conversationId": "no"})
        )
        code = part(answer, "error").get("code")
        expect(code != NO_METHOD, f"{method} is listed and must be served", answer)


def understood(runtime: Bench) -> None:
    server = runtime.start()
    features = {**FEATURES, "noSuchFeature": True}
    server.initialize(features=features, settings={"noSuchSetting": 1})
    names = block_of(server)["understood"]
    expect("approvalRequests" in names["features"], "it uses approvalRequests", names)
    for name in ("features.noSuchFeature", "settings.noSuchSetting"):
        expect(name in names["unknown"], f"{name} is unknown", names)


WRONG_TYPES: dict[str, Json] = {
    "capabilities": {"capabilities": [1]},
    "processId": {"processId": "x"},
    "workspaceFolders": {"workspaceFolders": {}},
    "initializationOptions.ohDaemon": {"initializationOptions": {"ohDaemon": 5}},
    "initializationOptions.ohDaemon.protocolVersion.major": {
        "initializationOptions": {"ohDaemon": {"protocolVersion": {"major": "1"}}}
    },
}


def wrong_types(runtime: Bench) -> None:
    server = runtime.start()
    for path, params in WRONG_TYPES.items():
        error = server.expect_refusal(-32602, "initialize", params)
        expect(error.data["errors"][0]["path"] == path, f"the path is {path}", error.data)
    server.initialize()


def encodings(runtime: Bench) -> None:
    for offer, best in (
        ([], "utf-16"),
        (["utf-32", "utf-8"], "utf-32"),
        (["utf-7", 5, "utf-8", "utf-16"], "utf-8"),
    ):
        server = runtime.start()
        server.initialize(params={"capabilities": {"general": {"positionEncodings": offer}}})
        encoding = server.capabilities["positionEncoding"]
        expect(encoding == best, f"{encoding} for {offer}, not {best}")


def limits(runtime: Bench) -> None:
    block_limits = limits_of(runtime.server)
    for name in ("maxMessageBytes", "requestsInFlight", "textPartBytes", "queuedMessages"):
        expect(isinstance(block_limits.get(name), int), f"{name} is missing", block_limits)


def field_too_large(runtime: Bench) -> None:
    words = "x" * (limits_of(runtime.server)["textPartBytes"] + 1)
    runtime.server.expect_refusal(-32602, "conversation/start", {"content": text(words)})


def kinds_of_errors(runtime: Bench) -> None:
    for answer in _errors(runtime):
        error = answer["error"]
        kind = KINDS.get(error["code"])
        expect(error["data"]["kind"] == kind, f"the kind must be {kind}", answer)
        expect(len(error["message"].split()) > 1, "the message must be a sentence", answer)


def retryable(runtime: Bench) -> None:
    for answer in _errors(runtime):
        expect(isinstance(answer["error"]["data"].get("retryable"), bool), "it is not", answer)


def fields_of_errors(runtime: Bench) -> None:
    for path, params in (("limit", {"limit": "3"}), ("limit", {"limit": -1})):
        [error] = runtime.server.expect_refusal(-32602, "conversation/list", params).data["errors"]
        is_right = error["path"] == path and error["code"] in FIELD_CODES and error["message"]
        expect(is_right, f"requests was {params}", error)


def values_are_private(runtime: Bench) -> None:
    error = runtime.server.expect_refusal(-32602, "conversation/list", {"limit": "hunter2-hunter2"})
    expect("hunter2" not in str(error), "the value is in the error", str(error))


def meta(runtime: Bench) -> None:
    runtime.server.request("conversation/list", {"_meta": {"limit": "x"}, "limit": 1})
    runtime.start().initialize(_meta={"x": 1}, features={"_meta": {}})


def vendors(runtime: Bench) -> None:
    server = runtime.start()
    server.initialize(features={**FEATURES, "_acmeTicket": True}, settings={"_acme": 1}, _acme={})
    unknown = block_of(server)["understood"]["unknown"]
    expect(not unknown, f"these are no mistakes: {unknown}")
    server.expect_refusal(-32601, "_acme/ticket")


def unknown_values(runtime: Bench) -> None:
    params = {"conversationId": "no", "content": text("Hi"), "delivery": "someday"}
    error = runtime.server.expect_refusal(-32602, "conversation/sendMessage", params)
    codes = [each["code"] for each in error.data["errors"]]
    expect(codes == ["unknown"], f"the codes are {codes}", error.data)
    runtime.start().initialize(client={"kind": "someday"})


def _errors(runtime: Bench) -> list[Json]:
    """Return answers that are errors, of several kinds."""
    server = runtime.server
    requests: list[tuple[str, Any]] = [
        (UNKNOWN, {}),
        ("conversation/list", {"limit": "3"}),
        ("initialize", {}),
        ("conversation/sendMessage", {"conversationId": "no", "content": text("Hi")}),
        ("approval/respond", {"approvalId": "no", "digest": "x", "optionId": "allow-once"}),
    ]
    answers = [server.answer_to(server.send_request(*each)) for each in requests]
    for answer in answers:
        if "error" not in answer:
            raise Violation("this must be an error", answer)
    return answers


INITIALIZE = checks(
    "core",
    {
        "I2": our_block,
        "I3": other_versions,
        "I4": core_methods,
        "I6": understood,
        "I7": wrong_types,
        "I8": encodings,
        "L1": limits,
        "L6": field_too_large,
        "E1": kinds_of_errors,
        "E2": retryable,
        "E3": fields_of_errors,
        "E4": values_are_private,
        "X1": meta,
        "X3": vendors,
        "X9": unknown_values,
    },
)
