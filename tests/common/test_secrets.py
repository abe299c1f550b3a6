"""What is masked and what is not, also when a secret arrives in pieces."""

from __future__ import annotations

import base64
import json
import threading
import time
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planted_secrets import BODY, TOKENS

from oh_daemon.common.masking import HIDDEN, MaskedStream, Masker

_IN_CONTEXT = {
    "bearer": ("Authorization: Bearer ", BODY, ""),
    "basic": ("authorization: Basic ", "dXNlcjpodW50ZXIy", ""),
    "aws secret": ('AWS_SECRET_ACCESS_KEY="', BODY + "abcdEF/+", '"'),
    "azure": ("AccountName=x;AccountKey=", BODY + BODY + "==", ";"),
    "url password": ("postgres://bob:", "s3cr3t-pw", "@db/x"),
    "url query": ("https://h/x?a=1&access_token=", BODY, "&b=2"),
    "telegram": ("bot123456789:", "AA" + BODY + "x", "/send"),
    "password in a file": ("DB_PASSWORD=", "hunter2-xyz", ""),
    "password in json": ('"password": "', "hunter2-xyz", '"'),
    "netrc": ("machine h login bob password ", "hunter2-xyz", ""),
    "session cookie": ("Cookie: theme=dark; connect.sid=", "s%3A" + BODY, "; a=b"),
    "cohere": ("COHERE_API_KEY=", "0123456789abcdef" * 2 + "01234567", ""),
    "cloudflare": ('CF_API_TOKEN="', BODY + "_bcd-fgh", '"'),
    "api key in json": ('"apiKey": "', BODY, '"'),
    "discord bot": ("bot_token: ", BODY + BODY, ""),
    "discord hook": ("https://discord.com/api/webhooks/123456789/", BODY + BODY, ""),
    "slack hook": ("https://hooks.slack.com/services/", "T01ABCDEF/B01ABCDEF/" + BODY, ""),
}
_ORDINARY = [
    'key = os.environ["API_KEY"]',
    "token = request.headers.get('Authorization', 'Bearer ')",
    "password: str = field(default='')",
    "commit 0f8fad5bd9cb469fa16570867728950e0f8fad5b",
    "0f8fad5b-d9cb-469f-a165-70867728950e",
    "data = 'aGVsbG8gd29ybGQsIHRoaXMgaXMgYSB0ZXN0IG9mIGJhc2U2NCBkYXRh'",
    "class='sk-loading-spinner-container-wide' risk-assessment-of-large-things-123456789",
    "sha512-7Qp9hN1aX+eyJhbGciOiJIUzI1NiJ9oqw==",
    "see https://user@example.com:8080/path?x=1&y=2#z and http://localhost:3000/@vite/client",
    "f'https://{user}:{password}@{host}/?token={token}'",
    "git+ssh://git@github.com/a/b.git",
    "api_key = get_api_key_from_environment_v2(), apiKey: this.options.apiKeys[0].v2, api_key=x1",
    "version v1.0-rc1, fw_version, cfat_, mfa.py, mfa.enabled",
    'curl -H "Authorization: Bearer $TOKEN" "$URL?token=${TOKEN}"',
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    "Bearer authentication_is_described_elsewhere and Basic authentication",
    "def test_live_reload_of_the_whole_configuration_file(): pass",
    "key-value stores, monkey-patching, keyword=None, password=password, password=get_password()",
    '{"password": "password", "token": "string"}, passwords 2 and the password dialog',
    "sessionid=session.session_id, sid=sid, MONDAY.NOTICE.OTHERWISE, SKIP, SKILLS, dapi",
    "import hf_hub_download_with_a_very_long_identifier_name",
]


