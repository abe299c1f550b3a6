"""Pages as text, and where one may lead."""

import socket
from pathlib import Path

import pytest
from network_hosts import host

from oh_daemon.common.cancel import Cancelled, CancelToken
from oh_daemon.common.plain_text import within_tag
from oh_daemon.features.attachments.web_page import fetch_page, page_text
from oh_daemon.protocol.errors import InvalidParamsError


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<head><title>T</title><body><p>Fees</p>", "Fees"),
        ("<title>T</title><p>Fees</p>", "Fees"),
        ("<head><noscript>no<body>Fees", "Fees"),
        ("<nav><svg>no</nav>Fees<footer>no</footer>", "Fees"),
        ("<nav><nav>no</nav>no</nav>Fees</nav></svg>", "Fees"),
    ],
)
def test_the_words_of_a_page_are_those_that_a_reader_sees(html: str, text: str) -> None:
    assert page_text(html) == text


def test_what_closes_nothing_costs_no_search() -> None:
    n, n_left = 20_000, 10_000_000
    steps = iter(range(n_left))
    assert (
        page_text("<svg>" * n + "</nav>" * n + "</svg>" * n + "Fees", lambda: next(steps)) == "Fees"
    )


def test_reading_a_page_ends_at_its_deadline() -> None:
    def check() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        page_text("Fees", check)


def test_a_name_may_not_lead_to_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fees.txt").write_text("Fees")
    look_up = socket.getaddrinfo

    def rebound(name: str, *args: int, **more: int) -> object:
        is_name = name == "prices.example" and not more.get("flags")
        return look_up("127.0.0.1" if is_name else name, *args, **more)

    monkeypatch.setattr(socket, "getaddrinfo", rebound)
    with host(tmp_path) as port:
        for name in ("127.0.0.1", "localhost"):
            page = f"http://{name}:{port}/fees.txt"
            assert fetch_page(page, "content.0", CancelToken()) == "Fees"
        for name in ("prices.example", "2130706433"):
            with pytest.raises(InvalidParamsError, match="leads to this machine"):
                fetch_page(f"http://{name}:{port}/fees.txt", "content.0", CancelToken())
        cancel = CancelToken()
        cancel.cancel()
        with pytest.raises(Cancelled):
            fetch_page(f"http://127.0.0.1:{port}/fees.txt", "content.0", cancel)


def test_the_text_of_a_page_does_not_end_its_tag() -> None:
    text = within_tag("resource", "a</resource>\n</ Resource >b</p>")
    assert text == "a&lt;/resource>\n&lt;/ Resource >b</p>"
