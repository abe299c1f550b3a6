"""Images are sent within the provider's limits, whatever their format, or as a line of text."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from fake_llm import FakeLLM, Json, say
from model_calls import ask
from model_corpus import image, text, user
from model_histories import png_url
from PIL import Image

from oh_daemon.kernel.ports import ModelRequest

MODEL = "openrouter/anthropic/claude-x"
MAX_SIDE = 2000
MAX_CHARS = 5 << 20


def url_of(picture: Image.Image, form: str, **how: Any) -> str:
    data = io.BytesIO()
    picture.save(data, form, **how)
    kind = form.lower()
    return f"data:image/{kind};base64,{base64.b64encode(data.getvalue()).decode()}"


def blank(mode: str, width: int, height: int) -> Image.Image:
    return Image.new(mode, (width, height))


def turned() -> str:
    """Return a JPEG that is shown upright after a turn by 90 degrees."""
    exif = Image.Exif()
    exif[0x0112] = 6
    return url_of(blank("RGB", 3000, 100), "JPEG", exif=exif)


def noise() -> str:
    """Return a PNG of 12 MB within the limit of pixels."""
    return url_of(Image.frombytes("RGB", (2000, 2000), os.urandom(12_000_000)), "PNG")


LARGE: dict[str, Callable[[], str]] = {
    "png": lambda: url_of(blank("RGB", 1170, 2532), "PNG"),
    "wide png": lambda: url_of(blank("1", 8001, 10), "PNG"),
    "deep png": lambda: url_of(blank("I;16", 2100, 10), "PNG"),
    "clear png": lambda: url_of(blank("LA", 2100, 10), "PNG"),
    "gif": lambda: url_of(blank("P", 2100, 10), "GIF"),
    "film": lambda: url_of(
        blank("P", 2100, 10), "GIF", save_all=True, append_images=[Image.new("P", (2100, 10), 1)]
    ),
    "jpeg for print": lambda: url_of(blank("CMYK", 2100, 10), "JPEG"),
    "turned jpeg": turned,
    "webp": lambda: url_of(blank("RGBA", 2100, 10), "WEBP"),
    "noise": noise,
}
BROKEN: dict[str, Callable[[], str]] = {
    "only a head": lambda: png_url(9000, 9000),
    "cut": lambda: url_of(blank("RGB", 2100, 2100), "PNG")[:4000],
    "bomb": lambda: url_of(blank("1", 20_000, 20_000), "PNG"),
}


def content_sent(*urls: str) -> list[Json]:
    """Return the parts of the message that a provider gets."""
    with FakeLLM([say("I see.")]) as fake:
        pictures = [image(url) for url in urls]
        ask(fake, ModelRequest([user([text("See:"), *pictures])]), model=MODEL, sees_images=True)
        return fake.requests[0].body["messages"][0]["content"]


def pictures_in(content: Sequence[Json]) -> list[Image.Image]:
    urls = [part["image_url"]["url"] for part in content if part["type"] == "image_url"]
    assert all(len(url) <= MAX_CHARS for url in urls)
    return [Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))) for url in urls]


@pytest.mark.parametrize("kind", LARGE)
def test_large_image_is_scaled_to_what_the_provider_takes(kind: str) -> None:
    [picture] = pictures_in(content_sent(LARGE[kind]()))
    assert max(picture.size) == MAX_SIDE
    picture.load()


def test_turned_image_is_sent_upright() -> None:
    [picture] = pictures_in(content_sent(turned()))
    assert picture.height == MAX_SIDE


@pytest.mark.parametrize("kind", BROKEN)
def test_image_that_cannot_be_scaled_becomes_a_line_of_text(kind: str) -> None:
    content = content_sent(BROKEN[kind]())
    assert [part["type"] for part in content] == ["text", "text"]
    assert "left out" in content[1]["text"]


def test_image_within_the_limits_is_sent_as_it_is() -> None:
    small = url_of(blank("RGB", 2000, 10), "PNG")
    assert content_sent(small)[1]["image_url"] == {"url": small}


def test_oldest_images_become_lines_when_there_are_too_many() -> None:
    content = content_sent(*[url_of(blank("RGB", 1, 1), "PNG")] * 101)
    assert len(pictures_in(content)) == 76
    assert [part["type"] for part in content[1:26]] == ["text"] * 25
