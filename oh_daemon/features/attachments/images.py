"""Images and PDFs of messages: checked before a message is accepted, stored as blobs of the log.

They come from files, or from clients in pieces. Uploads stay in memory; when they take too much
there, the oldest are dropped.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, field

from oh_daemon.kernel.journal import new_id
from oh_daemon.kernel.ports import EventLog, Model, Traits
from oh_daemon.protocol.composing import AttachmentPutParams, AttachmentPutResult
from oh_daemon.protocol.content import DocumentPart, ImagePart, Part
from oh_daemon.protocol.errors import (
    InvalidParamsError,
    PathOutsideWorkspaceError,
    PayloadTooLargeError,
)
from oh_daemon.workspace.paths import Folders
from oh_daemon.workspace.pdf_text import HEAD

MAX_BYTES = 20 << 20
MAX_IMAGES = 20
_MAX_MENTIONED_BYTES = (5 << 20) * 3 // 4
"""In base64 that is 5 MiB, which all providers take."""
_MAX_INLINE_BYTES = 5 << 20
_TOO_MANY = f"a message has at most {MAX_IMAGES} images and PDFs"
_MAX_MEMORY_BYTES = 64 << 20
_PDF = "application/pdf"
_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"RIFF", "image/webp"),
    (HEAD, _PDF),
)
_SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".pdf")
FilePart = ImagePart | DocumentPart


class _Upload(Struct):
    mime_type: str
    total: int
    pieces: list[bytes] = field(default_factory=list[bytes])

    @property
    def n_bytes(self) -> int:
        return sum(map(len, self.pieces))

    @property
    def is_complete(self) -> bool:
        return len(self.pieces) == self.total


def attachment_put(attachments: Attachments, params: AttachmentPutParams) -> AttachmentPutResult:
    """Handle `attachment/put`."""
    return attachments.put(params)


class Attachments:
    """The uploads of a client. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._uploads: dict[str, _Upload] = {}

    def put(self, params: AttachmentPutParams) -> AttachmentPutResult:
        """Store one piece. Raises `InvalidParamsError` or `PayloadTooLargeError`."""
        piece = _decode_data(params.data, "data")
        with self._lock:
            upload_id, upload = self._upload_for(params)
            if params.index == len(upload.pieces):
                upload.pieces.append(piece)
            elif upload.pieces[params.index] != piece:
                raise InvalidParamsError.at(
                    "index", f"piece {params.index} came before and was another one"
                )
            try:
                _check_upload(upload, params.sha256)
            except (InvalidParamsError, PayloadTooLargeError):
                del self._uploads[upload_id]
                raise
            while sum(each.n_bytes for each in self._uploads.values()) > _MAX_MEMORY_BYTES:
                del self._uploads[next(iter(self._uploads))]
        return AttachmentPutResult(
            attachment_id=upload_id, received=len(upload.pieces), complete=upload.is_complete
        )

    def _upload_for(self, params: AttachmentPutParams) -> tuple[str, _Upload]:
        upload_id = params.attachment_id or new_id()
        if params.attachment_id is None:
            upload = _Upload(params.mime_type, params.total)
        elif (upload := self._uploads.get(upload_id)) is None:
            raise InvalidParamsError.at(
                "attachmentId", f"there is no attachment {upload_id!r}; send it again"
            )
        n_here, first_facts = len(upload.pieces), (upload.mime_type, upload.total)
        if (params.mime_type, params.total) != first_facts:
            raise InvalidParamsError.at(
                "total", "mimeType and total must stay as they were in the first piece"
            )
        if params.index > n_here or params.index >= upload.total:
            raise InvalidParamsError.at("index", f"piece {params.index} came, but {n_here} is next")
        self._uploads[upload_id] = upload
        return upload_id, upload

    def read(self, upload_id: str, path: str) -> bytes:
        """Return a complete upload. Raises `InvalidParamsError` about the field `path`."""
        with self._lock:
            upload = self._uploads.get(upload_id)
            if upload is None:
                raise InvalidParamsError.at(
                    path, f"there is no attachment {upload_id!r}; upload it with attachment/put"
                )
            if not upload.is_complete:
                n_here = len(upload.pieces)
                raise InvalidParamsError.at(
                    path, f"only {n_here} of {upload.total} pieces of it have come"
                )
            return b"".join(upload.pieces)


def _check_upload(upload: _Upload, sha256: str | None) -> None:
    if upload.n_bytes > MAX_BYTES:
        raise PayloadTooLargeError(f"an attachment has at most {MAX_BYTES >> 20} MiB")
    if not upload.is_complete:
        return
    data = b"".join(upload.pieces)
    if sha256 is not None and hashlib.sha256(data).hexdigest() != sha256:
        raise InvalidParamsError.at("sha256", "the pieces make another sha256; begin again")
    _require_type(data, upload.mime_type, "mimeType")


def read_images(files: Sequence[str | Path]) -> list[bytes]:
    """Read image files for `with_images`. Raises `OSError`, or `InvalidParamsError` for others."""
    if isinstance(files, str):  # A sequence too, of its letters.
        raise InvalidParamsError(f"images: give a list of files, also for one: [{files!r}]")
    if len(files) > MAX_IMAGES:
        raise InvalidParamsError(_TOO_MANY)
    return [_read_image(Path(file)) for file in files]


