"""Public endpoints for programs that verify credentials: keys and status lists."""

import msgspec

from tonne.platform.db.database import Database
from tonne.platform.http.route import Access, Request, Response, Route, RouteMaker, json_response
from tonne.platform.keys.signing.errors import SigningUnavailable
from tonne.platform.keys.signing.keys import SigningKeys
from tonne.platform.keys.signing.model import KeyPurpose
from tonne.platform.process.expiring_cache import ExpiringCache
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock, Mode, to_wire
from tonne.supply.certificates.credentials.did import did_of, key_address
from tonne.supply.certificates.credentials.errors import StatusListNotFound
from tonne.supply.certificates.credentials.issuer import DescribeIssuer
from tonne.supply.certificates.credentials.status_list import FRESH_S, compose_status_list, parse_list_name
from tonne.supply.certificates.credentials.status_store import has_list, read_statuses_any_account
from tonne_verify.credentials import sign_credential

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
        self._lists: ExpiringCache[tuple[Mode, int], bytes] = ExpiringCache(FRESH_S / 2, max_entries=CACHED_LISTS)

    async def did_document(self, _: Request) -> Response:
        """The DID document of the seller, with the public keys of its credentials."""
        return _public(json_response(await self._issuer.did_document()))

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
            found = await self._sign_list(*requested)
            self._lists.put(requested, found)
        return _public(Response(found))

    async def _sign_list(self, mode: Mode, number: int) -> bytes:
        async with self._database.connection() as connection:
            if not await has_list(connection, number):
                raise StatusListNotFound
            statuses = await read_statuses_any_account(connection, mode, number)
        key, now = await self._keys.current(KeyPurpose.CREDENTIAL), self._clock()
        composed = compose_status_list(mode, number, statuses, base_url=self._base_url, now=now)
        method = key_address(did_of(self._base_url), key.id)
        return msgspec.json.encode(sign_credential(composed, key.private_key, method, to_wire(now)))

    def routes(self) -> list[Route]:
        route = RouteMaker("Verification", Access.PUBLIC)
        return [
            route("GET /.well-known/did.json", self.did_document, None, SigningUnavailable),
            route("GET /.well-known/tonne-issuer.json", self.issuer_file, None, SigningUnavailable),
            route("GET /credentials/status/{list}", self.status_list, None, StatusListNotFound, SigningUnavailable),
        ]


def _public(response: Response) -> Response:
    response.headers |= PUBLIC_FILE
    return response
