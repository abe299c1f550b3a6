"""Masks secrets in text: values that are known, and tokens whose form gives them away.

Runs on every log line and on all streamed text, so substring searches come before any pattern.
Which values are secret is the caller's business. Invariant: valid JSON stays valid JSON.
"""

from __future__ import annotations

import re
import threading
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from json import dumps
from urllib.parse import quote, quote_plus

from msgspec import Struct

from oh_daemon.protocol.errors import ToolError

HIDDEN = "<secret hidden>"

MIN_LENGTH = 8
"""Shorter values occur in ordinary text too; masking them would only show where they are."""

_MAX_HELD = 16_384
"""The most characters that a stream holds back; the longest private keys in use have 7 KB."""

_KEY_HEAD = r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"
_KEY_TEXT = r"\\+[nrt]|[\w+/=\s]"
_KEY_BODY = rf"{_KEY_TEXT}|[:,.()]|-(?!----(?:BEGIN|END))"
_KEY_FOOT = r"-----END [A-Z0-9 ]+-----"
_KEY_END = rf"(?:{_KEY_FOOT}|(?=-----BEGIN))"

_HAS_BOTH = r"""(?=[^\s"'\\<>&;,]*\d)(?=[^\s"'\\<>&;,]*[A-Za-z])"""
"""A value with a digit and a letter: names in code and words in prose seldom have both."""

