"""The parts of a user's message."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from oh_daemon.protocol.base import Contract, Range

ImageType = Annotated[str, Field(pattern=r"^image/(png|jpeg|gif|webp)$")]
FileType = Annotated[str, Field(pattern=r"^(image/(png|jpeg|gif|webp)|application/pdf)$")]


class TextPart(Contract):
    type: Literal["text"] = "text"
    text: Annotated[str, Field(max_length=1 << 20)]
    """What the user wrote."""


class ImagePart(Contract):
    """An image, given by one of three fields; in the log it has `data` or `outputRef`."""

    type: Literal["image"] = "image"
    mime_type: ImageType
    data: Annotated[str, Field(max_length=-(-(5 << 20) // 3) * 4)] | None = None
    """Base64; at most 5 MiB once decoded."""
    attachment_id: str | None = None
    """Id from `attachment/put`."""
    output_ref: str | None = None
    """Refers to an image that this conversation already has; `output/read` gives it in base64."""


class DocumentPart(Contract):
    """A PDF, given by one of three fields; in the log it has `data` or `outputRef`.

    A model that reads PDFs gets the document, another one its text.
    """

    type: Literal["document"] = "document"
    mime_type: Literal["application/pdf"] = "application/pdf"
    name: Annotated[str, Field(max_length=255)] | None = None
    """Its name for the model and for people, such as `invoice.pdf`."""
    data: Annotated[str, Field(max_length=-(-(5 << 20) // 3) * 4)] | None = None
    """Base64; at most 5 MiB once decoded."""
    attachment_id: str | None = None
    """Id from `attachment/put`."""
    output_ref: str | None = None
    """Refers to a document that this conversation already has."""


class ResourceLinkPart(Contract):
    """A file or conversation that the user refers to; the agent reads a file when it needs it.

    An image or PDF in the open folders is added by the daemon for a model that takes it. Of a
    folder (its URI ends in `/`), the agent gets the names of the files; of `oh-git:/diff`, what has
    changed since the last commit; of a page with `fetch`, the text.
    """

    type: Literal["resourceLink"] = "resourceLink"
    uri: str
    """URI of a `file:`, of a conversation (`oh-log:/ID`), of `oh-git:/diff`, or of a page."""
    name: str | None = None
    """Its name for people."""
    range: Range | None = None
    """The lines that are meant."""
    text: str | None = None
    """What is not read later: of a conversation (`oh-log:/ID`) what was said in it, of a folder, of
    changes, of a page. The daemon fills this in."""
    fetch: bool | None = None
    """The user wants this page, `http` or `https`, to be fetched."""


class ResourcePart(Contract):
    """A text given in full, for instance a web page or an email."""

    type: Literal["resource"] = "resource"
    uri: str
    """Where the text is from."""
    mime_type: str | None = None
    text: Annotated[str, Field(max_length=1 << 20)]
    """The whole text."""


class SelectionPart(Contract):
    """The text that the user has selected in an editor, as the editor shows it."""

    type: Literal["selection"] = "selection"
    uri: str
    range: Range
    """What is selected."""
    text: Annotated[str, Field(max_length=1 << 20)]
    """The text that is selected."""
    version: int | None = None
    """LSP's version of the document."""


class DiagnosticsPart(Contract):
    """Problems of one document, in LSP's form."""

    type: Literal["diagnostics"] = "diagnostics"
    uri: str
    items: tuple[dict[str, Any], ...]
    """LSP's `Diagnostic` objects."""


class CommandPart(Contract):
    """A command by its name, from `command/list`, with the text that the user wrote after it."""

    type: Literal["command"] = "command"
    name: Annotated[str, Field(max_length=100)]
    """Its name."""
    args: Annotated[str, Field(max_length=1 << 16)] | None = None
    """What the user wrote after the name."""
    prompt: str | None = None
    """What the model reads instead; the daemon writes it."""


class SkillPart(Contract):
    """A skill by its name, from `skill/list`, with the text that the user wrote after it."""

    type: Literal["skill"] = "skill"
    name: Annotated[str, Field(max_length=100)]
    """Its name."""
    args: Annotated[str, Field(max_length=1 << 16)] | None = None
    """What the user wrote after the name."""
    prompt: str | None = None
    """What the model reads instead; the daemon writes it."""


Part = Annotated[
    TextPart
    | ImagePart
    | DocumentPart
    | ResourceLinkPart
    | ResourcePart
    | SelectionPart
    | DiagnosticsPart
    | CommandPart
    | SkillPart,
    Field(discriminator="type"),
]
