"""The page of an account's card: payments to confirm, orders whose card was declined, and the form for another card.

Unpaid orders are charged again at once when a payer has entered another card.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import ClassVar

import structlog
from msgspec import Struct

from tonne.money.cards.errors import (
    CardGatewayUnavailable,
    CardPageNotFound,
    CardUnknown,
    PayerPageUnavailable,
    StripeNotConfigured,
)
from tonne.money.cards.gateways.card import (
    CardDetails,
    CardGateway,
    CardSetup,
    CardSetupRequest,
    PayerPageFailed,
    PayerPages,
)
from tonne.money.cards.gateways.card_simulated import SIMULATED_CARDS
from tonne.money.cards.gateways.metered_gateway import GATEWAY_OF
from tonne.money.cards.read_test_card import card_number_in, read_test_card
from tonne.money.cards.stored_cards import card_link_store
from tonne.money.cards.stored_cards.card_link_store import CardLink, DueSetup, find_card_link
from tonne.money.cards.stored_cards.card_problem_store import UnpaidOrder, list_declined, list_to_confirm
from tonne.money.cards.stored_cards.stored_card_store import find_card
from tonne.money.cards.stored_cards.stored_cards import charge_again, describe_card, store_card
from tonne.platform.db.batches import RowJobWithSettings, run_each
from tonne.platform.db.database import Database
from tonne.platform.documents.mail.link_token import hash_link_token, is_link_token
from tonne.platform.events.notification import Notifier
from tonne.platform.http.limits.rate_limit import TokenBuckets
from tonne.platform.http.route import Request, Response
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Actor, ActorKind, Clock, Mode, Scope
from tonne.platform.values.errors import TonneError
from tonne.platform.values.language import N_
from tonne.platform.web.render import FormGuard, Renderer, see_other
from tonne.platform.web.shown_errors import shown_fault
from tonne.platform.web.visitor import visitor_language
from tonne.selling.orders.load import load_orders
from tonne.selling.orders.mails.order_links import order_urls
from tonne.selling.orders.model import OrderKey
from tonne.selling.orders.queue import charges_in

# How often the worker looks at a page from which the payer has not come back.
CHECK_EVERY = timedelta(minutes=5)
BATCH = 20
# The payer is known by the link only.
PAYER = Actor(ActorKind.PAYER, "card_page")


class UpdateCard(RowJobWithSettings, frozen=True):
    EVERY_S: ClassVar[int] = 2

    gateways: Mapping[str, CardGateway]
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
            await store_card(tx, scope, card, by=PAYER.at(self.clock()))
            count = await charge_again(tx, scope, self.clock())
        _log.info("card_updated_by_payer", account_id=scope.account_id, orders=count)
        self.notifier.notify(charges_in(scope.mode))


# Payments to confirm that the page lists.
MAX_LISTED = 50

_log = structlog.get_logger()


class _CardView(Struct, frozen=True):
    link: CardLink
    card: CardDetails | None
    # Each with the path of the order's page.
    to_confirm: list[tuple[UnpaidOrder, str | None]]
    declined: list[UnpaidOrder]


class CardPage:
    def __init__(
        self,
        database: Database,
        renderer: Renderer,
        guard: FormGuard,
        update: UpdateCard,
        *,
        clock: Clock,
        settings: Settings,
    ) -> None:
        self._database = database
        self._renderer = renderer
        self._guard = guard
        self._update = update
        self._clock = clock
        self._settings = settings
        self._attempts = TokenBuckets("card_page", settings.checkouts_per_minute / 60, settings.checkouts_burst)

    @property
    def limits(self) -> tuple[TokenBuckets, ...]:
        return (self._attempts,)

    async def show(self, request: Request) -> Response:
        link = await self._find(request)
        stored = request.query("stored")[0] is not None
        if link.session_id is not None:
            # The payer has come back from the gateway's page, or opens the link again.
            try:
                if await self._update.finish(link.scope, link.session_id):
                    return see_other(f"/card/{request.path('token')}?stored=1")
            except PayerPageUnavailable:
                _log.warning("card_setup_not_looked_up", account_id=link.scope.account_id)
        return await self._show(request, link, is_stored=stored)

    async def submit(self, request: Request) -> Response:
        """In test mode a test card, in live mode the way to the gateway's page."""
        fields = self._guard.check(request)
        self._attempts.require(request.limited_as, message=N_("Too many attempts. Wait a minute, then try again."))
        link, token = await self._find(request), request.path("token")
        try:
            if link.scope.mode is Mode.TEST:
                number = read_test_card(card_number_in(fields))
                await self._update.store_test_card(link.scope, number)
                return see_other(f"/card/{token}?stored=1")
            url = await self._update.open_page(link, f"{self._settings.base_url}/card/{token}")
        except TonneError as fault:
            return await self._show(request, link, fault=fault)
        # Not a redirect: `form-action` in the content security policy would block it.
        return self._renderer.page(request, "leaving.html", url=url, place="card")

    async def _find(self, request: Request) -> CardLink:
        token = request.path("token")
        if not is_link_token(token):
            raise CardPageNotFound
        link = await self._database.run(find_card_link, hash_link_token(token), self._clock())
        if link is None:
            raise CardPageNotFound
        return link

    async def _read(self, link: CardLink) -> _CardView:
        now = self._clock()
        async with self._database.transaction() as tx:
            waiting = (await list_to_confirm(tx, link.scope, now))[:MAX_LISTED]
            orders = await load_orders(tx, [OrderKey(link.scope.account_id, order.id) for order in waiting])
            urls = await order_urls(tx, orders, settings=self._settings, now=now) if orders else {}
            return _CardView(
                link,
                await find_card(tx, link.scope),
                [(order, urls[order.id]) for order in waiting],
                await list_declined(tx, link.scope),
            )

    async def _show(
        self, request: Request, link: CardLink, *, is_stored: bool = False, fault: TonneError | None = None
    ) -> Response:
        view = await self._read(link)
        _ = visitor_language(request, link.language).translator
        form_token, headers = self._guard.issue(request)
        return self._renderer.page(
            request,
            "card_page.html",
            default_language=link.language,
            status=200 if fault is None else 422,
            headers=headers,
            test_mode=link.scope.mode is Mode.TEST,
            token=request.path("token"),
            form_token=form_token,
            link=link,
            card=view.card,
            to_confirm=view.to_confirm,
            declined=view.declined,
            is_stored=is_stored,
            fault=None if fault is None else shown_fault(fault, _),
            cards=SIMULATED_CARDS,
        )
