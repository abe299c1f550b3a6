"""A client that comes to all that the suite for clients looks at, and keeps its rules."""

import subprocess
from pathlib import Path

from oh_daemon.conformance.connection import ServerConnection
from oh_daemon.conformance.rpc_process import Json, NoAnswer

pipe = subprocess.PIPE
process = subprocess.Popen(["oh-daemon", "--stdio"], stdin=pipe, stdout=pipe, stderr=pipe)
server = ServerConnection(process)
document: Json = {"uri": (Path.cwd() / "a.py").as_uri(), "version": 1}


def apply(params: Json) -> Json:
    [change] = params["edit"]["documentChanges"]
    if change["textDocument"]["version"] != document["version"]:
        return {"applied": False, "failureReason": "stale"}
    document["version"] += 1
    edits = [{"range": each["range"], "text": each["newText"]} for each in change["edits"]]
    server.notify("textDocument/didChange", {"textDocument": document, "contentChanges": edits})
    return {"applied": True}


def approve(params: Json) -> Json:
    option = {"optionId": params["options"][0]["id"]}
    answer = {"approvalId": params["id"], "digest": params["digest"], **option}
    server.send_request("approval/respond", answer)
    raise NoAnswer


server.answer("editor/applyEdit", apply)
server.answer("approval/request", approve)
server.initialize([Path.cwd()], features={"applyEdit2": True, "approvalRequests": True})
opened = {**document, "languageId": "python", "text": "x = 1\n"}
server.notify("textDocument/didOpen", {"textDocument": opened})
server.request("conversation/start", {"content": [{"type": "text", "text": "Begin."}]})
server.wait_for_event("turn.completed")
server.request("shutdown")
server.notify("exit")
server.exit_code()