# What a text must contain | what comes before the token and stays visible | the token itself.
# No token ends in a backslash or contains a quote, or a masked JSON string could lose its end.
# Anybody can write what is masked here, and while Python matches, no other thread runs: what may be
# long and still be no token is taken as a whole (`++`, then `none`), not again from each beginning.
_TABLE = (
    ("sk-", "", r"sk-(?:(?:ant|proj|svcacct|admin|or|lf)-[\w-]{16,}|[A-Za-z0-9]{20,})"),
    ("ghp_ gho_ ghu_ ghs_ ghr_", "", r"gh[pousr]_[A-Za-z0-9]{30,}"),
    ("hf_ gsk_ xai- npm_ dop_v1_", "", r"(?:hf_|gsk_|xai-|npm_|dop_v1_)[A-Za-z0-9]{30,}"),
    ("github_pat_ AIz GOCSPX-", "", r"(?:github_pat_|AIza|GOCSPX-)[\w-]{28,}"),
    ("ya29. pypi-", "", r"(?:ya29\.|pypi-AgE)[\w-]{20,}"),
    ("glpat- gldt- glrt- glptt-", "", r"gl(?:pa|d|r|pt)t-[\w.-]{20,}"),
    ("xoxb- xoxp- xoxa- xoxr- xoxs- xapp-", "", r"(?:xox[abprs]|xapp)-[\w-]{12,}"),
    ("_live_ _test_ whsec_", "", r"(?:[srp]k_(?:live|test)|whsec)_[A-Za-z0-9]{16,}"),
    ("AKIA ASIA", "", r"A(?:KI|SI)A[A-Z2-7]{16}(?!\w)"),
    ("SG.", "", r"SG\.[\w-]{20,24}\.[\w-]{39,50}"),
    ("eyJ", "", r"eyJ[\w-]{8,}+(?:\.eyJ[\w-]{8,}(?:\.[\w-]*)?|(?P<none>))"),
    ("PRIVATE", "", rf"{_KEY_HEAD}(?:(?:{_KEY_BODY})*+{_KEY_END}|(?:{_KEY_TEXT})++)"),
    ("secret_access_ SECRET_ACCESS_ SecretAccessK",
     r"""(?i:secret_?access_?key)[\\"']{0,6}\s?[:=]\s?[\\"']{0,6}""", r"[\w/+]{40}(?![\w/+])"),
    ("hooks.slack.com/", r"hooks\.slack\.com/services/", r"[A-Z0-9]+/[A-Z0-9]+/\w{16,}"),
    ("AccountKey=", "AccountKey=", r"[\w/+]{60,}={0,2}"),
    (":AA", ":", r"AA[\w-]{33}(?![\w-])"),
    ("earer EARER asic ASIC", r"\b(?i:bearer|basic)\s+",
     r"(?=[\w.~+/=-]*\d)[\w.~+/-]{12,}={0,2}"),
    ("://", r"""://[^\s/:@"'\\<>]*:""", r"""[^\s/@"'\\<>${}]{3,}(?=@)"""),
    ("shpat_ shpca_ shppa_ shpss_ figd_ ntn_ nfp_ sbp_ rubygems_ r8_", "",
     r"(?:shp(?:at|ca|pa|ss)_|figd_|ntn_|nfp_|sbp_|rubygems_|r8_)[\w-]{32,}"),
    ("lin_api_ lin_oauth_ sntrys_ sntryu_ glsa_ glc_ dckr_pat_ dckr_oat_ lsv2_pt_ lsv2_sk_", "",
     r"(?:lin_(?:api|oauth)|sntry[su]|glsa|glc|dckr_[po]at|lsv2_(?:pt|sk))_[\w+/-]{20,}={0,2}"),
    ("hvs. hvb. hvr. dp.pt. dp.st. dp.sa. dp.ct. dp.scim. dp.audit.", "",
     r"(?:hv[sbr]|dp\.(?:pt|st|sa|ct|scim|audit))\.[\w.-]{24,}"),
    ("key- pplx- xkeysib- tskey- PMAK- NRAK- KEY-", "",
     r"(?:key-(?=[0-9a-f]{32}(?!\w))|(?:pplx|xkeysib|tskey|PMAK|NRAK|AGE-SECRET-KEY)-)[\w-]{20,}"),
    ("ATATT ATCTT dapi", "", r"(?:AT[AC]TT3[\w=-]{40,}|dapi[0-9a-f]{32}(?!\w))"),
    ("SK", "", r"SK[0-9a-f]{32}(?!\w)"),
    ("MT Mj Mz ND NT Nj Nz OD OT", "", r"[MNO][DTjz][\w-]{21,26}\.[\w-]{6}\.[\w-]{27,40}(?!\w)"),
    ("mfa.", "", r"mfa\.[\w-]{60,}"),
    ("fw_ cfut_ cfat_ cfk_", "", r"(?:fw_[A-Za-z0-9]{20,}|cf(?:ut|at|k)_[\w-]{32,})"),
    ("v1.0-", "", r"v1\.0-[0-9a-f]{24}-[0-9a-f]{100,}"),
    # Keys without a form of their own, such as those of Cohere and Cloudflare.
    ("api_key API_KEY apiKey api_token API_TOKEN apiToken BOT_TOKEN bot_token",
     r"""(?:(?<![A-Za-z0-9])|(?<=\\[nrtbf]))(?i:api_?key|(?:api|bot)_?token)[\\"']{0,6}\s?[:=]\s?[\\"']{0,6}""",
     rf"{_HAS_BOTH}[\w~+/-]{{24,}}+={{0,2}}(?![\w.(\[])"),
    ("/webhooks/", r"discord(?:app)?\.com/api/webhooks/\d+/", r"[\w-]{40,}"),
    ("word= WORD= asswd= ASSWD= pwd= PWD=", r"\b(?i:[\w.-]*(?:password|passwd|pwd))=",
     rf"""{_HAS_BOTH}[^\s"'\\<>&;,(){{}}$\[\]]{{8,}}"""),
    ("ession= ession_id= essionid= sid= SESSID= SESSIONID=",
     r"\b(?i:(?:[\w-]+[._-])?session(?:_?id)?|(?:[\w-]+\.)?sid|jsessionid|phpsessid)=",
     rf"{_HAS_BOTH}[\w.%+/~-]{{16,}}"),
    ("ssw SSW",
     r"""(?i:passw(?:or)?d)(?:\\{0,3}["']\s?:\s?\\{0,3}["']|(?<=password)[ \t]{1,4})""",
     rf"""{_HAS_BOTH}[^\s"'\\<>${{}}(),;:]{{8,}}"""),
    ("word= asswd= pwd= oken= ecret= key= Key= KEY= sig= ature= auth=",
     r"[?&](?i:[\w.-]*(?:password|passwd|pwd|token|secret|key|signature)|sig|auth)=",
     r"""[^\s&"'\\<>${}()\[\];#]{8,}"""),
)  # fmt: skip
_TOKENS = [
    (anchor, re.compile(f"(?P<kept>{kept}){token}"))
    for anchors, kept, token in _TABLE
    for anchor in anchors.split()
]


def _gates() -> list[tuple[re.Pattern[str], list[tuple[str, re.Pattern[str]]]]]:
    """Group the tokens by the last letter of their anchors, each group behind one search.

    A regex that starts with a fixed letter jumps from one such letter to the next: this scans
    1 KB in a third of the time that a search for each anchor takes.
    """
    groups: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    for anchor, token in _TOKENS:
        groups.setdefault(anchor[-1], []).append((anchor, token))
    anchors = {last: "|".join(f"(?<={re.escape(a)})" for a, _ in g) for last, g in groups.items()}
    return [(re.compile(f"{re.escape(c)}(?:{anchors[c]})"), group) for c, group in groups.items()]


