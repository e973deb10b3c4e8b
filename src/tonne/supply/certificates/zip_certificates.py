"""Certificates as one ZIP file, which is sent while it is made: none of it is kept."""

import io
import zipfile
from collections.abc import AsyncGenerator, Sequence

from tonne.supply.certificates.credentials.issue_credential import RenderCertificate
from tonne.supply.certificates.record import CertificateRecord


class _Pieces(io.RawIOBase):
    """What the archive has written since the last call of `take`. It cannot seek, so nothing written is changed."""

    def __init__(self) -> None:
        self._written: list[bytes] = []
        self._position = 0

    def writable(self) -> bool:
        return True

    def write(self, content: bytes) -> int:  # type: ignore[override]
        self._written.append(bytes(content))
        self._position += len(content)
        return len(content)

    def tell(self) -> int:
        return self._position

    def take(self) -> bytes:
        written, self._written = b"".join(self._written), []
        return written


async def zip_certificates(
    certificates: RenderCertificate, records: Sequence[CertificateRecord]
) -> AsyncGenerator[bytes]:
    """One PDF after the other. Raises SigningUnavailable."""
    pieces = _Pieces()
    # Stored: a PDF is compressed already.
    with zipfile.ZipFile(pieces, "w") as archive:
        for record in records:
            archive.writestr(f"certificate-{record.number}.pdf", await certificates.render(record))
            yield pieces.take()
    yield pieces.take()


async def begin(parts: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """The same parts, with the first one made: an error can then still be answered with a page."""
    first = await anext(parts)

    async def rest() -> AsyncGenerator[bytes]:
        yield first
        async for part in parts:
            yield part

    return rest()
