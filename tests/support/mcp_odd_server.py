"""An MCP server that answers as its script says, however odd, over stdio or Streamable HTTP.

python tests/support/mcp_odd_server.py [stdio | http PORT] SCRIPT

SCRIPT is JSON: by method, the result to answer with, an `Answers` list of results of which the last
one repeats, or an object with the key `error`, `http` (`[status, content type, body]`) or `ask`
(over stdio: a method of the client, whose result is the text of the answer). `PARAMS` in a text
stands for the params of the request as JSON.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]
ANSWERS = "answers"
GREETING: Json = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}, "resources": {}},
    "serverInfo": {"name": "odd", "version": "1"},
}
LISTED: Json = {"tools": [{"name": "fine", "inputSchema": {"type": "object"}}]}


class OddServer:
    """Answers by its script."""

    def __init__(self, script: Json) -> None:
        self._script = {"initialize": GREETING, "tools/list": LISTED, **script}
        self._n_answered: dict[str, int] = {}
        self.n_sessions = 0

    def answer(self, message: Json) -> Json:
        """Return the fields of an answer: `result`, `error` or `http`."""
        method = message["method"]
        if method not in self._script:
            return {"error": {"code": -32601, "message": f"no method {method}"}}
        answer = self._script[method]
        if isinstance(answer, dict) and ANSWERS in answer:
            n_before = self._n_answered.get(method, 0)
            self._n_answered[method] = n_before + 1
            answer = answer[ANSWERS][min(n_before, len(answer[ANSWERS]) - 1)]
        if isinstance(answer, dict) and answer.keys() & {"ask", "error", "http"}:
            return answer
        if "PARAMS" in str(answer):
            params = json.dumps(json.dumps(message.get("params")))[1:-1]
            answer = json.loads(json.dumps(answer).replace("PARAMS", params))
        return {"result": answer}


def write(message: Json) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def serve_stdio(server: OddServer) -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            answer = server.answer(message)
            if "ask" in answer:
                write({"id": "question", "method": answer["ask"]})
                reply = next(each for line in sys.stdin if "result" in (each := json.loads(line)))
                answer = {"result": {"content": json.dumps(reply["result"])}}
            write({"id": message["id"], **answer})


def serve_http(server: OddServer, port: int) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if "id" not in message:
                self._send(202, "application/json", "")
                return
            if message["method"] == "initialize":
                server.n_sessions += 1
            answer = server.answer(message)
            if "http" in answer:
                self._send(*answer["http"])
                return
            body = json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer})
            self._send(200, "application/json", body.replace("N_SESSIONS", str(server.n_sessions)))

        def do_GET(self) -> None:
            self._send(405, "text/plain", "")

        do_DELETE = do_GET  # noqa: N815 - the name that the library calls.

        def _send(self, status: int, content_type: str, text: str) -> None:
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Mcp-Session-Id", f"session-{server.n_sessions}")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as listening:
        sys.stderr.write("running on\n")
        sys.stderr.flush()
        listening.serve_forever()


def settings(script: Json) -> Json:
    """Return the setting of such a server over stdio."""
    return {"command": sys.executable, "args": [__file__, "stdio", json.dumps(script)]}


def main(transport: str, *words: str) -> None:
    server = OddServer(json.loads(words[-1]))
    if transport == "http":
        serve_http(server, int(words[0]))
    else:
        serve_stdio(server)


if __name__ == "__main__":
    main(*sys.argv[1:])