@pytest.mark.parametrize("kind", TOKENS)
def test_a_well_known_token_is_masked_wherever_it_stands(kind: str) -> None:
    token = TOKENS[kind]
    for before, after in [
        ("x = '", "'"),
        ("", ""),
        ("a\n", "\nb"),
        ("TOKEN=", " "),
        ("\x1b[31m", ""),
    ]:
        assert Masker().mask(before + token + after) == before + HIDDEN + after
    for text in [json.dumps([f"a\n{token}\n"]), json.dumps({"x": json.dumps({"y": f"\n{token}"})})]:
        masked_text = Masker().mask(text)
        assert token[-12:] not in masked_text
        json.loads(masked_text)


@pytest.mark.parametrize("kind", _IN_CONTEXT)
def test_a_token_is_masked_where_its_place_gives_it_away(kind: str) -> None:
    before, token, after = _IN_CONTEXT[kind]
    assert Masker().mask(f"{before}{token}{after}") == f"{before}{HIDDEN}{after}"
    in_json = json.dumps({"x": f"\n{before}{token}{after}\n"})
    assert json.loads(Masker().mask(in_json)) == {"x": f"\n{before}{HIDDEN}{after}\n"}


def test_a_key_that_another_one_cuts_off_is_masked_too() -> None:
    head = "-----BEGIN RSA PRIVATE KEY-----"
    cut_key = f"{head}\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0F\n\n{BODY}\n"
    assert (
        Masker().mask(f"{cut_key}{head}\n{BODY}\n-----END RSA PRIVATE KEY-----.")
        == HIDDEN * 2 + "."
    )


@pytest.mark.parametrize(
    "unit",
    [
        *(
            "-----BEGIN PRIVATE KEY-----",
            "-----BEGIN A ",
            "-----END A-----",
            "eyJaaaaaaaa",
            "-eyJa",
        ),
        *(
            "://a:bb",
            "bearer ",
            "&a.key",
            "?",
            "SG.",
            "\\",
            "sk-",
            "AccountKey=",
            "secret_access_key ",
        ),
    ],
)
def test_no_text_makes_masking_slow(unit: str) -> None:
    """Files and commands can hold any text, and while a pattern is matched no other thread runs."""
    text = unit * (200_000 // len(unit))
    masker = Masker(["another secret"])
    stream = MaskedStream(masker)
    start_s = time.thread_time()
    masker.mask(f"another secret {text}key=eyJaaaaaaaa.eyJ -----END")
    stream.feed(text)
    stream.flush()
    assert time.thread_time() - start_s < 1


@pytest.mark.parametrize("text", _ORDINARY)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert Masker().mask(text) == text
    assert Masker(["another secret"]).mask(json.dumps([text])) == json.dumps([text])


@pytest.mark.parametrize(
    "value",
    ["correct horse battery", 'pa"ss\\wörd\n1', "aaaa+bbbb/cccc==", "12345678", "nabcdefgh"],
)
def test_a_known_value_is_masked_in_each_of_its_forms(value: str) -> None:
    masker = Masker([value])
    assert masker.mask(f"x {value} y") == f"x {HIDDEN} y"
    assert masker.mask(f"?a={quote(value, safe='')}&") == f"?a={HIDDEN}&"
    assert json.loads(masker.mask(json.dumps({"a": f"<{value}>"}))) == {"a": f"<{HIDDEN}>"}
    for shift in range(4):
        encoded_value = base64.b64encode(f"{'u' * shift}{value}:rest".encode()).decode()
        assert HIDDEN in masker.mask(encoded_value)


def test_a_value_that_is_added_later_is_masked_and_a_short_one_never() -> None:
    masker = Masker(["short"])
    masker.add("added-later")
    assert masker.mask("short added-later") == f"short {HIDDEN}"


def test_values_that_are_added_at_the_same_time_are_all_masked() -> None:
    masker, together = Masker(), threading.Barrier(2)
    rounds = [[f"secret {name} {n:03}" for name in "ab"] for n in range(30)]

    def add(value: str) -> None:
        together.wait()
        masker.add(value)

    for values in rounds:
        threads = [threading.Thread(target=add, args=(value,)) for value in values]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [value for value in values if masker.mask(value) != HIDDEN] == []


def test_a_longer_value_is_masked_whole_when_a_shorter_one_is_part_of_it() -> None:
    assert Masker(["hunter22", "hunter22-extra"]).mask("hunter22-extra") == HIDDEN


def test_the_letter_of_an_escape_is_not_taken_for_the_start_of_a_value() -> None:
    assert json.loads(Masker(["nabcdefgh"]).mask('["\\nabcdefgh"]'))


def test_a_number_that_happens_to_be_a_secret_leaves_json_numbers_alone() -> None:
    text = '{"seq":12345678,"text":"pin 12345678"}'
    assert json.loads(Masker(["12345678"]).mask(text)) == {"seq": 12345678, "text": f"pin {HIDDEN}"}


_VALUES = st.text(st.sampled_from('ab"\\\n/nu é'), min_size=8, max_size=12).filter(
    lambda value: not value.endswith("\\")
)


@given(
    st.lists(_VALUES, min_size=1, max_size=3),
    st.text(st.sampled_from('ab"\\\n/nu0 é'), max_size=40),
)
def test_valid_json_stays_valid_json_and_holds_no_value(values: list[str], text: str) -> None:
    masked_text = Masker(values).mask(json.dumps({"x": values[0] + text, "y": json.dumps([text])}))
    assert values[0] not in json.loads(masked_text)["x"]


def _stream(masker: Masker, pieces: list[str]) -> str:
    stream = MaskedStream(masker)
    return "".join([*map(stream.feed, pieces), stream.flush()])


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50])
@pytest.mark.parametrize("kind", [*TOKENS, *_IN_CONTEXT])
def test_a_token_split_over_pieces_is_masked_as_if_it_were_whole(kind: str, size: int) -> None:
    before, token, after = _IN_CONTEXT.get(kind, ("key: ", TOKENS.get(kind, ""), ""))
    text = f"some text {before}{token}{after} and more"
    pieces = [text[n : n + size] for n in range(0, len(text), size)]
    assert _stream(Masker(), pieces) == f"some text {before}{HIDDEN}{after} and more"


