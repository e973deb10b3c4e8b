"""Removes the data of a person from an order and all that belongs to it."""

from datetime import datetime
from typing import Any

import msgspec

from tonne.apps.privacy.export_person import is_open, is_private, owns
from tonne.apps.privacy.model import Counts, Item, Person, PersonInUse, Redaction, redaction_of
from tonne.channels.checkout import person_store as checkouts
from tonne.channels.checkout.person_store import CheckoutTexts
from tonne.channels.webhooks.person_store import erase_answers
from tonne.money.refunds import person_store as refunds
from tonne.money.refunds.person_store import RefundTexts
from tonne.platform.db.database import Connection
from tonne.platform.documents.mail.person_store import erase_mail, list_mails_about
from tonne.platform.events import person_store as events
from tonne.platform.events.audit import record as audit
from tonne.platform.events.log import append
from tonne.platform.events.person_store import StoredEvent
from tonne.platform.values.context import By, Scope, replace, to_wire
from tonne.platform.values.erased import ERASED
from tonne.selling.estimates import person_store as estimates
from tonne.selling.orders import store
from tonne.selling.orders.buyer import TEXTS, BuyerDetails, find_buyer, save_buyer
from tonne.selling.orders.mails.order_mail_store import list_unmailed
from tonne.selling.orders.model import Order
from tonne.selling.orders.move_order import person_erased_event
from tonne.selling.orders.person_store import find_cancel_reason
from tonne.selling.orders.queue import lock_order
from tonne.selling.orders.schemas import order_document
from tonne.supply.certificates import person_store as certificates
from tonne.supply.certificates.packs.store import delete_packs
from tonne.supply.certificates.person_store import OwnCertificate
from tonne.supply.certificates.record import CertificateRecord, RetiredInAdvance

_Fields = dict[str, msgspec.Raw]
_fields_of = msgspec.json.Decoder(_Fields).decode


async def erase_order(tx: Connection, person: Person, item: Item, counts: Counts, *, by: By) -> None:
    """In one transaction, with the event that reports it. Raises PersonInUse if the order is open."""
    scope = item.scope
    checkout = await checkouts.lock_texts(tx, scope, "", item.id)
    order = await lock_order(tx, scope, item.id)
    if order is None:
        return
    await _require_finished(tx, order)
    own_refunds = await refunds.lock_texts(tx, scope, order.id)
    own_certificates = await certificates.lock_certificates(tx, scope, order.id)
    stored = await events.list_of_order(tx, scope, order.id, created_at=order.created_at)
    buyer = await find_buyer(tx, scope, order.id)
    plan = _plan(person, order, checkout, own_certificates, stored, buyer=buyer)
    erased = await _erase_order(tx, order, plan)
    if buyer is not None:
        await save_buyer(tx, scope, order.id, _buyer(person, buyer, plan))
    if checkout is not None:
        await erase_checkout(tx, scope, checkout, plan, counts)
    for refund in own_refunds:
        if (texts := _refund(refund, plan.redaction)) != refund:
            await refunds.erase_texts(tx, scope, texts)
            counts.refunds += 1
    for certificate in own_certificates:
        if (changed := _certificate(certificate, plan, by.at)) != certificate:
            await certificates.overwrite_certificate(tx, scope, changed)
            await delete_packs(tx, scope)
            counts.certificates += 1
    if order.estimate_id is not None:
        await erase_estimate(tx, Item(scope, order.estimate_id), plan.redaction, counts)
    for event in stored:
        own = None if event.own is None else plan.redaction.json(event.own)
        erased_event = event._replace(document=_document(event.document, order, plan), own=own)
        if erased_event != event:
            await events.overwrite_document(tx, scope, erased_event)
            counts.events += 1
    if item.is_own:
        subjects = [order.id, *(refund.id for refund in own_refunds), *([] if checkout is None else [checkout.id])]
        await _erase_mails(tx, order, subjects, plan, counts)
    counts.webhook_answers += await erase_answers(tx, scope, [event.position for event in stored], ERASED)
    counts.orders += 1
    await audit.record(
        tx,
        scope,
        "order.person_erased",
        by=by,
        subject_id=order.id,
        erased=[*(["email"] if plan.erases_email else []), *(["name"] if plan.erases_name else []), "texts"],
    )
    await append(tx, scope, [person_erased_event(erased, order_document(erased))], by.at)


