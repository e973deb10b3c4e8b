"""Everything that is held about a person, as one list of records."""

from collections.abc import Sequence
from datetime import UTC, datetime, time
from email import message_from_bytes
from email.policy import SMTP
from typing import Any

import msgspec
from msgspec.structs import asdict

from tonne.apps.privacy.find_person import by_scope, find_person
from tonne.apps.privacy.model import Found, Item, Search
from tonne.channels.checkout.person_store import CheckoutTexts, list_texts
from tonne.money.bank.person_store import list_of_payer_any_account
from tonne.platform.db.database import Connection
from tonne.platform.documents.mail.person_store import PersonMail
from tonne.platform.events.person_store import list_of_order
from tonne.platform.values.context import to_wire
from tonne.selling.estimates.person_store import find_texts
from tonne.selling.orders.load import load_orders
from tonne.selling.orders.model import OrderKey
from tonne.selling.orders.schemas import order_document
from tonne.supply.certificates.store import list_of_order as list_certificates


class PersonRecord(msgspec.Struct, frozen=True):
    """`kind` is order, event, certificate, checkout, estimate, mail, address_use, transfer or audit_entry."""

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
        for order in await load_orders(connection, [OrderKey(scope.account_id, id_) for id_ in ids]):
            shown = msgspec.json.decode(order_document(order))
            records.append(PersonRecord("order", order.id, order.created_at, True, shown))
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
    if checkout.metadata is not None:
        data["metadata"] = msgspec.json.decode(checkout.metadata)
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
