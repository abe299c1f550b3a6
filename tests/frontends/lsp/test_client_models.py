"""Models that the client reaches for the daemon: offered, described, asked, and what goes wrong."""

from typing import Any

from world import World, items, wait_for_status

from oh_daemon.conformance.rpc_process import RpcError

Json = dict[str, Any]
OFFER = {"default": "far/one", "listed": [{"id": "far/one", "label": "One", "available": True}]}


def test_a_client_that_has_the_keys_answers_for_the_models(world: World) -> None:
    client = world.daemon(features={"modelRequests": True}, models=OFFER)
    requests: list[Json] = []

    def complete(params: Json) -> Json:
        requests.append(params)
        if len(requests) > 1:
            raise RpcError({"code": -31030, "message": "too fast", "data": {"retryable": True}})
        delta = {"channel": "text", "text": "Hel"}
        error = {"code": -31029, "message": "it broke", "data": {"retryable": True}}
        again = {"attempt": 2, "maxAttempts": 3, "delayS": 0.5, "error": error}
        client.notify("model/progress", {"callId": params["callId"], "delta": delta})
        client.notify("model/progress", {"callId": params["callId"], "retry": again})
        usage = {"inputTokens": 3, "outputTokens": 1, "requests": 1}
        return {"text": "Hello.", "finishReason": "stop", "usage": usage}

    client.answer("model/describe", lambda _params: {"contextWindow": 1000000})
    client.answer("model/complete", complete)
    models = client.request("model/list")
    assert (models["default"], [model["label"] for model in models["models"]]) == (
        "far/one",
        ["One"],
    )
    conversation = world.start(client, options={"model": "far/one"})
    assert world.turn(client)["finalText"] == "Hello."
    retry = client.wait_for_event("retry.scheduled")["event"]
    assert (retry["attempt"], retry["error"]["kind"]) == (2, "network")
    assert [item["text"] for item in items(client, "agentMessage")] == ["Hel", "Hello."]
    world.send(client, conversation, "more")
    # Attempts are the client's, so the daemon makes no other.
    assert wait_for_status(client, "paused")["event"]["reason"] == "rateLimit"
    assert [request["model"] for request in requests] == ["far/one", "far/one"]
    assert [m["role"] for m in requests[1]["messages"]][-3:] == ["user", "assistant", "user"]
    assert world.llm.requests == []