async def _require_finished(tx: Connection, order: Order) -> None:
    """Raises PersonInUse. Call it before the outbox is read: a mail that is composed meanwhile is then found there."""
    if is_open(order):
        raise PersonInUse([f"Order {order.id} is {order.status}."])
    if await list_unmailed(tx, order.scope, [order.id]):
        raise PersonInUse([f"A mail about order {order.id} is not sent yet."])


class Plan(msgspec.Struct, frozen=True):
    """What is erased of an order: the address of the customer, private names, and what clients wrote about both.

    `addresses` are in lower case. `kept_names` are names of organisations, which events and certificates keep.
    """

    erases_email: bool
    erases_name: bool
    redaction: Redaction
    addresses: frozenset[str]
    kept_names: frozenset[str]


def _plan(
    person: Person,
    order: Order,
    checkout: CheckoutTexts | None,
    own_certificates: list[OwnCertificate],
    stored: list[StoredEvent],
    *,
    buyer: BuyerDetails | None,
) -> Plan:
    """The person who paid owns the address and the private name; one who is only named owns the name."""
    kept = {order.account_beneficiary, ERASED} | (set() if is_private(order) else {order.beneficiary})
    shown = [_order_fields(event.document)[1] for event in stored]
    emails = {each["email"] for each in shown} | {order.email, None if checkout is None else checkout.email}
    names = {each["name"] for each in shown} | {order.beneficiary}
    names |= {each.record.beneficiary for each in own_certificates}
    if checkout is not None and checkout.is_person:
        names.add(checkout.beneficiary_name)
    private = {name for name in names if name is not None and name not in kept}
    addresses = {email for email in emails if email is not None and email != ERASED}
    erases_email = any(owns(person, email, None) for email in addresses)
    erases_name = bool(private) and (erases_email or any(map(person.is_called, private)))
    values = {person.value, *(addresses if erases_email else ()), *(private if erases_name else ())}
    if buyer is not None and buyer.name and erases_email:
        values.add(buyer.name)
    lower = frozenset(email.lower() for email in addresses) if erases_email else frozenset()
    return Plan(erases_email, erases_name, redaction_of(values), lower, frozenset(kept))


async def _erase_order(tx: Connection, order: Order, plan: Plan) -> Order:
    erases_name = plan.erases_name and order.beneficiary not in plan.kept_names
    erased = msgspec.structs.replace(
        order,
        email=ERASED if plan.erases_email and order.email is not None else order.email,
        beneficiary=ERASED if erases_name else order.beneficiary,
        beneficiary_is_public=order.beneficiary_is_public and not erases_name,
        public_certificate_url=None if erases_name else order.public_certificate_url,
        metadata=plan.redaction.json(order.metadata),
        idempotency_key=plan.redaction.key(order.idempotency_key, order.id),
        external_id=plan.redaction.key(order.external_id, order.id),
        reference=plan.redaction.text(order.reference),
    )
    reason = plan.redaction.text(await find_cancel_reason(tx, order.scope, order.id))
    await store.erase_person(tx, erased, reason, order_document(erased))
    return erased


def _buyer(person: Person, buyer: BuyerDetails, plan: Plan) -> BuyerDetails:
    """All of it, if the person paid or is the buyer. Issued documents keep their own copy."""
    texts: dict[str, Any] = {name: getattr(buyer, name) for name in TEXTS if getattr(buyer, name)}
    if plan.erases_email or person.is_called(buyer.name):
        texts = dict.fromkeys(texts, ERASED)
        return replace(buyer, **texts)
    return replace(buyer, **{name: plan.redaction.text(text) for name, text in texts.items()})


async def erase_checkout(tx: Connection, scope: Scope, checkout: CheckoutTexts, plan: Plan, counts: Counts) -> None:
    """The checkout is locked."""
    erases_name = plan.erases_name and checkout.is_person
    redaction = plan.redaction
    erased = replace(
        checkout,
        email=ERASED if plan.erases_email and checkout.email is not None else checkout.email,
        beneficiary_name=ERASED if erases_name else checkout.beneficiary_name,
        external_id=redaction.key(checkout.external_id, checkout.id),
        reference=redaction.text(checkout.reference),
        metadata=None if checkout.metadata is None else redaction.json(checkout.metadata),
        idempotency_key=redaction.key(checkout.idempotency_key, checkout.id),
        redirect_url=redaction.text(checkout.redirect_url),
        buyer=None if checkout.buyer is None or plan.erases_email else redaction.json(checkout.buyer),
    )
    if erased != checkout:
        await checkouts.erase_texts(tx, scope, erased)
        counts.checkouts += 1


