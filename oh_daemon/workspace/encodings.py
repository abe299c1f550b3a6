"""How texts become bytes, and which encoding bytes have that are not UTF-8 and have no mark.

A guess needs letters that make sense: one alphabet, in words of one script, capitals only where
words have them. Two encodings that give different texts are no guess. The library
charset-normalizer was tried: of 233 short and long texts in 21 encodings it took 79 for others.
"""

# ruff: noqa: RUF001 - letters and signs of other scripts, which look like those of ours
from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Callable

from oh_daemon.protocol.errors import EditRejectedError, ToolError
from oh_daemon.protocol.items import FileForm

BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # Before UTF-16-LE, whose mark is this one's first half.
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
"""Byte order marks and what they say."""
_MAX_SAMPLE = 64 << 10
_ALPHABETS = (
    "äöüß",
    "àâæçéèêëîïôœùûüÿ",
    "áéíñóúüªº¡¿",
    "àáâãçéêíóôõúü",
    "àèéìíîòóùú",
    "éèëïóöü",
    "åäöéæø",
    "áðéíóúýþæö",
    "ąćęłńóśźż",
    "áčďéěíňóřšťúůýž",
    "áäčďéíĺľňóôŕšťúýž",
    "áéíóöőúüű",
    "ăâîșțşţ",
    "čćđšž",
    "çğıöşüâîû",
)
"""Letters outside ASCII of languages with Latin letters, from German to Turkish."""
_LATIN = tuple(frozenset(row + row.upper() + "\u0130" * ("ş" in row)) for row in _ALPHABETS)
_SIGNS = frozenset("“”„‘’‚«»‹›–—…€§°©®·•№×²³µ£\xa0\xad、。，！？：；（）《》「」『』・ー　～")
_COMMON = {"CYRILLIC": frozenset("оеаинтсрвлкм"), "GREEK": frozenset("αοιετσςνηυρκ")}
"""Letters that make up two thirds of a text, more than in another order of the same letters."""
_MIN_COMMON, _MIN_LETTERS = 0.55, 8
_MIN_IDEOGRAPHS, _MOST = 4, 0.9
_FIRST_KOREAN_BYTE = 0xA1
_WORD = re.compile(r"[^\W\d_]+")
_CONTROL = re.compile(rb"[\x01-\x08\x0b\x0e-\x1f]")
_LETTER = r"[^\W\d_]"
_MISPLACED = re.compile(
    rf"{_LETTER}(?:[“”„«»‹›€§°©®•№×²³µ£\xa0]{_LETTER}|[„‚¿¡])|{_LETTER}{{3}}[²³]|[²³]{_LETTER}"
    rf"|[ß-ÿ][A-Z]|ŕ(?!{_LETTER})|õ(?!e)|ΰ|ς{_LETTER}"
)
"""Signs within words, opening signs behind them, powers of words, capitals behind small letters,
and letters where the words of Slovak, Portuguese and Greek do not have them."""
_OTHER_SCRIPT = re.compile(r"(?<![^\W\d_])[^\W\d_A-Za-z]{2,}(?![^\W\d_])")
"""A whole word without a letter of ASCII."""


def encode_text(text: str, form: FileForm) -> bytes:
    """Return the bytes of a text in this form. Raises `EditRejectedError` if it has none."""
    bom = next((mark for mark, encoding in BOMS if encoding == form.encoding), b"")
    try:
        return (bom if form.bom else b"") + text.encode(form.encoding)
    except UnicodeEncodeError as exc:
        char = text[exc.start]
        raise EditRejectedError(
            f"the file is in {form.encoding}, which has no {char!r} (U+{ord(char):04X}); write"
            " something else; only the user can decide to convert the file to UTF-8"
        ) from exc


def encoding_named(name: str) -> str:
    """Return Python's name of an encoding, as in "cp1251" or "Shift_JIS". Raises `ToolError`."""
    # VS Code's names have no hyphens, and other words for Windows' code pages.
    usual_name = re.sub(r"(?i)^(?:windows-?|(iso)-?8859-?|(koi8)-?)(?=\w+$)", _usual_start, name)
    try:
        codec = codecs.lookup(usual_name)
        "a".encode(codec.name)
    except (LookupError, ValueError) as exc:
        raise ToolError(
            f"there is no text encoding {name!r}; name one such as cp1251, gb18030 or shift_jis"
        ) from exc
    return codec.name


def _usual_start(match: re.Match[str]) -> str:
    return "iso8859-" if match[1] else "koi8-" if match[2] else "cp"


def find_encodings(raw: bytes) -> tuple[str, ...]:
    """Return the encodings, as Python calls them, in which these bytes are the same likely text.

    `raw` is neither UTF-8 nor has a mark. The first is the most usual one; none is no guess.
    """
    is_wide = b"\0" in raw
    if not is_wide and _CONTROL.search(raw):
        return ()
    tests = _WIDE if is_wide else _NARROW
    sample = raw[:_MAX_SAMPLE] if is_wide else _foreign_lines(raw)
    texts: dict[str, list[str]] = {}
    for encoding, makes_sense in tests:
        try:
            text = sample.decode(encoding)
            if _is_text(text) and makes_sense(text):
                raw.decode(encoding)
                texts.setdefault(text, []).append(encoding)
        except UnicodeDecodeError:
            continue
    if len(texts) != 1:
        return ()
    [(text, encodings)] = texts.items()
    return tuple(encodings) if encodings[0] not in _LATIN_NAMES or _is_amid_ascii(text) else ()


