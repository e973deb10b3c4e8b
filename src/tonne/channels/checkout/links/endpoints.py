"""Endpoints for the offset links of an account."""

from msgspec import Struct

from tonne.channels.checkout.errors import OffsetLinkNotFound
from tonne.channels.checkout.links import schemas, store
from tonne.channels.checkout.links.settings import LinkOwner, create_link, lock_link, replace_link
from tonne.channels.checkout.links.signed_query import rotate_link_secret
from tonne.money.cards.gateways.metered_gateway import takes_cards
from tonne.platform.db.database import Database
from tonne.platform.http.json_body import read
from tonne.platform.http.lists import Paging, list_response
from tonne.platform.http.route import Request, Response, json_response
from tonne.platform.keys.secret_box import SecretBox
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock
from tonne.selling.accounts.directory import AccountDirectory
from tonne.selling.catalogue.snapshot import Catalogues


class OffsetLinkEndpoints(Struct, frozen=True):
    database: Database
    catalogues: Catalogues
    directory: AccountDirectory
    clock: Clock
    settings: Settings
    box: SecretBox

    async def create_offset_link(self, request: Request) -> Response:
        """Create an offset link.

        Creates a public page where anyone can pay by card for an order of the account.

        `secret` is returned only in this response. It signs queries: see the guide to offset links.
        """
        body = read(request.json(), schemas.OffsetLinkIn)
        owner = await self._owner(request)
        async with self.database.transaction() as tx:
            link, secret = await create_link(tx, owner, body, box=self.box, by=request.actor.at(self.clock()))
        return json_response(
            schemas.offset_link_with_secret_out(link, owner.currency, self.settings.base_url, secret), 201
        )

    async def list_offset_links(self, request: Request) -> Response:
        """List the account's offset links.

        Returns the offset links of one account, newest first, including those that are closed.
        """
        paging = Paging.of(request, f"offset links {request.scope.account_id}")
        currency = await self._currency(request)
        found = await self.database.run(store.list_links, request.scope, paging.start, paging.fetch)
        page, cursor = paging.cut(found)
        return list_response([schemas.offset_link_out(link, currency, self.settings.base_url) for link in page], cursor)

    async def read_offset_link(self, request: Request) -> Response:
        """Read an offset link.

        Returns the settings of one offset link and its public address.
        """
        currency = await self._currency(request)
        link = await self.database.run(store.find_link, request.scope, request.path("offset_link_id"))
        if link is None:
            raise OffsetLinkNotFound
        return json_response(schemas.offset_link_out(link, currency, self.settings.base_url))

    async def replace_offset_link(self, request: Request) -> Response:
        """Replace the settings of an offset link.

        Replaces all settings of an offset link; fields that are left out return to their defaults.

        To close a link, send its settings with `enabled` set to false.
        """
        document, owner = request.json(), await self._owner(request)
        async with self.database.transaction() as tx:
            # Before the body is validated: errors in it must not reveal whether somebody else's link exists.
            old = await lock_link(tx, owner.scope, request.path("offset_link_id"))
            body = read(document, schemas.OffsetLinkIn)
            link = await replace_link(tx, owner, old, body, by=request.actor.at(self.clock()))
        return json_response(schemas.offset_link_out(link, owner.currency, self.settings.base_url))

    async def rotate_offset_link_secret(self, request: Request) -> Response:
        """Rotate the secret of an offset link.

        Replaces the secret that signs the link's queries, and returns the link with the new one.

        For `overlap_s`, queries that are signed with the old secret stay valid.
        """
        document, currency = request.json_or_empty(), await self._currency(request)
        async with self.database.transaction() as tx:
            link = await lock_link(tx, request.scope, request.path("offset_link_id"))
            body = read(document, schemas.LinkSecretRotateIn)
            secret = await rotate_link_secret(
                tx, link, self.box, overlap_s=body.overlap_s, by=request.actor.at(self.clock())
            )
        return json_response(schemas.offset_link_with_secret_out(link, currency, self.settings.base_url, secret))

    async def _owner(self, request: Request) -> LinkOwner:
        """Call it before acquiring a connection: holding one while waiting for another could deadlock the pool."""
        scope = request.scope
        return LinkOwner(
            scope,
            await self._currency(request),
            await self.catalogues.current(scope.mode),
            takes_cards(self.settings, scope.mode),
        )

    async def _currency(self, request: Request) -> str:
        return (await self.directory.terms_of(request.scope)).currency