async def erase_estimate(tx: Connection, item: Item, redaction: Redaction, counts: Counts) -> None:
    texts = await estimates.find_texts(tx, item.scope, item.id)
    if texts is None:
        return
    erased = replace(
        texts,
        description=redaction.text(texts.description),
        metadata=redaction.json(texts.metadata),
        idempotency_key=redaction.key(texts.idempotency_key, item.id),
        versions=tuple(
            each._replace(request=redaction.json(each.request), result=redaction.json(each.result))
            for each in texts.versions
        ),
    )
    if erased != texts:
        await estimates.erase_texts(tx, item.scope, item.id, erased)
        counts.estimates += 1


def plan_alone(person: Person, checkout: CheckoutTexts) -> Plan:
    """The plan for a checkout without an order."""
    erases_email = owns(person, checkout.email, None)
    name = checkout.beneficiary_name if checkout.is_person else None
    erases_name = name is not None and (erases_email or owns(person, None, name))
    values = [person.value, *([name] if erases_name and name is not None else [])]
    return Plan(erases_email, erases_name, redaction_of(values), frozenset(), frozenset())


async def _erase_mails(tx: Connection, order: Order, subjects: list[str], plan: Plan, counts: Counts) -> None:
    """All mails about the order: even those to an organisation name the person."""
    for mail in await list_mails_about(tx, order.scope.organisation_id, subjects):
        if mail.is_waiting:
            raise PersonInUse([f"Mail {mail.id} is not sent yet."])
        counts.mails += await erase_mail(tx, mail, plan.addresses)


def _refund(refund: RefundTexts, redaction: Redaction) -> RefundTexts:
    return refund._replace(
        reason=redaction.text(refund.reason), idempotency_key=redaction.key(refund.idempotency_key, refund.id)
    )


def _certificate(certificate: OwnCertificate, plan: Plan, now: datetime) -> OwnCertificate:
    """Number, quantities, serial numbers and the name at the registry stay."""
    record, redaction = certificate.record, plan.redaction
    if record.replaces is not None:
        replaces = msgspec.structs.replace(record.replaces, reason=redaction.text(record.replaces.reason))
        record = msgspec.structs.replace(record, replaces=replaces)
    is_public = certificate.is_public
    if plan.erases_name and record.beneficiary not in plan.kept_names:
        record, is_public = _unnamed(record, now), False
    return certificate._replace(
        record=record, is_public=is_public, state_reason=redaction.text(certificate.state_reason)
    )


def _unnamed(record: CertificateRecord, now: datetime) -> CertificateRecord:
    lines = [
        line
        if line.in_advance is None
        else msgspec.structs.replace(
            line, in_advance=RetiredInAdvance(line.in_advance.retired_by, ERASED, line.in_advance.assigned_on)
        )
        for line in record.lines
    ]
    return msgspec.structs.replace(record, beneficiary=ERASED, lines=lines, name_erased_on=to_wire(now)[:10])


def _order_fields(document: str) -> tuple[_Fields, dict[str, Any]]:
    """The fields of an order in an event, undecoded, and the address and name that they show."""
    fields = _fields_of(document)
    name = msgspec.json.decode(fields["beneficiary"])["name"] if "beneficiary" in fields else None
    return fields, {"email": msgspec.json.decode(fields["email"]), "name": name}


def _document(document: str, order: Order, plan: Plan) -> str:
    """The order in an event without the data. The rest of it keeps its bytes."""
    fields, shown = _order_fields(document)
    if plan.erases_email and shown["email"] is not None:
        fields["email"] = _raw(ERASED)
    if plan.erases_name and shown["name"] is not None and shown["name"] not in plan.kept_names:
        fields["beneficiary"] = _raw({"name": ERASED})
    fields["metadata"] = msgspec.Raw(plan.redaction.json(bytes(fields["metadata"]).decode()).encode())
    fields["idempotency_key"] = _raw(plan.redaction.key(msgspec.json.decode(fields["idempotency_key"]), order.id))
    return msgspec.json.encode(fields).decode()


def _raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))
