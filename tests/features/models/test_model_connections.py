"""Connections to models: certificates, proxies, connections used again, and cancels at any time."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_llm import FakeLLM, say
from model_calls import KEY, ask, complete, retrying
from tls import Listener, Proxy, make_authority, passing_to

from oh_daemon.common.cancel import Cancelled, CancelToken
from oh_daemon.conformance.rpc_process import WITHIN_S
from oh_daemon.protocol.errors import NetworkError

VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_authority(tmp_path_factory.mktemp("tls"))


def test_an_authority_is_trusted_once_its_certificate_is_named(
    certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
):
    with FakeLLM([say("Hello.")]) as fake, passing_to(fake.port, certificate) as server:
        url = f"https://127.0.0.1:{server.port}/v1"
        with pytest.raises(NetworkError, match="certificate verify failed") as error_info:
            ask(fake, base_url=url)
        assert "SSL_CERT_FILE" in str(error_info.value.hint)
        assert fake.requests == []
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
        assert ask(fake, base_url=url).text == "Hello."


@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "ALL_PROXY"])
def test_a_proxy_passes_tls_on_and_sees_no_key(
    variable: str, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    with (
        FakeLLM([say("Hello.")]) as fake,
        passing_to(fake.port, certificate) as server,
        Proxy() as proxy,
    ):
        monkeypatch.setenv(variable, f"http://me:p%40ss@127.0.0.1:{proxy.port}")
        assert ask(fake, base_url=f"https://127.0.0.1:{server.port}/v1").text == "Hello."
        [head] = proxy.heads
    assert head.startswith(f"CONNECT 127.0.0.1:{server.port} HTTP/1.1\r\n")
    assert "proxy-authorization: Basic bWU6cEBzcw==" in head
    assert KEY not in head


def test_a_proxy_is_asked_for_plain_http_unless_the_host_is_excepted(
    monkeypatch: pytest.MonkeyPatch,
):
    with FakeLLM([say("One."), say("Two.")]) as fake, Proxy() as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"127.0.0.1:{proxy.port}")
        monkeypatch.delenv("REQUEST_METHOD", raising=False)
        assert ask(fake).text == "One."
        assert proxy.heads[0].startswith(f"GET {fake.url}/models HTTP/1.1\r\n")
        n_asked = len(proxy.heads)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        assert ask(fake).text == "Two."
        assert len(proxy.heads) == n_asked


def test_a_proxy_that_refuses_or_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch):
    def refuse(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")

    with FakeLLM() as fake, Listener(refuse) as proxy:
        for port, message in ((proxy.port, "407 Proxy Authentication"), (9, "Connection refused")):
            monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{port}")
            with pytest.raises(NetworkError, match=f"127.0.0.1:{port} .{message}") as error_info:
                ask(fake, base_url="https://model.example/v1")
            assert "NO_PROXY=model.example" in str(error_info.value.hint)


def test_a_connection_is_used_again_and_replaced_when_the_server_has_closed_it():
    with (
        FakeLLM([say("One."), say("Two."), say("Three.")]) as fake,
        passing_to(fake.port) as server,
    ):
        model = retrying(fake, 1, base_url=f"http://127.0.0.1:{server.port}/v1")
        assert complete(model).text == "One."
        n_connections = server.n_accepted
        assert complete(model).text == "Two."
        assert server.n_accepted == n_connections
        server.hang_up()
        assert complete(model).text == "Three."
        assert server.n_accepted == n_connections + 1


def test_a_server_that_closes_a_rested_connection_at_the_request_is_asked_again():
    chunks = list[bytes]()

    def answer_once(connection: socket.socket) -> None:
        chunks.append(connection.recv(65536))
        body = b"data: " + b'{"choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\n'
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n"
        connection.sendall(head % len(body) + body)
        connection.recv(65536)

    with FakeLLM() as fake, Listener(answer_once) as server:
        model = retrying(fake, 1, base_url=f"http://127.0.0.1:{server.port}/v1", context_window=9)
        assert [complete(model).text for _ in range(3)] == ["Hi"] * 3


def _keep_silent(connection: socket.socket) -> None:
    while connection.recv(65536):
        pass


@pytest.fixture
def full_port() -> Iterator[int]:
    """A port whose queue of connections is full, so that a further one waits."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        open_sockets = [socket.socket() for _ in range(3)]
        for one in open_sockets:
            one.setblocking(False)
            one.connect_ex(address)
        yield address[1]
        for one in open_sockets:
            one.close()


@pytest.mark.parametrize("stage", ["connecting", "handshake", "tunnel", "headers"])
def test_a_cancel_ends_every_wait_for_a_connection(
    stage: str, full_port: int, monkeypatch: pytest.MonkeyPatch
):
    with FakeLLM() as fake, Listener(_keep_silent) as silent_listener:
        urls = {
            "connecting": f"http://127.0.0.1:{full_port}/v1",
            "handshake": f"https://127.0.0.1:{silent_listener.port}/v1",
            "tunnel": "https://model.example/v1",
            "headers": f"http://127.0.0.1:{silent_listener.port}/v1",
        }
        if stage == "tunnel":
            monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{silent_listener.port}")
        cancel, has_ended = CancelToken(), threading.Event()

        def turn() -> None:
            with pytest.raises(Cancelled):
                ask(fake, cancel=cancel, base_url=urls[stage])
            has_ended.set()

        worker = threading.Thread(target=turn)
        worker.start()
        cancel.wait(0.2)
        cancel.cancel()
        assert has_ended.wait(WITHIN_S)
        worker.join()