def inline_images(images: Sequence[bytes]) -> list[FilePart]:
    """Return files as parts that have them. Raises `InvalidParamsError` for one above 5 MiB."""
    if any(len(data) > _MAX_INLINE_BYTES for data in images):
        raise InvalidParamsError("a file has more than 5 MiB, too much for a daemon elsewhere")
    return [
        _part_of(data).model_copy(update={"data": base64.b64encode(data).decode()})
        for data in images
    ]


def _part_of(data: bytes) -> FilePart:
    kind = _type_of(data) or ""
    return DocumentPart() if kind == _PDF else ImagePart(mime_type=kind)


def _read_image(path: Path) -> bytes:
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES or _type_of(data) is None:
        kinds = f"PNG, JPEG, GIF or WebP image or PDF of at most {MAX_BYTES >> 20} MiB"
        raise InvalidParamsError(f"{str(path)!r} is no {kinds}")
    return data


def is_image_file(part: Part) -> bool:
    """Return whether the part is a link to a file that is an image or a PDF by its name."""
    return part.type == "resourceLink" and part.uri.lower().endswith(_SUFFIXES)


def mentioned_images(content: Sequence[Part], folders: Folders, traits: Traits) -> list[bytes]:
    """Read the files in the folders that the content has links to and the model takes.

    A file that cannot be read or shown is left out: the link alone says what the user means.
    """
    room = MAX_IMAGES - sum(isinstance(part, FilePart) for part in content)
    images: list[bytes] = []
    for part in content:
        if part.type == "resourceLink" and is_image_file(part) and len(images) < room:
            with suppress(PathOutsideWorkspaceError, InvalidParamsError, OSError):
                path = folders.resolve(part.uri, writing=False)
                is_taken = traits.reads_pdfs if path.suffix == ".pdf" else traits.sees_images
                if is_taken and path.is_file() and path.stat().st_size <= _MAX_MENTIONED_BYTES:
                    images.append(_read_image(path))
    return images


def with_images(
    content: Sequence[Part], images: Sequence[bytes], model: Callable[[], Model], log: EventLog
) -> tuple[Part, ...]:
    """Return the content with images after it, stored as the conversation's blobs, each once.

    Raises `InvalidParamsError` when the model cannot see them; then nothing is stored.
    """
    parts = [*map(_part_of, images)]
    if parts:
        require_sight(parts, model())
    has = {part.output_ref for part in content if isinstance(part, FilePart)}
    stored_parts = (
        part.model_copy(update={"output_ref": log.put_blob(data)})
        for part, data in zip(parts, images, strict=True)
    )
    return (*content, *(part for part in stored_parts if part.output_ref not in has))


def require_sight(content: Sequence[Part], model: Model) -> None:
    """Raises `InvalidParamsError` when there are images and the model cannot see them."""
    has_images = any(isinstance(part, ImagePart) for part in content)
    if has_images and not model.traits.sees_images:
        raise InvalidParamsError.at(
            "content",
            f"the model {model.name!r} does not see images; choose another, or leave them out",
        )


def stored_images(
    content: Sequence[Part], attachments: Attachments, log: EventLog
) -> tuple[Part, ...]:
    """Return the content with uploaded files stored as the conversation's blobs. Writes to disk.

    Raises `InvalidParamsError` about the first file that is unusable; then nothing is written.
    """
    files = {n: part for n, part in enumerate(content) if isinstance(part, FilePart)}
    if len(files) > MAX_IMAGES:
        raise InvalidParamsError.at("content", _TOO_MANY)
    uploads = {n: _upload_of(part, f"content.{n}", attachments, log) for n, part in files.items()}
    parts = {
        n: files[n].model_copy(update={"attachment_id": None, "output_ref": log.put_blob(data)})
        for n, data in uploads.items()
        if data is not None
    }
    return tuple(parts.get(n, part) for n, part in enumerate(content))


def _upload_of(part: FilePart, path: str, attachments: Attachments, log: EventLog) -> bytes | None:
    """Return the uploaded bytes; None if the message or the log has the file already."""
    if sum(each is not None for each in (part.data, part.attachment_id, part.output_ref)) != 1:
        raise InvalidParamsError.at(path, "a file has either data, attachmentId or outputRef")
    if part.output_ref is not None:
        log.blob_size(part.output_ref)  # Raises when there is no such image.
    if part.data is not None:
        _require_type(_decode_data(part.data, f"{path}.data"), part.mime_type, f"{path}.mimeType")
    if part.attachment_id is None:
        return None
    data = attachments.read(part.attachment_id, f"{path}.attachmentId")
    _require_type(data, part.mime_type, f"{path}.mimeType")
    return data


def _decode_data(data: str, path: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except binascii.Error as exc:
        raise InvalidParamsError.at(path, "that is not base64") from exc


def _require_type(data: bytes, mime_type: str, path: str) -> None:
    actual_type = _type_of(data)
    if actual_type != mime_type:
        raise InvalidParamsError.at(
            path, f"the data is {actual_type or 'no known image or PDF'}, not {mime_type}"
        )


def _type_of(data: bytes) -> str | None:
    return next((name for start, name in _SIGNATURES if data.startswith(start)), None)
