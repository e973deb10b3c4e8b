"""Public endpoints for programs that verify credentials: all public keys of the operator, and status lists.

The issuer file of `tonne-verify` also says where the logs are. Status lists (W3C Bitstring Status List 1.0) say which
certificates were replaced or withdrawn.
"""

import base64
import gzip
import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from tonne.platform.db.database import Database
from tonne.platform.http.errors import RouteNotFound
from tonne.platform.http.route import Access, Request, Response, Route, RouteMaker, json_response
from tonne.platform.http.static_files import FOR_EVER
from tonne.platform.keys.signing.errors import SigningUnavailable
from tonne.platform.keys.signing.keys import SigningKeys
from tonne.platform.keys.signing.model import KeyPurpose, KeyRecord
from tonne.platform.process.expiring_cache import ExpiringCache
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock, Mode, to_wire
from tonne.supply.certificates.credentials.credential import (
    LIST_LENGTH,
    StatusPurpose,
    StatusValue,
    status_list_url,
)
from tonne.supply.certificates.credentials.did import did_document, did_of, key_address
from tonne.supply.certificates.credentials.errors import StatusListNotFound
from tonne.supply.certificates.credentials.sd_jwt import issuer_metadata
from tonne.supply.certificates.credentials.status_store import has_list, read_statuses_any_account
from tonne.supply.transparency.endpoints import RETIREMENTS
from tonne.supply.transparency.log_keys import LogKeys
from tonne.supply.transparency.log_store import PublishedCheckpoint, find_latest, list_logs
from tonne.supply.transparency.model import Log
from tonne_verify.credentials import sign_credential
from tonne_verify.issuer import ISSUER_FORMAT
from tonne_verify.multibase import encode_multikey
from tonne_verify.notes import split_note
from tonne_verify.vocabulary import CREDENTIALS_V2, MEDIA_TYPES, read_vocabulary

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

    async def token_issuer(self) -> Json:
        return issuer_metadata(self._settings.base_url, await self._keys.all(KeyPurpose.CREDENTIAL))

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
        url = f"{self._settings.base_url}{log.path}"
        return {
            "mode": log.mode,
            "origin": log.origin,
            "url": url,
            "retirements": f"{url}/{RETIREMENTS}" if self._settings.log_discloses else None,
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


# How long a verifier may use its copy.
FRESH_S = 60
# An older list is refused: somebody could show it instead of the current one.
VALID_FOR = timedelta(days=1)
_NAME = re.compile(r"(message|revocation)-(live|test)-(0|[1-9][0-9]{0,11})")


class ListName(NamedTuple):
    """`revocation-live-3` is the fourth list of live certificates for this purpose."""

    purpose: StatusPurpose
    mode: Mode
    number: int


def parse_list_name(name: str) -> ListName | None:
    found = _NAME.fullmatch(name)
    return None if found is None else ListName(StatusPurpose(found[1]), Mode(found[2]), int(found[3]))


def encode_list(purpose: StatusPurpose, statuses: Iterable[tuple[int, StatusValue]]) -> str:
    """The list in multibase, the first position in the highest bits of the first byte."""
    size = purpose.size
    bits = bytearray(LIST_LENGTH * size // 8)
    for position, status in statuses:
        byte, place = divmod(position * size, 8)
        value = int(status) if purpose is StatusPurpose.MESSAGE else status is not StatusValue.VALID
        bits[byte] |= value << (8 - size - place)
    # Without a time in the header: the same list gives the same text.
    packed = gzip.compress(bytes(bits), mtime=0)
    return "u" + base64.urlsafe_b64encode(packed).decode().rstrip("=")


def compose_status_list(
    name: ListName, statuses: Iterable[tuple[int, StatusValue]], *, base_url: str, now: datetime
) -> Json:
    """Without a signature."""
    url = status_list_url(base_url, *name)
    return {
        "@context": [CREDENTIALS_V2],
        "id": url,
        "type": ["VerifiableCredential", "BitstringStatusListCredential"],
        "issuer": did_of(base_url),
        "validFrom": to_wire(now),
        "validUntil": to_wire(now + VALID_FOR),
        "credentialSubject": {
            "id": f"{url}#list",
            "type": "BitstringStatusList",
            "statusPurpose": name.purpose,
            "encodedList": encode_list(name.purpose, statuses),
            "ttl": FRESH_S * 1000,
        },
    }


# Any website may read them: they are the same for everyone, and verifiers run in browsers, too.
PUBLIC_FILE = {"Cache-Control": f"public, max-age={FRESH_S}", "Access-Control-Allow-Origin": "*"}
CACHED_LISTS = 100


class IssuerEndpoints:
    def __init__(self, database: Database, keys: SigningKeys, *, clock: Clock, settings: Settings) -> None:
        self._database = database
        self._keys = keys
        self._clock = clock
        self._base_url = settings.base_url
        self._issuer = DescribeIssuer(database, keys, settings)
        self._lists: ExpiringCache[ListName, bytes] = ExpiringCache(FRESH_S / 2, max_entries=CACHED_LISTS)

    async def did_document(self, _: Request) -> Response:
        """The DID document of the seller, with the public keys of its credentials."""
        return _public(json_response(await self._issuer.did_document()))

    async def token_issuer(self, _: Request) -> Response:
        """The public keys of tokens (SD-JWT VC), as JSON Web Keys."""
        return _public(json_response(await self._issuer.token_issuer()))

    async def issuer_file(self, _: Request) -> Response:
        """All public keys of the seller and its logs, for `tonne-verify --issuer`."""
        return _public(json_response(await self._issuer.issuer_file()))

    async def status_list(self, request: Request) -> Response:
        """Which certificates were replaced or withdrawn, as a signed list."""
        requested = parse_list_name(request.path("list"))
        if requested is None:
            raise StatusListNotFound
        found = self._lists.get(requested)
        if found is None:
            found = await self._sign_list(requested)
            self._lists.put(requested, found)
        return _public(Response(found))

    async def vocabulary(self, request: Request) -> Response:
        """The JSON-LD context or the JSON schema of credentials. They never change."""
        name = request.path("file")
        if name not in MEDIA_TYPES:
            raise RouteNotFound
        headers = {"Cache-Control": FOR_EVER, "Access-Control-Allow-Origin": "*"}
        return Response(read_vocabulary(name), media_type=MEDIA_TYPES[name].encode(), headers=headers)

    async def _sign_list(self, name: ListName) -> bytes:
        async with self._database.connection() as connection:
            if not await has_list(connection, name.number):
                raise StatusListNotFound
            statuses = await read_statuses_any_account(connection, name.mode, name.number)
        key, now = await self._keys.current(KeyPurpose.CREDENTIAL), self._clock()
        composed = compose_status_list(name, statuses, base_url=self._base_url, now=now)
        method = key_address(did_of(self._base_url), key.id)
        return msgspec.json.encode(sign_credential(composed, key.private_key, method, to_wire(now)))

    def routes(self) -> list[Route]:
        route = RouteMaker("Verification", Access.PUBLIC)
        return [
            route("GET /.well-known/did.json", self.did_document, None, SigningUnavailable),
            route("GET /.well-known/jwt-vc-issuer", self.token_issuer, None, SigningUnavailable),
            route("GET /.well-known/tonne-issuer.json", self.issuer_file, None, SigningUnavailable),
            route("GET /credentials/vocabulary/{file}", self.vocabulary, None, RouteNotFound),
            route("GET /credentials/status/{list}", self.status_list, None, StatusListNotFound, SigningUnavailable),
        ]


def _public(response: Response) -> Response:
    response.headers |= PUBLIC_FILE
    return response