def _foreign_lines(raw: bytes) -> bytes:
    """Return the lines that tell encodings apart, as many of them as are looked at."""
    sample = bytearray()
    for line in raw.splitlines(keepends=True):
        if len(sample) > _MAX_SAMPLE:
            break
        sample += b"" if line.isascii() else line
    return bytes(sample)


def _is_text(text: str) -> bool:
    kinds = {unicodedata.category(char) for char in set(text) - set("\t\n\r\f")}
    return not kinds & {"Cc", "Cn", "Co", "Cs"}


def _is_latin(text: str) -> bool:
    letters = {char for char in text if char > "\x7f"} - _SIGNS
    return any(letters <= alphabet for alphabet in _LATIN) and _has_words(text)


def _is_amid_ascii(text: str) -> bool:
    """Return whether letters are in words with letters of ASCII, and signs in text with such words.

    In words of another script all letters are foreign.
    """
    words = "".join(word for word in _WORD.findall(text) if not word.isascii())
    n_foreign = sum(char > "\x7f" for char in words)
    n_signs = sum(char in _SIGNS for char in text)
    n_ascii = sum(char <= "\x7f" and char.isalpha() for char in text)
    is_mixed = 2 * n_foreign <= len(words) and not _OTHER_SCRIPT.search(text)
    return is_mixed and (n_foreign > 0 or 3 * n_signs <= n_ascii)


def _has_words(text: str) -> bool:
    """Return whether no sign is within a word, and capitals are where words have them."""
    words = (word for word in _WORD.findall(text) if not word.isascii())
    return not _MISPLACED.search(text) and all(map(_is_cased, words))


def _is_cased(word: str) -> bool:
    """Return whether no foreign capital is amid small letters: "Ärger", "ÄRGER", "ИмяФайла"."""
    if word.isupper():
        return True
    pairs = zip(f" {word}", word, f"{word[1:]}a", strict=False)
    return all(
        char <= "\x7f" or not char.isupper() or (nearby.islower() and (before == " " or char > "Ͱ"))
        for before, char, nearby in pairs
    )


def _in_script(script: str) -> Callable[[str], bool]:
    def makes_sense(text: str) -> bool:
        words = [word for word in _WORD.findall(text) if not word.isascii()]
        letters = "".join(words)
        if len(letters) < _MIN_LETTERS or not _has_words(text):
            return False
        if any(char > "\x7f" and not char.isalpha() and char not in _SIGNS for char in text):
            return False
        is_script = all(unicodedata.name(char, "").startswith(script) for char in letters)
        plain = unicodedata.normalize("NFD", letters.lower())
        n_common = sum(char in _COMMON[script] for char in plain)
        return is_script and n_common >= _MIN_COMMON * len(letters)

    return makes_sense


def _is_japanese(text: str) -> bool:
    letters = [char for char in text if char > "\x7f" and char not in _SIGNS]
    n_kana = sum("\u3040" <= char <= "\u30ff" for char in letters)
    has_halves = any("\uff61" <= char <= "\uff9f" for char in letters)
    n_all = sum("\u3040" <= char <= "\u30ff" or "\u4e00" <= char <= "\u9fff" for char in letters)
    return n_kana > 0.2 * len(letters) and n_all >= _MOST * len(letters) and not has_halves


def _codes(text: str, encoding: str) -> list[bytes]:
    """Return the bytes of each character that is no sign."""
    letters = (char for char in text if char > "\x7f" and char not in _SIGNS)
    return [char.encode(encoding, "replace") for char in letters]


def _share(text: str, encoding: str, first: int, last: int) -> float:
    """Return the share of characters that this encoding has between two codes; 0 of few."""
    codes = _codes(text, encoding)
    n_usual = sum(first <= int.from_bytes(code) <= last for code in codes)
    return n_usual / len(codes) if len(codes) >= _MIN_IDEOGRAPHS else 0


# The usual characters: GB 2312 level 1, Big5 level 1, the syllables of KS X 1001.
def _is_simplified_chinese(text: str) -> bool:
    # Korean syllables have the same bytes as the first half of these characters.
    is_korean = _share(text, "gb2312", 0xB0A1, 0xC8FE) >= _MOST
    return not is_korean and _share(text, "gb2312", 0xB0A1, 0xD7FE) >= _MOST


def _is_traditional_chinese(text: str) -> bool:
    # Korean syllables have bytes of these characters, but no second byte below 0xA1.
    return _share(text, "big5", 0xA440, 0xC67E) >= _MOST and any(
        code[-1] < _FIRST_KOREAN_BYTE for code in _codes(text, "big5")
    )


def _is_korean(text: str) -> bool:
    n_letters = sum("\uac00" <= char <= "\ud7a3" for char in text)
    return n_letters >= _MIN_LETTERS and _share(text, "euc_kr", 0xB0A1, 0xC8FE) >= _MOST


def _has_breaks(text: str) -> bool:
    return any(char in text for char in " \n")


_WIDE = (("utf-16-le", _has_breaks), ("utf-16-be", _has_breaks))
_LATIN_NAMES = (
    *("cp1252", "cp1250", "cp1254", "iso8859-15", "iso8859-2", "iso8859-9"),
    *("mac-roman", "cp850", "cp437"),
)
_NARROW = (
    *((name, _is_latin) for name in _LATIN_NAMES),
    *((name, _in_script("CYRILLIC")) for name in ("cp1251", "koi8-r", "cp866", "iso8859-5")),
    *((name, _in_script("GREEK")) for name in ("cp1253", "iso8859-7")),
    *((name, _is_japanese) for name in ("cp932", "euc_jp")),
    ("gb18030", _is_simplified_chinese),
    ("big5", _is_traditional_chinese),
    ("cp949", _is_korean),
)
"""Encodings from the most usual to the least, each with what its texts look like."""
