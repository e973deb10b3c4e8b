"""The issuer file of `tonne-verify`: all public keys of the operator, and where its logs are."""

from typing import Any

from tonne.platform.db.database import Database
from tonne.platform.keys.signing.keys import SigningKeys
from tonne.platform.keys.signing.model import KeyPurpose, KeyRecord
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import to_wire
from tonne.supply.certificates.credentials.did import did_document, did_of, key_address
from tonne.supply.transparency.checkpoint_store import PublishedCheckpoint, find_latest
from tonne.supply.transparency.log_keys import LogKeys
from tonne.supply.transparency.log_store import list_logs
from tonne.supply.transparency.model import Log
from tonne_verify.issuer import ISSUER_FORMAT
from tonne_verify.multibase import encode_multikey
from tonne_verify.notes import split_note

Json = dict[str, Any]


class DescribeIssuer:
    def __init__(self, database: Database, keys: SigningKeys, settings: Settings) -> None:
        self._database = database
        self._keys = keys
        self._log_keys = LogKeys(keys)
        self._settings = settings

    async def did_document(self) -> Json:
        keys = await self._keys.all(KeyPurpose.CREDENTIAL)
        return did_document(did_of(self._settings.base_url), keys)

    async def issuer_file(self) -> Json:
        """Retired keys stay listed: their signatures stay valid. A leaked one says from when they do not count.

        A leaked key of the log is not listed. The last checkpoint of a closed log counts without a signature.
        """
        did = did_of(self._settings.base_url)
        async with self._database.connection() as connection:
            logs = await list_logs(connection)
            finals = {log.id: await find_latest(connection, log.id) for log in logs if log.closed_at is not None}
        return {
            "format": ISSUER_FORMAT,
            "issuer": did,
            "name": self._settings.seller_name,
            "credential_keys": [_credential_key(did, key) for key in await self._keys.all(KeyPurpose.CREDENTIAL)],
            "document_certificates": [_certificate(key) for key in await self._keys.all(KeyPurpose.DOCUMENT)],
            "logs": [await self._log(log, finals.get(log.id)) for log in logs],
        }

    async def _log(self, log: Log, final: PublishedCheckpoint | None) -> Json:
        return {
            "mode": log.mode,
            "origin": log.origin,
            "url": f"{self._settings.base_url}{log.path}",
            "keys": [key.vkey for key in await self._log_keys.trusted_keys(log.origin)],
            "witnesses": [witness.key.vkey for witness in self._settings.witnesses],
            "closed": None if log.closed_at is None else to_wire(log.closed_at),
            "final": None if final is None else split_note(final.note)[0],
        }


def _credential_key(did: str, key: KeyRecord) -> Json:
    return {
        "id": key_address(did, key.id),
        "public_key_multibase": encode_multikey(key.public_key),
        "from": to_wire(key.created_at),
        **_period(key),
    }


def _certificate(key: KeyRecord) -> Json | str:
    period = _period(key)
    return key.public if period == {"until": None} else {"certificate": key.public, **period}


def _period(key: KeyRecord) -> Json:
    revoked = {} if key.revoked_from is None else {"revoked_from": to_wire(key.revoked_from)}
    return {"until": None if key.retired_at is None else to_wire(key.retired_at), **revoked}
