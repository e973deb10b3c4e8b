"""Issue the tax documents of orders that a card has paid, within a minute after the payment.

An account gets a full invoice, and so does a business at checkout. A private person at checkout gets a simplified one
up to a limit, as does an account whose address is not known.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import ClassVar, Protocol

import structlog
from msgspec import Struct

from tonne.money.cards.captured_store import sum_discounts
from tonne.money.invoices import store
from tonne.money.invoices.documents.held_back import HeldBack, KnownFacts, held_back_by
from tonne.money.invoices.documents.home_tax import find_home_rates, lacks_rate, rate_key
from tonne.money.invoices.invoice_events import ISSUED, record_invoices
from tonne.money.invoices.issuing import due_document_store
from tonne.money.invoices.issuing.billed_order_store import insert_billed_orders
from tonne.money.invoices.issuing.compose_invoice import Prepaid, compose_invoice
from tonne.money.invoices.issuing.due_document_store import DueDocument, HeldBy
from tonne.money.invoices.model import BilledOrganisation, Invoice, billed_order, own_reference
from tonne.money.invoices.tax_documents import DocumentKind, take_issue_numbers
from tonne.platform.db.batches import RETRY_AFTER, RowJobWithSettings, run_claimed
from tonne.platform.db.database import Connection
from tonne.platform.settings.currency_limits import limit_minor
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import TaxTreatment
from tonne.platform.values.context import Mode, job_actor, replace
from tonne.selling.accounts.tax.vat_checks import find_vat_check
from tonne.selling.catalogue.prices.reference_rates import HomeRate
from tonne.selling.orders.buyer import BuyerDetails, list_buyers
from tonne.selling.orders.load import load_orders
from tonne.selling.orders.model import Order, OrderKey, OrderStatus

BATCH = 500
ACTOR = job_actor("issue_documents")
# Documents that are held back are tried again after this time.
HELD_BACK_RETRY = RETRY_AFTER
_OVER = {OrderStatus.CANCELLED, OrderStatus.FAILED}

_log = structlog.get_logger()


class CorrectDocuments(Protocol):
    """Credit what was refunded of these orders, or arrived too little, before they had a document.

    `refunds` comes after this package, so it is passed in. `discounts` is what arrived too little, by order.
    """

    async def __call__(
        self, tx: Connection, orders: Sequence[Order], discounts: Mapping[str, int], now: datetime
    ) -> None: ...


class DocumentDraft(Struct, frozen=True):
    """Which document an order gets, and for whom. One that lacks something is held back."""

    order: Order
    due: DueDocument
    kind: DocumentKind
    lacks: HeldBack
    buyer: BilledOrganisation
    home_rate: HomeRate | None
    # The country whose tax the order has, if it is not that of the seller.
    taxed_in: str | None


class IssueDocuments(RowJobWithSettings, frozen=True):
    correct: CorrectDocuments

    EVERY_S: ClassVar[int] = 2

    async def run_once(self) -> bool:
        """Issue a batch; false if none is due."""
        return await self._run(self._claim, BATCH)

    async def issue_now(self, keys: Sequence[OrderKey]) -> None:
        """Issue those of these orders that are due, for a mail that names them."""

        async def claim(tx: Connection, limit: int) -> list[DueDocument]:
            return await due_document_store.claim_documents_of(tx, keys, self.clock(), limit)

        if keys:
            await self._run(claim, len(keys))

    async def _run(self, claim: Callable[[Connection, int], Awaitable[list[DueDocument]]], limit: int) -> bool:
        return await run_claimed(
            self.database,
            claim,
            self._issue,
            self._postpone,
            limit=limit,
            failure_event="document_not_issued",
            describe=lambda due: {"order_id": due.order_id},
        )

    async def _claim(self, tx: Connection, limit: int) -> list[DueDocument]:
        return await due_document_store.claim_due_documents(tx, self.clock(), limit)

    async def _postpone(self, tx: Connection, due: Sequence[DueDocument]) -> None:
        await due_document_store.postpone_documents(tx, due, self.clock() + RETRY_AFTER)

    async def _issue(self, tx: Connection, due: Sequence[DueDocument]) -> None:
        await issue_documents(tx, due, self.settings, self.correct, now=self.clock())


async def issue_documents(
    tx: Connection, due: Sequence[DueDocument], settings: Settings, correct: CorrectDocuments, *, now: datetime
) -> None:
    """Issue the documents of these locked rows, and credit what was refunded of their orders meanwhile.

    Orders are not locked: neither their allocation nor their events wait. Call it last in the transaction.
    """
    drafts = await _draft(tx, due, settings, now)
    held = [replace(each.due, held_by=_reason(each.lacks)) for each in drafts if each.lacks]
    if held:
        await due_document_store.postpone_documents(tx, held, now + HELD_BACK_RETRY)
        _log.warning("documents_held_back", orders=len(held), first_order_id=held[0].order_id)
    waiting = {each.order_id for each in held}
    done = [each for each in due if each.order_id not in waiting]
    await due_document_store.remove_due_documents(tx, [each.key for each in done])
    ready = [each for each in drafts if not each.lacks]
    await _insert(tx, ready, settings, now)
    orders = [each.order for each in ready]
    discounts = await sum_discounts(tx, [order.key for order in orders])
    changed = [order for order in orders if order.refunded_minor or order.id in discounts]
    if changed:
        await correct(tx, changed, discounts, now)


def _reason(lacks: HeldBack) -> HeldBy:
    return HeldBy.SELLER_DETAILS_MISSING if lacks.hold_reason is None else HeldBy(lacks.hold_reason.value)


async def _draft(tx: Connection, due: Sequence[DueDocument], settings: Settings, now: datetime) -> list[DocumentDraft]:
    """Those of orders that were cancelled without a document need none."""
    rows = {each.order_id: each for each in due}
    orders = [each for each in await load_orders(tx, [each.key for each in due]) if each.status not in _OVER]
    ids = sorted({order.scope.organisation_id for order in orders})
    organisations = {id_: await store.find_billed_organisation(tx, id_) for id_ in ids}
    keys = {
        order.id: rate_key(order.currency, settings, now, paid_at=rows[order.id].paid_at, supplied_on=order.supplied_on)
        for order in orders
    }
    rates = await find_home_rates(tx, keys, settings)
    details: dict[str, BuyerDetails] = {}
    for scope in dict.fromkeys(order.scope for order in orders if order.is_paid_at_checkout):
        details |= await list_buyers(tx, scope, [order.id for order in orders if order.scope == scope])
    drafts = []
    for order in orders:
        stated, buyer = details.get(order.id), organisations[order.scope.organisation_id]
        if order.is_paid_at_checkout:
            buyer = await _at_checkout(tx, order, buyer, stated or BuyerDetails())
        rate = rates.get(order.id)
        missing_rate = lacks_rate(order.currency, settings, rate)
        facts = KnownFacts(now, buyer.vat_check, missing_rate, order_reference=own_reference(order))
        draft = draft_document(order, buyer, stated, settings, facts)
        taxed_in = None if stated is None else stated.taxed_in
        drafts.append(DocumentDraft(order, rows[order.id], *draft, buyer, rate, taxed_in))
    return drafts


def draft_document(
    order: Order, buyer: BilledOrganisation, details: BuyerDetails | None, settings: Settings, facts: KnownFacts
) -> tuple[DocumentKind, HeldBack]:
    """The kind of document that the order gets, and what a live one lacks."""
    treatment, limit = order.tax.treatment, limit_minor(settings.simplified_invoice_up_to, order.currency)
    is_small = limit is not None and (order.amount_due_minor or 0) <= limit
    is_of_other_country = details is not None and details.taxed_in is not None
    can_be_simplified = is_small and treatment is not TaxTreatment.REVERSE_CHARGE and not is_of_other_country
    lacks = held_back_by(treatment, buyer.tax, settings, order.language, needs_bank=False, facts=facts)
    if order.is_paid_at_checkout:
        is_business = details is not None and details.is_business
        is_simplified = can_be_simplified and not is_business
        if treatment is not TaxTreatment.NONE and not (details and (details.company or details.name)):
            lacks = replace(lacks, details=("name", *lacks.details))
    else:
        # Who wants an electronic invoice gets one, which states the address.
        is_simplified = can_be_simplified and bool(lacks.details) and buyer.tax.einvoice is None
    if is_simplified:
        lacks = replace(lacks, details=())
    if order.scope.mode is Mode.TEST:
        lacks = HeldBack()
    return (DocumentKind.SIMPLIFIED_INVOICE if is_simplified else DocumentKind.INVOICE), lacks


async def _at_checkout(
    tx: Connection, order: Order, organisation: BilledOrganisation, details: BuyerDetails
) -> BilledOrganisation:
    """The customer, taxed as the orders of the organisation are. Without details, the e-mail address or the name."""
    profile = replace(
        organisation.tax,
        # What the seller has agreed with the organisation is not for its customers.
        legal_note=None,
        tax_id=details.vat_id,
        buyer_reference=details.reference,
        country=details.country,
        street=details.street,
        postcode=details.postcode,
        city=details.city,
        einvoice=None,
        endpoint=None,
    )
    name = details.company or details.name or order.email or order.beneficiary
    return BilledOrganisation(name, "", [], profile, await find_vat_check(tx, details.vat_id))


async def _insert(tx: Connection, drafts: Sequence[DocumentDraft], settings: Settings, now: datetime) -> None:
    """The rows of the series are locked from here to the commit, in their order."""
    clients = await store.find_client_names_any_account(tx, [each.order.scope.account_id for each in drafts])
    groups: dict[tuple[Mode, DocumentKind], list[DocumentDraft]] = defaultdict(list)
    for draft in drafts:
        groups[draft.order.scope.mode, draft.kind].append(draft)
    invoices: list[tuple[Invoice, Order]] = []
    for mode, kind in sorted(groups):
        members = groups[mode, kind]
        first, issued_on = await take_issue_numbers(tx, kind, mode, len(members), now)
        invoices += [
            (
                compose_invoice(
                    each.order,
                    number,
                    each.buyer,
                    settings,
                    issued_on,
                    client_name=clients.get(each.order.scope.account_id),
                    home_rate=each.home_rate,
                    prepaid=Prepaid(kind, each.due.paid_at, str(ACTOR), each.taxed_in),
                ),
                each.order,
            )
            for number, each in enumerate(members, start=first)
        ]
    if invoices:
        await store.insert_invoices(tx, [invoice for invoice, _ in invoices], now)
        await insert_billed_orders(tx, [billed_order(invoice, order) for invoice, order in invoices])
        await record_invoices(tx, [invoice for invoice, _ in invoices], ISSUED, now)