_GATES = _gates()

# After a letter or digit a token is part of a word, unless those end an escape or a color code.
_WORD_BEFORE = re.compile(r"(?<=[A-Za-z0-9])(?<!\\[nrtbf])(?<![\d\[]m)(?<!%[0-9A-F]{2})")

# Within a word, all anchors hold it back. Only what a word can begin with holds back its start.
_ANCHORS = {a for a, _ in _TOKENS}
_WORDS = (
    *("-----BEGIN ", "Bearer", "bearer", "Basic", "basic", "AGE-SECRET-", "discord"),
    *("password", "PASSWORD", "passwd", "PASSWD", "pwd=", "PWD="),
    *("session", "sid=", "connect.sid"),
)
_STARTS = {*_WORDS, *(a for a in _ANCHORS if not a.islower() or a[-1] != "=")}
_HEADS = frozenset(start[:n] for start in _STARTS for n in range(1, len(start) + 1))
_LEAD = re.compile(
    r"""(?i:bearer|basic|passw(?:or)?d|\w*access_?key|api_?key|(?:api|bot)_?token)[\\"'\s:=]*\Z"""
)
_OPEN_KEY = re.compile(r"-----BEGIN [A-Z0-9 ]*(?:\Z|PRIVATE KEY)")
_FOOT = re.compile(_KEY_FOOT)


class Masker:
    """Hides known values, also in their usual encodings, and tokens of well-known forms.

    Thread-safe.
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._adding = threading.Lock()
        self._forms: tuple[str, ...] = ()
        self._pattern_of_values = re.compile(r"(?!)")
        for value in values:
            self.add(value)

    def add(self, value: str) -> None:
        if len(value) < MIN_LENGTH:
            return
        with self._adding:
            # Longest first: a form may be part of a longer one, whose rest would stay visible.
            forms = sorted({*self._forms, *_forms(value)}, key=len, reverse=True)
            # Of an odd number of backslashes before a value, the last one escapes its first
            # letter: JSON's "\nabcdefgh" must not become "\<secret hidden>".
            alternatives = "|".join(map(_guard_form, forms))
            self._pattern_of_values = re.compile(rf"(?<!\\)(?P<before>\\*)(?:{alternatives})")
            self._forms = tuple(forms)

    def mask(self, text: str) -> str:
        if any(form in text for form in self._forms):
            text = self._pattern_of_values.sub(_hide_known, text)
        for gate, group in _GATES:
            if gate.search(text):
                for token in dict.fromkeys(token for anchor, token in group if anchor in text):
                    text = token.sub(_hide_token, text)
        return text

    def mask_start(self, text: str) -> str:
        """Mask the start of a longer text, without its end if that may be half a secret."""
        return self.mask(text[: self.open_end(text)])

    def part(self, text: str, start: int, end: int) -> str:
        """Mask a part of a longer text, where a secret may be cut in two at either end.

        Half a secret is not recognised, so what is around the part is looked at as well.
        """
        first = max(0, start - _MAX_HELD)
        before, until = (len(self.mask(text[first:place])) for place in (start, end))
        return self.mask(text[first : end + _MAX_HELD])[before:until]

    def open_end(self, text: str) -> int:
        """Return the offset from which the text's end may be the start of something to hide."""
        end_offset = min(_open_token(text), self._open_value(text))
        if not any(form in text for form in self._forms):
            return end_offset
        spans = (match.span() for match in self._pattern_of_values.finditer(text))
        return next((start for start, end in spans if start < end_offset < end), end_offset)

    def _open_value(self, text: str) -> int:
        end = len(text)
        for form in self._forms:
            start = text.find(form[0], max(0, len(text) - len(form) + 1), end)
            while start >= 0 and not form.startswith(text[start:]):
                start = text.find(form[0], start + 1, end)
            end = start if start >= 0 else end
        return end


class MaskedStream:
    """Masks a text that comes in pieces; a piece is held back while it may begin a secret."""

    def __init__(self, masker: Masker) -> None:
        self._masker = masker
        self._pending = ""

    def feed(self, text: str) -> str:
        """Return what may be shown by now, masked."""
        text = self._pending + text
        end = self._masker.open_end(text)
        if len(text) - end > _MAX_HELD:
            end = len(text)
        self._pending = text[end:]
        return self._masker.mask(text[:end])

    def flush(self) -> str:
        """Return what is still held back, masked; the stream may go on."""
        text, self._pending = self._pending, ""
        return self._masker.mask(text)


