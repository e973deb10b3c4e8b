"""Fulfil orders that are too small for a card payment before they are paid, as far as their card is trusted.

What is fulfilled and not paid stays within `card_collect_at` for each card, however many accounts have stored it, and
within ten times that for each organisation. Accounts may have several currencies, so sums are shares of the limit.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from fractions import Fraction

from msgspec import Struct, structs

from tonne.money.invoices.issuing.billing_store import BillingSettings
from tonne.money.invoices.issuing.collect_orders import is_collected
from tonne.money.invoices.issuing.credit_limit_store import lock_credit, sum_on_credit_any_account
from tonne.platform.db.database import Connection, value_of
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import GRAMS_PER_TONNE
from tonne.platform.values.context import Mode
from tonne.selling.accounts.model import PaymentMethod, SmallCardOrders
from tonne.selling.orders.model import Order, OrderStatus
from tonne.selling.orders.move_order import Transitions

# How many cards of an organisation may be trusted at the same time.
CARDS_OF_ORGANISATION = 10


class TrustedCard(Struct, frozen=True):
    """The stored card of an account, with what is known of its payments."""

    account_id: str
    organisation_id: str
    fingerprint: str
    # It has paid for this account since it was stored.
    has_paid: bool
    # The account has a collection whose charge is to be settled first.
    is_pending: bool
    # A collection of the account was not paid in the end.
    is_owing: bool


# Charges since the card was stored: the index of receipts finds them by time.
FIND_CARDS = """
SELECT card.account_id, card.organisation_id, card.fingerprint,
       EXISTS (SELECT FROM charges
               WHERE charges.organisation_id = card.organisation_id AND charges.mode = card.mode
                 AND charges.status IN ('captured', 'refunded') AND charges.settled_at >= card.created_at
                 AND charges.account_id = card.account_id AND charges.method = card.method
                 AND NOT charges.is_surplus) AS has_paid,
       EXISTS (SELECT FROM card_invoices due JOIN invoices ON invoices.id = due.invoice_id
               WHERE due.account_id = card.account_id AND invoices.status = 'open' AND invoices.billing = 'collected'
                 AND NOT due.is_given_up
                 AND (due.next_attempt_at <= $2 OR due.retry_at IS NOT NULL
                      OR EXISTS (SELECT FROM charge_invoices document
                                 JOIN charges ON charges.id = document.charge_id
                                 WHERE document.account_id = due.account_id AND document.invoice_id = due.invoice_id
                                   AND charges.status IN ('pending', 'mismatched')))) AS is_pending,
       EXISTS (SELECT FROM card_invoices due JOIN invoices ON invoices.id = due.invoice_id
               WHERE due.account_id = card.account_id AND due.is_given_up AND invoices.status = 'open') AS is_owing
FROM account_cards card WHERE card.account_id = ANY ($1::text[])
"""


async def find_cards_any_account(
    connection: Connection, account_ids: Sequence[str], now: datetime
) -> dict[str, TrustedCard]:
    """By account. Those without a stored card are missing."""
    rows = await connection.fetch(FIND_CARDS, account_ids, now)
    return {row["account_id"]: value_of(TrustedCard, row) for row in rows}


FIND_SHARING = """
SELECT card.account_id, card.organisation_id, card.fingerprint, accounts.currency
FROM account_cards card JOIN accounts ON accounts.id = card.account_id
WHERE card.mode = $3 AND (card.organisation_id = ANY ($1::text[]) OR card.fingerprint = ANY ($2::text[]))
"""


async def _sum_unpaid_any_account(
    tx: Connection, organisations: set[str], fingerprints: set[str], mode: Mode, service: Settings
) -> dict[str, Fraction]:
    """What is fulfilled and not paid by each card and each organisation, as a share of the limit of a card."""
    sharing = await tx.fetch(FIND_SHARING, sorted(organisations), sorted(fingerprints), mode)
    unpaid = await sum_on_credit_any_account(tx, [row["account_id"] for row in sharing], PaymentMethod.CARD)
    used: dict[str, Fraction] = defaultdict(Fraction)
    for row in sharing:
        for owner in (row["organisation_id"], row["fingerprint"]):
            used[owner] += _share_of_limit(unpaid.get(row["account_id"], 0), row["currency"], service)
    return used


def _share_of_limit(exact: int, currency: str, service: Settings) -> Fraction:
    """`exact` is in millionths of a minor unit."""
    return Fraction(exact, service.collect_at_minor(currency) * GRAMS_PER_TONNE)


async def fulfil_first(
    tx: Connection, orders: Sequence[Order], billing: Mapping[str, BillingSettings], service: Settings, now: datetime
) -> tuple[list[Transitions], list[Order]]:
    """Which of these locked placed orders are fulfilled before they are paid, and which wait until others are paid.

    The caller moves the first, and postpones the second. Orders that are not fulfilled first are in neither.
    """
    asking = [order for order in orders if _is_fulfilled_first(order, billing[order.scope.account_id], service)]
    if not asking:
        return [], []
    cards = await find_cards_any_account(tx, sorted({order.scope.account_id for order in asking}), now)
    trusted = {id_: card for id_, card in cards.items() if card.has_paid and not card.is_owing}
    asking = [order for order in asking if order.scope.account_id in trusted]
    if not asking:
        return [], []
    organisations = {card.organisation_id for card in trusted.values()}
    fingerprints = {card.fingerprint for card in trusted.values()}
    await lock_credit(tx, organisations | fingerprints)
    used = await _sum_unpaid_any_account(tx, organisations, fingerprints, asking[0].scope.mode, service)
    granted, waiting = [], []
    for order in sorted(asking, key=lambda each: (each.created_at, each.id)):
        card, share = trusted[order.scope.account_id], _share_of_limit(order.exact_cost, order.currency, service)
        is_above = used[card.fingerprint] + share > 1 or used[card.organisation_id] + share > CARDS_OF_ORGANISATION
        if card.is_pending or is_above:
            waiting.append(order)
            continue
        used[card.fingerprint] += share
        used[card.organisation_id] += share
        fulfilled = structs.replace(order, status=OrderStatus.PAID).with_window(now)
        granted.append(Transitions(order, [fulfilled], order.due_at(now)))
    return granted, waiting


def _is_fulfilled_first(order: Order, settings: BillingSettings, service: Settings) -> bool:
    rule = settings.small_card_orders
    if rule is SmallCardOrders.SERVICE:
        rule = SmallCardOrders(service.small_card_orders)
    return rule is SmallCardOrders.FULFIL_FIRST and is_collected(order, settings)
