"""Who may come in by the web door: only with the token, under our own names, from our own page."""

from http.cookies import SimpleCookie

import pytest
from msgspec.structs import replace

from oh_daemon.frontends.serve.web_gate import PageGate, PageResponse, RequestHead, parse_public_url
from oh_daemon.protocol.errors import InvalidParamsError

GATE = PageGate(8123, "https://workspace.example.net")
LINK = RequestHead("GET", GATE.link.removeprefix(GATE.public_url), "127.0.0.1:8123", None, "")
COOKIE = f"other=1; oh={GATE.token}"
PAGE = replace(LINK, target=f"/{GATE.room}/", cookies=COOKIE)
SOCKET = replace(PAGE, target=f"/{GATE.room}/socket", origin="http://127.0.0.1:8123")


def test_the_link_sends_a_strict_cookie_that_no_other_server_here_gets() -> None:
    answer = GATE.admit(LINK)
    assert isinstance(answer, PageResponse)
    (cookie,) = SimpleCookie(answer.headers["Set-Cookie"]).values()
    assert (cookie["httponly"], cookie["samesite"], cookie["secure"]) == (True, "Strict", "")
    assert cookie["path"] == f"/{GATE.room}/"
    assert GATE.token not in answer.body
    public = GATE.admit(replace(LINK, host="workspace.example.net"))
    assert isinstance(public, PageResponse)
    assert "Secure" in public.headers["Set-Cookie"]


@pytest.mark.parametrize("host", ["127.0.0.1:8123", "localhost:8123", "workspace.example.net"])
def test_page_and_socket_are_there_under_our_own_names(host: str) -> None:
    assert GATE.admit(replace(PAGE, host=host)) == "page"
    for origin in (
        "http://127.0.0.1:8123",
        "http://localhost:8123",
        "https://workspace.example.net",
    ):
        assert GATE.admit(replace(SOCKET, host=host, origin=origin)) == "socket"


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (replace(LINK, target="/"), 403),
        (replace(LINK, target="/?token="), 403),
        (replace(LINK, target=f"/?token={PageGate(8123).token}"), 403),
        (replace(PAGE, cookies=""), 403),
        (replace(PAGE, cookies=f"oh={PageGate(8123).token}"), 403),
        (replace(SOCKET, cookies=f"oh2={GATE.token}"), 403),
        (replace(PAGE, target=f"/{PageGate(8123).room}/"), 404),
        (replace(PAGE, target=f"/{GATE.room}/../etc/passwd"), 404),
        (replace(PAGE, method="POST"), 405),
        *((replace(LINK, host=host), 403) for host in ("evil.example:8123", "127.0.0.1", None)),
        *((replace(PAGE, host=host), 403) for host in ("evil.example", "workspace.example.net:1")),
        *(
            (replace(SOCKET, origin=origin), 403)
            for origin in (
                None,
                "null",
                "http://127.0.0.1:3000",
                "https://workspace.example.net.evil",
            )
        ),
    ],
)
def test_others_are_refused_and_hear_no_secret(head: RequestHead, status: int) -> None:
    answer = GATE.admit(head)
    assert isinstance(answer, PageResponse)
    assert answer.status == status
    assert not any(each in str(answer) for each in (GATE.token, GATE.room))


def test_the_secrets_are_in_no_text_of_the_gate() -> None:
    assert GATE.token not in repr(GATE)
    assert GATE.room not in repr(GATE)


def test_a_public_address_is_an_encrypted_origin() -> None:
    assert parse_public_url("https://Workspace.Example.net:443/") == "https://workspace.example.net"
    assert (
        parse_public_url("https://workspace.example.net:8443")
        == "https://workspace.example.net:8443"
    )
    for wrong in (
        "http://a.b",
        "https://a.b/path",
        "https://u@a.b",
        "https://",
        "a.b",
        "https://a:x",
    ):
        with pytest.raises(InvalidParamsError):
            parse_public_url(wrong)
