"""Finds what is held about a person, and what still needs their data."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import groupby

import msgspec

from tonne.apps.privacy.model import Found, FoundBy, Item, Person, Search
from tonne.apps.privacy.redaction import redaction_of
from tonne.channels.checkout.model import CheckoutStatus
from tonne.channels.checkout.person_store import list_texts, scan_checkouts
from tonne.money.refunds.person_store import list_refund_ids, list_unfinished
from tonne.platform.db.database import Connection
from tonne.platform.documents.mail.person_store import PersonMail, list_mails_about, list_mails_to
from tonne.platform.events.person_store import list_of_order
from tonne.platform.process.progress import progress
from tonne.platform.values.context import Scope
from tonne.selling.accounts.person_store import (
    AddressUse,
    list_address_uses,
    list_audit_mentions,
    list_scopes,
)
from tonne.selling.estimates.person_store import find_texts, scan_estimates
from tonne.selling.orders.load import load_orders
from tonne.selling.orders.mails.order_mail_store import list_unmailed
from tonne.selling.orders.model import BeneficiaryKind, Order, OrderKey, OrderStatus
from tonne.selling.orders.person_store import find_cancel_reason, list_corrected_orders, scan_orders
from tonne.selling.users.person_store import list_user_uses
from tonne.supply.certificates.person_store import list_unfinished_cases
from tonne.supply.certificates.store import list_of_order as list_certificates

# Rows per statement. There is no index on what clients wrote, so all rows are read.
SCANNED = 20_000
_FINAL = {OrderStatus.COMPLETE, OrderStatus.CANCELLED, OrderStatus.FAILED}
_Scan = Callable[[Connection, Scope, Sequence[str], str, int], Awaitable[tuple[str | None, list[str]]]]


async def find_person(connection: Connection, search: Search) -> Found:
    """Use a connection outside of a transaction: with many orders it takes a while."""
    terms = search.person.terms
    orders, checkouts, estimates = list[Item](), list[Item](), list[Item]()
    scopes = await list_scopes(connection, search.organisation_id, search.mode)
    with progress("Looking through the accounts", len(scopes)) as advance:
        for scope in scopes:
            orders += await _check_orders(connection, search, await _scan(connection, scope, scan_orders, terms))
            checkouts += await _scan(connection, scope, scan_checkouts, terms)
            estimates += await _check_estimates(
                connection, search, await _scan(connection, scope, scan_estimates, terms)
            )
            advance(1)
    ordered, unordered = await _check_checkouts(connection, search, checkouts)
    known = {each.id: each for each in ordered} | {each.id: each for each in orders}
    known |= {each.id: each for each in await _find_former(connection, search, set(known))}
    all_orders = sorted(known.values(), key=lambda each: (each.scope.account_id, each.id))
    is_address = search.person.found_by is FoundBy.EMAIL
    return Found(
        orders=all_orders,
        checkouts=unordered,
        estimates=estimates,
        mails=await _find_mails(connection, search, [each for each in all_orders if each.is_own]),
        uses=await _list_uses(connection, search.organisation_id, terms[0]) if is_address else [],
        mentions=await list_audit_mentions(connection, search.organisation_id, terms[0]),
    )


async def _list_uses(connection: Connection, organisation_id: str | None, email: str) -> list[AddressUse]:
    return [
        *await list_address_uses(connection, organisation_id, email),
        *await list_user_uses(connection, organisation_id, email),
    ]


async def list_blockers(connection: Connection, found: Found) -> list[str]:
    """Why the person cannot be erased now, as sentences: somebody or something still needs the address or the name."""
    blockers = [f"The address is in use: {use.what}. Run `{use.command}` first." for use in found.uses]
    for scope, items in by_scope(found.orders):
        ids = [each.id for each in items]
        orders = await load_orders(connection, [OrderKey(scope.account_id, id_) for id_ in ids])
        blockers += [f"Order {each.id} is {each.status}." for each in orders if is_open(each)]
        blockers += [
            f"The refund or dispute of order {id_} is not finished."
            for id_ in await list_unfinished(connection, scope, ids)
        ]
        blockers += [
            f"A mail about order {id_} is not sent yet." for id_ in await list_unmailed(connection, scope, ids)
        ]
        blockers += [
            f"Order {id_} has credits of an invalid lot: see `tonne lot show`."
            for id_ in await list_unfinished_cases(connection, scope, ids)
        ]
        final = {each.id for each in orders if not is_open(each)}
        blockers += [
            f"The certificate of order {each.order_id} is not mailed yet."
            for each in await list_texts(connection, scope, [], ids)
            if each.order_id in final and each.next_mail_at is not None and each.status is CheckoutStatus.ORDERED
        ]
    for scope, items in by_scope(found.checkouts):
        blockers += [
            f"Checkout {each.id} is open."
            for each in await list_texts(connection, scope, [each.id for each in items])
            if each.status is not CheckoutStatus.CLOSED
        ]
    return blockers + [f"Mail {mail.id} is not sent yet." for mail in found.mails if mail.is_waiting]


def is_open(order: Order) -> bool:
    return order.status not in _FINAL


def by_scope(items: Iterable[Item]) -> list[tuple[Scope, list[Item]]]:
    """Items of the same account are next to each other."""
    return [(scope, list(group)) for scope, group in groupby(items, key=lambda each: each.scope)]


async def _scan(connection: Connection, scope: Scope, scan: _Scan, terms: Sequence[str]) -> list[Item]:
    """What contains a term, also as a part of another word."""
    found, after = list[Item](), ""
    while True:
        last_id, ids = await scan(connection, scope, terms, after, SCANNED)
        if last_id is None:
            return found
        found += [Item(scope, id_) for id_ in ids]
        after = last_id


async def _check_orders(connection: Connection, search: Search, items: list[Item]) -> list[Item]:
    redaction, found = redaction_of([search.person.value]), list[Item]()
    for scope, own in by_scope(items):
        for order in await load_orders(connection, [OrderKey(scope.account_id, each.id) for each in own]):
            if owns(search.person, order.email, order.beneficiary if is_private(order) else None):
                found.append(Item(scope, order.id))
            elif redaction.changes(
                order.metadata,
                order.idempotency_key,
                order.external_id,
                order.reference,
                await find_cancel_reason(connection, scope, order.id),
            ):
                found.append(Item(scope, order.id, is_own=False))
    return found


async def _check_checkouts(connection: Connection, search: Search, items: list[Item]) -> tuple[list[Item], list[Item]]:
    """The orders of those checkouts that contain the data, and those without an order."""
    redaction, ordered, unordered = redaction_of([search.person.value]), list[Item](), list[Item]()
    for scope, own in by_scope(items):
        for each in await list_texts(connection, scope, [each.id for each in own]):
            is_own = owns(search.person, each.email, each.beneficiary_name if each.is_person else None)
            texts = (each.external_id, each.reference, each.metadata, each.idempotency_key, each.redirect_url)
            if not is_own and not redaction.changes(*texts):
                continue
            if each.order_id is None:
                unordered.append(Item(scope, each.id, is_own))
            else:
                ordered.append(Item(scope, each.order_id, is_own))
    return ordered, unordered


async def _check_estimates(connection: Connection, search: Search, items: list[Item]) -> list[Item]:
    redaction, found = redaction_of([search.person.value]), list[Item]()
    for each in items:
        texts = await find_texts(connection, each.scope, each.id)
        if texts and redaction.changes(*texts.all):
            found.append(each)
    return found


async def _find_former(connection: Connection, search: Search, known: set[str]) -> list[Item]:
    """Orders that had the address or the name before it was corrected: events and certificates have it still."""
    redaction, found = redaction_of([search.person.value]), list[Item]()
    for scope, order_id, created_at in await list_corrected_orders(connection, search.organisation_id, search.mode):
        if order_id in known:
            continue
        events = await list_of_order(connection, scope, order_id, created_at=created_at)
        texts = [event.document for event in events]
        texts += [
            msgspec.json.encode(each.record).decode() for each in await list_certificates(connection, scope, order_id)
        ]
        if redaction.changes(*texts):
            found.append(Item(scope, order_id))
    return found


async def _find_mails(connection: Connection, search: Search, orders: Sequence[Item]) -> list[PersonMail]:
    """To the address, unless only one mode is meant: mails have no mode. About the person's orders in any case."""
    mails = list[PersonMail]()
    if search.person.found_by is FoundBy.EMAIL and search.mode is None:
        mails += await list_mails_to(connection, search.organisation_id, search.person.terms[0])
    for scope, items in by_scope(orders):
        ids = [each.id for each in items]
        checkouts = [each.id for each in await list_texts(connection, scope, [], ids)]
        about = [*ids, *checkouts, *await list_refund_ids(connection, scope, ids)]
        # A mail that was erased for somebody else may still name this person as a recipient, but says nothing more.
        mails += [
            each for each in await list_mails_about(connection, scope.organisation_id, about) if not each.is_erased
        ]
    return list({mail.id: mail for mail in mails}.values())


def owns(person: Person, email: str | None, private_name: str | None) -> bool:
    return person.is_called(email if person.found_by is FoundBy.EMAIL else private_name)


def is_private(order: Order) -> bool:
    return order.beneficiary_kind is BeneficiaryKind.PERSON
