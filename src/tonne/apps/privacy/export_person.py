"""Finds what is held about a person, and what still needs their data; exports it as one list of records."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime, time
from email import message_from_bytes
from email.policy import SMTP
from itertools import groupby
from typing import Any

import msgspec
from msgspec.structs import asdict

from tonne.apps.privacy.model import Found, FoundBy, Item, Person, Search, redaction_of
from tonne.channels.checkout.model import CheckoutStatus
from tonne.channels.checkout.person_store import CheckoutTexts, list_texts, scan_checkouts
from tonne.money.bank.person_store import list_of_payer_any_account
from tonne.money.invoices.issuing.due_document_store import list_without_document
from tonne.money.refunds.person_store import list_refund_ids, list_unfinished
from tonne.platform.db.database import Connection
from tonne.platform.documents.mail.person_store import PersonMail, list_mails_about, list_mails_to
from tonne.platform.events.person_store import list_of_order
from tonne.platform.process.progress import progress
from tonne.platform.values.context import Scope, to_wire
from tonne.selling.accounts import person_store
from tonne.selling.estimates.person_store import find_texts, scan_estimates
from tonne.selling.orders.buyer import BuyerDetails, list_buyers
from tonne.selling.orders.load import load_orders
from tonne.selling.orders.mails.order_mail_store import list_unmailed
from tonne.selling.orders.model import BeneficiaryKind, Order, OrderKey, OrderStatus
from tonne.selling.orders.person_store import find_cancel_reason, list_corrected_orders, scan_orders
from tonne.selling.orders.schemas import order_document
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
    scopes = await person_store.list_scopes(connection, search.organisation_id, search.mode)
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
        mentions=await person_store.list_audit_mentions(connection, search.organisation_id, terms[0]),
    )


async def _list_uses(connection: Connection, organisation_id: str | None, email: str) -> list[person_store.AddressUse]:
    return [
        *await person_store.list_address_uses(connection, organisation_id, email),
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
            f"The document of order {id_} is not issued yet."
            for id_ in await list_without_document(connection, scope, ids)
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
        buyers = await list_buyers(connection, scope, [each.id for each in own])
        for order in await load_orders(connection, [OrderKey(scope.account_id, each.id) for each in own]):
            buyer = buyers.get(order.id, BuyerDetails())
            if owns(search.person, order.email, order.beneficiary if is_private(order) else None) or owns(
                search.person, None, buyer.name
            ):
                found.append(Item(scope, order.id))
            elif redaction.changes(
                order.metadata,
                order.idempotency_key,
                order.external_id,
                order.reference,
                await find_cancel_reason(connection, scope, order.id),
                *buyer.texts,
            ):
                found.append(Item(scope, order.id, is_own=False))
    return found


async def _check_checkouts(connection: Connection, search: Search, items: list[Item]) -> tuple[list[Item], list[Item]]:
    """The orders of those checkouts that contain the data, and those without an order."""
    redaction, ordered, unordered = redaction_of([search.person.value]), list[Item](), list[Item]()
    for scope, own in by_scope(items):
        for each in await list_texts(connection, scope, [each.id for each in own]):
            is_own = owns(search.person, each.email, each.beneficiary_name if each.is_person else None)
            keys = (each.external_id, each.reference, each.idempotency_key, each.redirect_url)
            texts = (*keys, each.metadata, each.buyer)
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


class PersonRecord(msgspec.Struct, frozen=True):
    """`kind` is order, buyer, event, certificate, checkout, estimate, mail, address_use, transfer or audit_entry."""

    kind: str
    id: str | None
    created_at: datetime | None
    # False for what an erasure leaves: see docs/privacy.md.
    is_erasable: bool
    data: dict[str, Any]


async def export_person(connection: Connection, search: Search) -> list[PersonRecord]:
    """What an organisation holds, or all of them. Without bank records: only operators may read those."""
    found = await find_person(connection, search)
    records = await _order_records(connection, found)
    for scope, items in by_scope(found.checkouts):
        records += [_checkout(each) for each in await list_texts(connection, scope, [each.id for each in items])]
    for item in found.estimates:
        records.append(await _estimate(connection, item))
    records += [_mail(mail) for mail in found.mails]
    records += [PersonRecord("address_use", None, None, False, {"use": use.what}) for use in found.uses]
    return records + [PersonRecord("audit_entry", id_, None, False, {}) for id_ in found.mentions]


async def list_bank_records_any_account(connection: Connection, search: Search) -> list[PersonRecord]:
    """Bank transfers that name the person. They are kept as accounting records."""
    return [
        PersonRecord(
            "transfer",
            each.id,
            datetime.combine(each.booked_on, time(), UTC),
            False,
            {"payer": each.payer, "payer_iban": each.payer_iban, "reference": each.reference},
        )
        for each in await list_of_payer_any_account(connection, search.mode, search.person.terms)
    ]


async def _order_records(connection: Connection, found: Found) -> list[PersonRecord]:
    records = list[PersonRecord]()
    for scope, items in by_scope(found.orders):
        ids = [each.id for each in items]
        checkouts = {each.order_id: each for each in await list_texts(connection, scope, [], ids)}
        buyers = await list_buyers(connection, scope, ids)
        for order in await load_orders(connection, [OrderKey(scope.account_id, id_) for id_ in ids]):
            shown = msgspec.json.decode(order_document(order))
            records.append(PersonRecord("order", order.id, order.created_at, True, shown))
            if order.id in buyers:
                records.append(PersonRecord("buyer", order.id, order.created_at, True, asdict(buyers[order.id])))
            if order.id in checkouts:
                records.append(_checkout(checkouts[order.id]))
            for certificate in await list_certificates(connection, scope, order.id):
                issued_at = datetime.fromisoformat(certificate.record.issued_at)
                data = msgspec.to_builtins(certificate.out)
                records.append(PersonRecord("certificate", certificate.record.number, issued_at, True, data))
            for event in await list_of_order(connection, scope, order.id, created_at=order.created_at):
                data = {"event_type": event.event_type, "order": msgspec.json.decode(event.document)}
                records.append(PersonRecord("event", event.id, event.sequence, True, data))
    return records


def _checkout(checkout: CheckoutTexts) -> PersonRecord:
    data = asdict(checkout) | {"status": checkout.status, "created_at": to_wire(checkout.created_at)}
    data["consented_at"] = None if checkout.consented_at is None else to_wire(checkout.consented_at)
    for name in ("id", "next_mail_at", "is_person"):
        del data[name]
    for name in ("metadata", "buyer"):
        if data[name] is not None:
            data[name] = msgspec.json.decode(data[name])
    return PersonRecord("checkout", checkout.id, checkout.created_at, True, data)


async def _estimate(connection: Connection, item: Item) -> PersonRecord:
    texts = await find_texts(connection, item.scope, item.id)
    data = {} if texts is None else asdict(texts) | {"metadata": msgspec.json.decode(texts.metadata)}
    if texts is not None:
        data["versions"] = [
            {"request": msgspec.json.decode(each.request), "result": msgspec.json.decode(each.result)}
            for each in texts.versions
        ]
    return PersonRecord("estimate", item.id, None, True, data)


def _mail(mail: PersonMail) -> PersonRecord:
    message = message_from_bytes(mail.message, policy=SMTP)
    body = message.get_body(("plain",))
    data = {
        "recipients": mail.recipients,
        "subject": str(message["Subject"] or ""),
        "text": "" if body is None else str(body.get_content()),
        "attachments": [part.get_filename() or part.get_content_type() for part in message.iter_attachments()],
        "sent_at": None if mail.sent_at is None else to_wire(mail.sent_at),
    }
    return PersonRecord("mail", mail.id, mail.created_at, True, data)


def count_kinds(records: Sequence[PersonRecord]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for record in records:
        counts[record.kind] = counts.get(record.kind, 0) + 1
    return counts
