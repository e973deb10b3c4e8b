"""The offset links of an account over HTTP."""

from tonne.accounts.directory import AccountDirectory
from tonne.base.clock import Clock
from tonne.base.paging import Position, make_cursor, parse_cursor, parse_limit
from tonne.base.settings import Settings
from tonne.catalog.snapshot import Catalogues
from tonne.db.pool import Database
from tonne.http.json_body import read
from tonne.http.lists import ListOut
from tonne.http.route import Answer, Call, json_answer
from tonne.payments import offset_link_store as store
from tonne.payments.offset_link_errors import OffsetLinkNotFound
from tonne.payments.offset_link_schemas import OffsetLinkIn, OffsetLinkOut, offset_link_out
from tonne.payments.offset_links import Shop, create_link, replace_link, require


class OffsetLinkEndpoints:
    def __init__(
        self,
        database: Database,
        catalogues: Catalogues,
        directory: AccountDirectory,
        *,
        clock: Clock,
        settings: Settings,
    ) -> None:
        self._database = database
        self._catalogues = catalogues
        self._directory = directory
        self._clock = clock
        self._base_url = settings.base_url

    async def create_offset_link(self, call: Call) -> Answer:
        body = read(call.json(), OffsetLinkIn)
        shop = await self._shop(call)
        async with self._database.transaction() as tx:
            link = await create_link(tx, shop, body, actor=call.actor, now=self._clock())
        return json_answer(offset_link_out(link, shop.currency, self._base_url), 201)

    async def list_offset_links(self, call: Call) -> Answer:
        limit_text, after = call.query("limit", "after")
        limit = parse_limit(limit_text)
        list_name = f"offset links {call.scope.account_id}"
        start = parse_cursor(after, list_name)
        currency = await self._currency(call)
        async with self._database.connection() as connection:
            # One more than the page, to know whether another follows.
            found = await store.list_links(connection, call.scope, start, limit + 1)
        last = found[limit - 1] if len(found) > limit else None
        cursor = None if last is None else make_cursor(Position(last.created_at, last.id), list_name)
        page = [offset_link_out(link, currency, self._base_url) for link in found[:limit]]
        return json_answer(ListOut[OffsetLinkOut](cursor is not None, cursor, page))

    async def read_offset_link(self, call: Call) -> Answer:
        currency = await self._currency(call)
        async with self._database.connection() as connection:
            link = await store.find_link(connection, call.scope, call.path("offset_link_id"))
        if link is None:
            raise OffsetLinkNotFound
        return json_answer(offset_link_out(link, currency, self._base_url))

    async def replace_offset_link(self, call: Call) -> Answer:
        document, shop = call.json(), await self._shop(call)
        async with self._database.transaction() as tx:
            # Before the body is judged: of a link that is not theirs, nobody learns more than that.
            old = await require(tx, shop.scope, call.path("offset_link_id"))
            body = read(document, OffsetLinkIn)
            link = await replace_link(tx, shop, old, body, actor=call.actor, now=self._clock())
        return json_answer(offset_link_out(link, shop.currency, self._base_url))

    async def _shop(self, call: Call) -> Shop:
        """Before the connection is taken: one request never holds one connection and waits for another."""
        return Shop(call.scope, await self._currency(call), await self._catalogues.current(call.scope.mode))

    async def _currency(self, call: Call) -> str:
        return (await self._directory.terms_of(call.scope)).currency