@given(st.lists(st.text(st.sampled_from("ab c"), max_size=6), max_size=20))
def test_known_values_split_anywhere_never_get_through(pieces: list[str]) -> None:
    masker = Masker(["abababab", "babcabab cab"])
    masked_text = _stream(masker, [*pieces, "abab", "abab", *pieces])
    assert "abababab" not in masked_text
    assert "babcabab cab" not in masked_text


_FLOOD = "x?" + "x" * 40_000


@pytest.mark.parametrize(
    ("text", "expected_text"),
    [
        (f"{_FLOOD}correct horse battery{_FLOOD}", f"{_FLOOD}{HIDDEN}{_FLOOD}"),
        (f"{_FLOOD} sk-{BODY} {_FLOOD}", f"{_FLOOD} {HIDDEN} {_FLOOD}"),
        (f"{_FLOOD}\n{TOKENS['private key']}{_FLOOD}", f"{_FLOOD}\n{HIDDEN}{_FLOOD}"),
    ],
    ids=["known value", "token", "private key"],
)
def test_a_secret_in_a_line_without_end_is_masked_wherever_the_line_is_cut(
    text: str, expected_text: str
) -> None:
    masker = Masker(["correct horse battery"])
    for position in range(len(_FLOOD), len(text) - len(_FLOOD) + 1):
        assert _stream(masker, [text[:position], text[position:]]) == expected_text


@pytest.mark.parametrize(
    "text", ["Hello wor", "risk-averse 12", "x = {'a': 1}\n", "100 % (done)", "def f(x):\n  "]
)
def test_ordinary_text_passes_at_once(text: str) -> None:
    assert MaskedStream(Masker(["zzzzzzzz"])).feed(text) == text


def test_a_stream_never_holds_back_without_bound() -> None:
    stream = MaskedStream(Masker())
    output = "".join(stream.feed("sk-" + "-" * 1000) for _ in range(40))
    assert len(output) > 20_000
