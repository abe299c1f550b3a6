"""Scales one image from stdin to stdout; its most pixels and bytes are the arguments.

The program of a child process (see `image_scaling`): a decoder reads bytes from anywhere, so it has
limits of memory, time and pixels. It imports nothing of ours.
"""

from __future__ import annotations

import io
import resource
import sys

_MEMORY_BYTES = 1 << 30
_PROCESSOR_S = 20
_MAX_PIXELS = 100_000_000
"""A picture of 10,000 x 10,000: 400 MB as RGBA, which fits into the memory together with Python."""
_QUALITIES = (85, 60, 30)
_FORMATS = ("PNG", "JPEG", "GIF", "WEBP")


def main(max_side: int, max_bytes: int) -> None:
    """Raises for an image that cannot be read within the limits, or made small enough."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (_PROCESSOR_S, _PROCESSOR_S))
    from PIL import Image, ImageOps  # noqa: PLC0415 - only below the limits.

    with Image.open(io.BytesIO(sys.stdin.buffer.read()), formats=_FORMATS) as image:
        if image.width * image.height > _MAX_PIXELS:
            sys.exit(f"{image.width} x {image.height} pixels; the limit is {_MAX_PIXELS:,}")
        # `thumbnail` of a JPEG decodes only as many pixels as are needed.
        image.thumbnail((max_side, max_side))
        upright = ImageOps.exif_transpose(image)
    for quality in (None, *_QUALITIES):
        data = io.BytesIO()
        if quality is None:
            upright.convert("RGBA").save(data, "PNG")
        else:
            upright.convert("RGB").save(data, "JPEG", quality=quality)
        if data.tell() <= max_bytes:
            sys.stdout.buffer.write(data.getvalue())
            return
    sys.exit(f"more than {max_bytes:,} bytes, also as a JPEG")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
