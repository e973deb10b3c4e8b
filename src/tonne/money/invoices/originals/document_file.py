"""A file of an invoice or credit note as a value: the bytes that were sent, which are never made again."""

import hashlib
from datetime import date, datetime
from enum import StrEnum

import zstandard
from msgspec import Struct

# Higher levels take ten times as long and save 2 %.
_LEVEL = 9


class FileFormat(StrEnum):
    """The PDF contains the same CII, if the document has one."""

    PDF = "pdf"
    CII = "cii"
    UBL = "ubl"

    @property
    def label(self) -> str:
        return "XML" if self is FileFormat.CII else self.upper()


MEDIA_TYPES = {FileFormat.PDF: "application/pdf", FileFormat.CII: "application/xml", FileFormat.UBL: "application/xml"}


class FileDamaged(Exception):
    """The stored bytes are not those that were stored."""


class FileKey(Struct, frozen=True):
    """The day of issue leads to the partition."""

    document_id: str
    issued_on: date
    format: FileFormat

    def __str__(self) -> str:
        return f"{self.document_id}/{self.issued_on}/{self.format}"

    @classmethod
    def parse(cls, text: str) -> "FileKey":
        document_id, day, file_format = text.split("/")
        return cls(document_id, date.fromisoformat(day), FileFormat(file_format))


class DocumentFile(Struct, frozen=True):
    """`body` is compressed."""

    document_id: str
    issued_on: date
    format: FileFormat
    sha256: bytes
    raw_size: int
    body: bytes
    rendered_at: datetime
    retain_until: date

    @property
    def key(self) -> FileKey:
        return FileKey(self.document_id, self.issued_on, self.format)

    @property
    def tag(self) -> str:
        """A strong entity tag."""
        return f'"{self.sha256.hex()}"'

    def read(self) -> bytes:
        """The bytes as they were rendered. Raises FileDamaged."""
        try:
            content = zstandard.ZstdDecompressor().decompress(self.body, max_output_size=self.raw_size)
        except zstandard.ZstdError as error:
            raise FileDamaged(f"{self.key}: {error}") from error
        if hashlib.sha256(content).digest() != self.sha256:
            raise FileDamaged(f"{self.key}: the digest differs")
        return content


def document_file(key: FileKey, content: bytes, *, rendered_at: datetime, retention_years: int) -> DocumentFile:
    return DocumentFile(
        document_id=key.document_id,
        issued_on=key.issued_on,
        format=key.format,
        sha256=hashlib.sha256(content).digest(),
        raw_size=len(content),
        body=zstandard.ZstdCompressor(level=_LEVEL).compress(content),
        rendered_at=rendered_at,
        retain_until=date(key.issued_on.year + retention_years, 12, 31),
    )
