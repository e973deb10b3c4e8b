"""Signs the PDFs that leave the service."""

import asyncio
from datetime import datetime

import structlog

from tonne.platform.keys.signing.document_key import KeyUnusable
from tonne.platform.keys.signing.errors import SigningUnavailable
from tonne.platform.keys.signing.keys import SigningKeys
from tonne.platform.keys.signing.sign_pdf import sign_pdf
from tonne.platform.keys.signing.time_stamps import TimeStampServer

_log = structlog.get_logger()


class SignDocuments:
    def __init__(self, keys: SigningKeys, time_stamp_url: str = "") -> None:
        self._keys = keys
        self._time_stamps = TimeStampServer(time_stamp_url) if time_stamp_url else None

    async def sign(self, pdf: bytes, issued_at: datetime) -> bytes:
        """The signed file. The same file, time and key give the same bytes, except with time stamps.

        Raises SigningUnavailable.
        """
        key = await self._keys.document()
        try:
            return await asyncio.to_thread(sign_pdf, pdf, key, issued_at, self._time_stamps)
        except KeyUnusable as error:
            _log.error("document_not_signed", key_id=key.record.id, reason=str(error))
            raise SigningUnavailable from error
