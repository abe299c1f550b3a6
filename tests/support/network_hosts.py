"""Servers of a test: one that is a host, and one that is the user's own proxy to many hosts."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


@contextmanager
def serving(handler: Any) -> Generator[ThreadingHTTPServer]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class _Files(SimpleHTTPRequestHandler):
    folder: Path

    def __init__(self, *args: Any) -> None:
        super().__init__(*args, directory=str(self.folder))

    def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002 - its name there.


@contextmanager
def host(folder: Path) -> Generator[int]:
    """Serve the files of a folder; yields the port of 127.0.0.1."""
    with serving(type("Host", (_Files,), {"folder": folder})) as server:
        yield server.server_port


class _Proxy(_Files):
    """Knows every host, and what each has: a folder of its name. All tunnels lead to one place."""

    requests: list[str]

    def do_GET(self) -> None:
        self.requests.append(f"{self.command} {self.path} {self.headers['Proxy-Authorization']}")
        url = urlsplit(self.path)
        self.path = f"/{url.hostname}{url.path}"
        super().do_GET()

    def do_CONNECT(self) -> None:
        self.requests.append(f"{self.command} {self.path} {self.headers['Proxy-Authorization']}")
        self.send_response(200)
        self.end_headers()
        body = f"tunnel to {self.path}\n".encode()
        self.rfile.readline()
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        self.close_connection = True


@contextmanager
def proxy_of_user(folder: Path, requests: list[str]) -> Generator[dict[str, str]]:
    """Yield the variables that name a proxy, which notes what it is asked for."""
    with serving(type("Proxy", (_Proxy,), {"folder": folder, "requests": requests})) as server:
        url = f"http://ana:secret@127.0.0.1:{server.server_port}"
        names = ("http_proxy", "https_proxy")
        yield {**dict.fromkeys(names, url), "no_proxy": "127.0.0.1,localhost"}
