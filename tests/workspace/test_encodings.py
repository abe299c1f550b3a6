"""Encodings of texts that are not UTF-8: guessed if the letters make sense, else never wrong."""

# ruff: noqa: E501, RUF001 - texts of other scripts, which ruff counts as wider than they are
from __future__ import annotations

import codecs

import pytest

from oh_daemon.protocol.errors import EditRejectedError, ToolError
from oh_daemon.workspace.encodings import encoding_named
from oh_daemon.workspace.files import parse_text

TEXTS = {
    "ru": "# Если пользователь не указан, берётся имя из окружения\nuser = 'Иванов'  # адрес сервера\n",
    "zh": "# 如果没有指定用户，则使用环境变量中的名称\nhost = 'localhost'  # 服务器地址\n",
    "zh_TW": "# 如果沒有指定使用者，則使用環境變數中的名稱\nhost = 'localhost'  # 伺服器位址\n",
    "ko": "# 사용자가 지정되지 않으면 환경 변수의 이름을 사용합니다\nhost = 'localhost'  # 서버 주소\n",
    "ja": "# ユーザーが指定されていない場合は、環境変数の名前を使います\nprint('今日は天気がいい')\n",
    "pl": "# Jeśli użytkownik nie został podany, używana jest nazwa ze środowiska\nx = 'Zażółć gęślą'\n",
    "cs": "# Pokud uživatel není uveden, použije se jméno z prostředí\nx = 'Příliš žluťoučký kůň'\n",
    "hu": "# Ha a felhasználó nincs megadva, a környezetből vett nevet használjuk\nx = 'fűző'\n",
    "el": "# Αν δεν έχει οριστεί χρήστης, χρησιμοποιείται το όνομα\nx = 'καλημέρα κόσμε'\n",
    "tr": "# Kullanıcı belirtilmemişse, ortamdaki ad kullanılır\nx = 'İstanbul çok güzel, ığdır, çağ'\n",
    "de": "# Wenn kein Benutzer da ist, wird der übliche Name gewählt\nx = 'Größe, Öl, Übung, Käse'\n",
    "fr": "# L'œuvre est déjà prévue, où allons-nous ? Ça va être très bien\nnom = 'Éléonore'\n",
    "fi": "# Jos käyttäjää ei ole, käytetään nimeä\nx = 'Hinta on 5 €, tänään'\n",
}
KINDS = (
    *(("gbk", "zh"), ("gb18030", "zh"), ("big5", "zh_TW"), ("euc_kr", "ko"), ("cp949", "ko")),
    *(("euc_jp", "ja"), ("shift_jis", "ja"), ("cp1251", "ru"), ("koi8_r", "ru"), ("cp866", "ru")),
    *(("iso8859_5", "ru"), ("cp1250", "pl"), ("cp1250", "cs"), ("cp1250", "hu")),
    *(("iso8859_2", "pl"), ("iso8859_2", "cs"), ("iso8859_2", "hu"), ("iso8859_7", "el")),
    *(("cp1253", "el"), ("iso8859_9", "tr"), ("cp1254", "tr"), ("iso8859_15", "fr")),
    *(("iso8859_15", "fi"), ("mac_roman", "fr"), ("mac_roman", "de"), ("cp437", "de")),
    *(("cp850", "de"), ("cp1252", "de"), ("cp1252", "fr"), ("cp1252", "fi")),
)


@pytest.mark.parametrize(("encoding", "language"), KINDS)
def test_text_is_read_with_its_letters_or_not_at_all(encoding: str, language: str) -> None:
    text = TEXTS[language]
    file = parse_text(text.encode(encoding))
    assert file is not None
    assert (file.text, file.encode(file.text)) == (text, text.encode(encoding))
    assert file.note is not None
    assert file.encoding in file.note
    # Any part of a text may be too little for a guess, but never makes one with other letters.
    for part in (*text.splitlines(), *text.split(), text[:20], text[1:]):
        part_file = parse_text(part.encode(encoding))
        assert part_file is None or part_file.text == part, part


@pytest.mark.parametrize(
    ("language", "encoding", "new"),
    [
        ("hu", "iso8859_2", "ž"),
        ("el", "iso8859_7", "Ά"),
        ("de", "cp1252", "€"),
        ("de", "cp437", "Á"),
    ],
)
def test_edit_is_refused_if_likely_encodings_have_other_bytes_for_it(
    language: str, encoding: str, new: str
) -> None:
    file = parse_text(TEXTS[language].encode(encoding))
    assert file is not None
    with pytest.raises(EditRejectedError, match=r"which have different bytes .* `encoding`"):
        file.encode(file.text + new)
    assert file.encode(file.text + "ascii") == (TEXTS[language] + "ascii").encode(encoding)


@pytest.mark.parametrize(
    ("name", "python_name"),
    [
        *(("windows1251", "cp1251"), ("Windows-1252", "cp1252"), ("iso88592", "iso8859-2")),
        *(("ISO-8859-15", "iso8859-15"), ("koi8r", "koi8-r"), ("KOI8-U", "koi8-u")),
        *(("shiftjis", "shift_jis"), ("eucjp", "euc_jp"), ("macroman", "mac-roman")),
        *(("latin1", "iso8859-1"), ("utf8", "utf-8"), ("GBK", "gbk"), ("cp437", "cp437")),
    ],
)
def test_names_of_editors_and_of_people_are_understood(name: str, python_name: str) -> None:
    assert encoding_named(name) == codecs.lookup(python_name).name


@pytest.mark.parametrize("name", ["", "no such", "rot13", "base64", "windows", "\0"])
def test_what_is_no_text_encoding_is_refused(name: str) -> None:
    with pytest.raises(ToolError, match="there is no text encoding"):
        encoding_named(name)
