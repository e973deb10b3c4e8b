"""A payer enters another card for an account, and its unpaid orders are charged again at once."""

from collections.abc import Mapping
from datetime import timedelta
from typing import ClassVar

import structlog
from msgspec import Struct

from tonne.money.cards.errors import CardGatewayUnavailable, CardUnknown, PayerPageUnavailable, StripeNotConfigured
from tonne.money.cards.gateways.card import CardDetails, CardGateway
from tonne.money.cards.gateways.card_gateways import GATEWAY_OF
from tonne.money.cards.gateways.confirmation import CardSetup, CardSetupRequest, PayerPageFailed, PayerPages
from tonne.money.cards.stored_cards import card_link_store
from tonne.money.cards.stored_cards.card_link_store import CardLink, DueSetup
from tonne.money.cards.stored_cards.stored_card_store import find_card
from tonne.money.cards.stored_cards.stored_cards import charge_again, describe_card, store_card
from tonne.platform.db.batches import run_each
from tonne.platform.db.database import Database
from tonne.platform.events.notification import Notifier
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Actor, ActorKind, Clock, Mode, Scope
from tonne.selling.orders.model import charges_in

# How often the worker looks at a page from which the payer has not come back.
CHECK_EVERY = timedelta(minutes=5)
BATCH = 20
# The payer is known by the link only.
PAYER = Actor(ActorKind.PAYER, "card_page")

_log = structlog.get_logger()


class UpdateCard(Struct, frozen=True):
    EVERY_S: ClassVar[int] = 2

    database: Database
    gateways: Mapping[str, CardGateway]
    clock: Clock
    settings: Settings
    notifier: Notifier

    async def store_test_card(self, scope: Scope, number: str) -> None:
        await self._store(scope, await describe_card(self.gateways, Mode.TEST, None, number))

    async def open_page(self, link: CardLink, page_url: str) -> str:
        """The URL of the gateway's page on which the payer enters a card.

        An open page is used again: with another one, a card that the payer enters on the first would not be found.
        """
        pages = self._pages()
        if link.session_id is not None and (url := await self._find_open(pages, link.scope, link.session_id)):
            return url
        card = await self.database.run(find_card, link.scope)
        request = CardSetupRequest(
            account_id=link.scope.account_id,
            mode=link.scope.mode,
            customer=None if card is None else card.customer,
            currency=link.currency,
            done_url=f"{page_url}?entered=1",
            back_url=page_url,
        )
        try:
            page = await pages.open_card_setup(request)
        except PayerPageFailed as error:
            raise PayerPageUnavailable from error
        async with self.database.connection() as connection:
            check_at = self.clock() + CHECK_EVERY
            await card_link_store.record_setup(connection, link.scope, page.session_id, check_at)
        return page.url

    async def _find_open(self, pages: PayerPages, scope: Scope, session_id: str) -> str | None:
        try:
            return (await pages.look_up_card_setup(session_id, scope.account_id)).url
        except PayerPageFailed as error:
            raise PayerPageUnavailable from error

    async def finish(self, scope: Scope, session_id: str) -> bool:
        """Store the card that was entered on the gateway's page; false if there is none yet, or it is gone again.

        Raises PayerPageUnavailable if the gateway cannot be asked.
        """
        try:
            setup = await self._pages().look_up_card_setup(session_id, scope.account_id)
        except PayerPageFailed as error:
            raise PayerPageUnavailable from error
        if setup.is_open:
            return False
        card = await self._describe(scope, setup)
        if card is not None:
            await self._store(scope, card)
        await self.database.run(card_link_store.finish_setup, scope, session_id)
        return card is not None

    async def _describe(self, scope: Scope, setup: CardSetup) -> CardDetails | None:
        """None if no card was entered, or if it was removed at the gateway since."""
        if setup.customer is None or setup.method is None:
            return None
        try:
            return await describe_card(self.gateways, scope.mode, setup.customer, setup.method)
        except CardUnknown as error:
            _log.warning("entered_card_unknown", account_id=scope.account_id, reason=str(error))
            return None
        except CardGatewayUnavailable as error:
            raise PayerPageUnavailable from error

    async def run_once(self) -> bool:
        """A job of the worker: finish the pages from which a payer has not come back."""
        now = self.clock()
        due = await self.database.run(card_link_store.claim_setups, now, now + CHECK_EVERY, BATCH)

        async def finish(setup: DueSetup) -> None:
            await self.finish(setup.scope, setup.session_id)

        return await run_each(
            due, finish, failure_event="card_not_updated", describe=lambda setup: {"account_id": setup.scope.account_id}
        )

    def _pages(self) -> PayerPages:
        gateway = self.gateways.get(GATEWAY_OF[Mode.LIVE])
        if gateway is None or not isinstance(gateway, PayerPages):
            raise StripeNotConfigured
        return gateway

    async def _store(self, scope: Scope, card: CardDetails) -> None:
        async with self.database.transaction() as tx:
            await store_card(tx, scope, card, actor=PAYER, now=self.clock())
            count = await charge_again(tx, scope, self.clock())
        _log.info("card_updated_by_payer", account_id=scope.account_id, orders=count)
        self.notifier.notify(charges_in(scope.mode))
