"""Images within a provider's limits, scaled once each by Pillow in a child process."""

from __future__ import annotations

import threading
from base64 import b64decode, b64encode
from hashlib import sha256

from oh_daemon.system.limited_child import run_limited

_CHILD = "oh_daemon.features.models.image_child"
_WITHIN_S = 30.0
_MAX_CHARS = 32 << 20
"""Of all scaled images in memory, in base64."""
_JPEG = b"\xff\xd8"


class ScaledImages:
    """The images of a model's requests that had to be scaled. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._urls: dict[str, str | None] = {}
        """By the digest of the original and the limits; the oldest first."""

    def scaled(self, url: str, max_side: int, max_bytes: int) -> str | None:
        """Return a data URL within the limits; None for an image that cannot be read.

        `url` has the form `"data:image/png;base64,iVBO…"`. Blocks for up to 30 s at the first call.
        """
        key = f"{sha256(url.encode()).hexdigest()} {max_side} {max_bytes}"
        with self._lock:
            if key in self._urls:
                return self._urls[key]
        try:
            image = b64decode(url.partition(",")[2])
        except ValueError:
            image = b""
        data = run_limited(_CHILD, (max_side, max_bytes), image, _WITHIN_S)
        kind = "jpeg" if data and data.startswith(_JPEG) else "png"
        scaled_url = f"data:image/{kind};base64,{b64encode(data).decode()}" if data else None
        with self._lock:
            self._urls[key] = scaled_url
            while sum(len(each or "") for each in self._urls.values()) > _MAX_CHARS:
                del self._urls[next(iter(self._urls))]
        return scaled_url
