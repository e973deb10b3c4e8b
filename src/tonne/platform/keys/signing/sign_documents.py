"""Signs the PDFs that leave the service."""

import asyncio
from datetime import datetime

import structlog

from tonne.platform.keys.signing.document_key import DocumentKey, KeyUnusable
from tonne.platform.keys.signing.errors import SigningUnavailable
from tonne.platform.keys.signing.keys import SigningKeys

_log = structlog.get_logger()


class SignDocuments:
    def __init__(self, keys: SigningKeys, time_stamp_url: str = "") -> None:
        self._keys = keys
        self._time_stamp_url = time_stamp_url

    async def sign(self, pdf: bytes, issued_at: datetime) -> bytes:
        """The signed file. The same file, time and key give the same bytes, except with time stamps.

        Raises SigningUnavailable.
        """
        key = await self._keys.document()
        try:
            return await asyncio.to_thread(self._sign, pdf, key, issued_at)
        except KeyUnusable as error:
            _log.error("document_not_signed", key_id=key.record.id, reason=str(error))
            raise SigningUnavailable from error

    def _sign(self, pdf: bytes, key: DocumentKey, issued_at: datetime) -> bytes:
        # pyHanko takes a quarter of a second to import, which a process that signs nothing saves.
        from tonne.platform.keys.signing.sign_pdf import sign_pdf  # noqa: PLC0415
        from tonne.platform.keys.signing.time_stamps import TimeStampServer  # noqa: PLC0415

        time_stamps = TimeStampServer(self._time_stamp_url) if self._time_stamp_url else None
        return sign_pdf(pdf, key, issued_at, time_stamps)