def tokens_in(text: str) -> Iterator[tuple[str, str]]:
    """Yield what has the form of a token, each with the anchors of its kind; for measurements."""
    for anchors, prefix, token in _TABLE:
        if any(anchor in text for anchor in anchors.split()):
            for match in re.finditer(f"(?P<kept>{prefix}){token}", text):
                if _hide_token(match) != match[0]:
                    yield anchors, match[0]


def _forms(value: str) -> set[str]:
    """Return the value as it is, in JSON (also JSON within JSON), in a URL and in base64."""
    json_forms = {dumps(value, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)}
    twice = {dumps(form, ensure_ascii=False)[1:-1] for form in json_forms}
    data = value.encode("utf-8", "surrogatepass")
    # A value may start at any of the three bytes of a group; the letters that it shares with its
    # neighbors at both ends are left out.
    base64_forms = {
        b64encode(bytes(shift) + data).decode()[(shift * 8 + 5) // 6 : (shift + len(data)) * 8 // 6]
        for shift in range(3)
    }
    url_safe = {form.translate(str.maketrans("+/", "-_")) for form in base64_forms}
    url_forms = {quote(value, safe=safe, errors="replace") for safe in ("", "/")}
    url_forms.add(quote_plus(value, errors="replace"))
    return {value} | json_forms | twice | base64_forms | url_safe | url_forms


def _guard_form(form: str) -> str:
    """Return a form's regex; a number matches in strings only: `HIDDEN` is no JSON number."""
    if form.isdecimal():
        return rf"""(?<![^\\]":)(?<![^\\]": )(?<![\d.]){form}(?![\d.])"""
    return re.escape(form)


def _hide_known(match: re.Match[str]) -> str:
    before = match["before"]
    return before[: len(before) // 2 * 2] + HIDDEN


def _hide_token(match: re.Match[str]) -> str:
    if match.lastgroup == "none":
        return match[0]
    if not match["kept"] and _WORD_BEFORE.match(match.string, match.start()):
        return match[0]
    return match["kept"] + HIDDEN


def _open_token(text: str) -> int:
    """Return where the last word begins if a token may start in it, else the end of the text."""
    if "-----" in text:
        end = max((foot.end() for foot in _FOOT.finditer(text)), default=0)
        if key := _OPEN_KEY.search(text, end):
            return key.start()
        if end == len(text):
            return end
    # No stream holds back a longer word, so it need not be searched: 100 MB may be one word.
    first = max(0, len(text) - _MAX_HELD - 1)
    start = max(text.rfind(gap, first) for gap in " \t\r\n\"'\\") + 1
    if first and not start:
        return len(text)
    lead = _LEAD.search(text, max(0, start - 40), start)
    if lead:
        return lead.start()
    word = text[start:]
    is_open = "?" in word or "&" in word or any(anchor in word for anchor in _ANCHORS)
    return start if is_open or _ends_in_head(word) else len(text)


def _ends_in_head(word: str) -> bool:
    """Return whether the word's end may start a token, other than in the middle of a word."""
    tails = ((word[-n - 1 : -n], word[-n:]) for n in range(1, min(len(word), 24) + 1))
    return any(t in _HEADS and not (b.isalnum() and t[0].isalnum()) for b, t in tails)


SecretSource = str | Callable[[], str]
"""A value, or a function that returns it when a command needs it."""


class ExposedSecrets(Struct, frozen=True):
    """The secrets that commands may get. Thread-safe."""

    masker: Masker
    sources: Callable[[], Mapping[str, SecretSource]]
    """Returns the current sources by the environment variable that a command gets."""

    def named_in(self, command: str) -> tuple[str, ...]:
        """Return the names of the secrets that occur as a word anywhere in the command."""
        words = set(re.findall(r"\w+", command, re.ASCII))
        return tuple(sorted(words.intersection(self.sources())))

    def values_of(self, names: Sequence[str]) -> dict[str, str]:
        """Return values by name. Raises `ToolError` for one that is unavailable or not maskable."""
        return {name: self._value_of(name, self.sources().get(name)) for name in names}

    def _value_of(self, name: str, source: SecretSource | None) -> str:
        if source is None:
            raise ToolError(f"the secret {name} was taken back; only the user can expose it again")
        try:
            value = source if isinstance(source, str) else source()
        except Exception as exc:  # noqa: BLE001 - a program's own function.
            # Not `from exc`: its text may hold the value.
            raise ToolError(f"the secret {name} cannot be had: {type(exc).__name__}") from None
        if len(value) < MIN_LENGTH or "\0" in value:
            raise ToolError(f"the secret {name} is too short to be hidden; tell the user")
        self.masker.add(value)
        return value
