"""Replace or withdraw the certificate of a complete order.

A certificate that was sent out never changes: its number stays valid for verification, and says what became of it.
"""

from datetime import datetime
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.events.optional_events import OptionalEvent, record_optional
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import By, Timestamp, replace, to_wire
from tonne.selling.orders.model import Order
from tonne.selling.orders.move_order import rewrite_documents
from tonne.selling.orders.schemas import OrderId
from tonne.supply.certificates.logo_store import keep_logos
from tonne.supply.certificates.record import (
    CertificateLine,
    CertificateRecord,
    CertificateState,
    Replacement,
    RetiredInAdvance,
    decode_record,
    encode_record,
)
from tonne.supply.certificates.store import compose_certificate, public_address, read_lines
from tonne.supply.certificates.totals import (
    add_totals,
    add_vintages,
    month_of,
    subtract_totals,
    subtract_vintages,
)
from tonne.supply.stock.errors import CertificateNotAvailable, CertificateNotValid
from tonne.supply.transparency.record_statements import NewStatement, record_statements
from tonne_verify.openings import StatementKind

REPLACED = "certificate.replaced"
_URL = {"format": "uri"}


class ReplacedCertificateOut(msgspec.Struct):
    """A new certificate of an order. The former one is no longer valid, and its number says so."""

    number: Annotated[str, Meta(description="The number of the new certificate.", examples=["7XKD-M2QH-9RTV-4WNC"])]
    replaces: Annotated[
        str, Meta(description="The number of the former certificate.", examples=["3FQA-W8ZK-5JXM-6CRT"])
    ]
    order_id: OrderId
    issued_at: Annotated[Timestamp, Meta(description="When it was issued.")]
    url: Annotated[
        str,
        Meta(
            description="The PDF. Needs API authentication.",
            examples=["https://offsets.example.com/v1/orders/ord_06gtv1alff3htg9thvlvj59t20/certificate"],
            extra_json_schema=_URL,
        ),
    ]
    public_url: Annotated[
        Annotated[str, Meta(extra_json_schema=_URL)] | None,
        Meta(
            description="Its public page. Null if the order is in a private name.",
            examples=["https://offsets.example.com/certificates/7XKD-M2QH-9RTV-4WNC"],
        ),
    ]


async def record_replacement(
    tx: Connection, order: Order, new: CertificateRecord, replaces: str, *, base_url: str, now: datetime
) -> None:
    certificate = ReplacedCertificateOut(
        number=new.number,
        replaces=replaces,
        order_id=order.id,
        issued_at=to_wire(now),
        url=order.certificate_url or f"{base_url}/v1/orders/{order.id}/certificate",
        public_url=order.public_certificate_url,
    )
    event = OptionalEvent(REPLACED, order.id, msgspec.json.encode(certificate), order.id)
    await record_optional(tx, [(order.scope, event)], now)


class _CurrentCertificate(NamedTuple):
    """The current certificate of an order. The totals count the order in the month of `completed_at`."""

    record: CertificateRecord
    state: CertificateState
    is_public: bool
    completed_at: datetime


LOCK_CURRENT = """
SELECT record, state, is_public,
       (SELECT min(issued_at) FROM certificates
        WHERE account_id = current.account_id AND order_id = current.order_id) AS completed_at
FROM certificates current WHERE account_id = $1 AND order_id = $2 AND state <> 'replaced' FOR UPDATE
"""


async def _lock_current(tx: Connection, order: Order) -> _CurrentCertificate:
    row = await tx.fetchrow(LOCK_CURRENT, order.scope.account_id, order.id)
    if row is None:
        raise CertificateNotAvailable
    record = decode_record(row["record"])
    return _CurrentCertificate(record, CertificateState(row["state"]), row["is_public"], row["completed_at"])


# The old one first: an order has one current certificate. It needs no mail of its own any more.
MARK_REPLACED = """
UPDATE certificates SET state = 'replaced', replaced_by = $3, state_reason = $4, state_changed_at = $5,
                        next_mail_at = NULL
WHERE account_id = $1 AND number = $2
"""
INSERT_REISSUED = """
INSERT INTO certificates (account_id, order_id, organisation_id, mode, number, issued_at, record, replaces,
                          next_mail_at, is_public)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
"""
# A name that has become private leaves the public pages, including those of the certificates that were replaced.
HIDE_CHAIN = "UPDATE certificates SET is_public = false WHERE account_id = $1 AND order_id = $2 AND is_public"


async def _replace(
    tx: Connection,
    order: Order,
    old: CertificateRecord,
    new: CertificateRecord,
    *,
    reason: str,
    is_public: bool,
    now: datetime,
) -> None:
    await tx.execute(MARK_REPLACED, order.scope.account_id, old.number, new.number, reason, now)
    await tx.execute(
        INSERT_REISSUED,
        order.scope.account_id,
        order.id,
        order.scope.organisation_id,
        order.scope.mode,
        new.number,
        now,
        encode_record(new),
        old.number,
        None if order.email is None else now,
        is_public,
    )
    replaced = _statement_with_reason(order, StatementKind.REPLACED, old.number, reason, now)
    issued = NewStatement(order.scope.mode, StatementKind.ISSUED, new.number, now)
    await record_statements(tx, [replaced, issued])
    if not is_public:
        await tx.execute(HIDE_CHAIN, order.scope.account_id, order.id)


async def reissue_certificate(
    tx: Connection,
    order: Order,
    *,
    reason: str,
    settings: Settings,
    by: By,
    former: Order | None = None,
    assigned_at: datetime | None = None,
) -> Order:
    """Replace the certificate of a complete order by one that states its present name and retirements.

    `order` is locked and loaded, with all its credits retired. Use it after a change of the beneficiary, and after
    other credits were assigned to the order; `former` is then the order with the projects that it had before, and the
    totals of the Sustainability page follow. `assigned_at` is when it got them: credits that were retired earlier were
    retired in advance. A withdrawn certificate can be replaced, too. `reason` is one sentence for the people who see
    the certificate: PDF, verification page and mail state it.

    The old number says that it is replaced. Rewrites the order's JSON, because the public address changes, records it
    in the audit log, and lets a worker mail the new certificate to the customer of a checkout. Records the event
    `certificate.replaced`. Returns the order with the new address.
    """
    current = await _lock_current(tx, order)
    old = current.record
    base_url, issuer = settings.base_url, settings.seller_name
    present = await read_lines(tx, [order], issuer=issuer, assigned_at=assigned_at or by.at)
    lines = _keep_known_lines(old, present[order.id], order.beneficiary)
    replaces = Replacement(old.number, reason)
    logo = (await keep_logos(tx, [order])).get(order.id)
    new = compose_certificate(order, lines, base_url=base_url, issuer=issuer, now=by.at, logo=logo, replaces=replaces)
    if order.beneficiary == old.beneficiary:
        new = replace(new, name_erased_on=old.name_erased_on)
    # The new certificate leads to the old one, which may be in a private name.
    is_public = current.is_public and order.is_named_in_public
    await _replace(tx, order, old, new, reason=reason, is_public=is_public, now=by.at)
    if current.state is CertificateState.VALID:
        await subtract_vintages(tx, order.scope, old, current.completed_at)
    await add_vintages(tx, [(order.scope.account_id, current.completed_at, new)])
    await _change_totals(tx, current, former, order)
    address = public_address(base_url, new.number) if is_public else None
    reissued = replace(order, public_certificate_url=address, certificate_due_on=None)
    await rewrite_documents(tx, [reissued])
    await audit.record(
        tx,
        order.scope,
        "certificate.reissued",
        by=by,
        subject_id=order.id,
        # Without the names: entries cannot be deleted, and a name may be private.
        before={"number": old.number},
        after={"number": new.number},
        reason=reason,
    )
    await record_replacement(tx, reissued, new, old.number, base_url=base_url, now=by.at)
    return reissued


MARK_WITHDRAWN = """
UPDATE certificates SET state = 'withdrawn', state_reason = $3, state_changed_at = $4, next_mail_at = $5
WHERE account_id = $1 AND number = $2
"""


async def withdraw_certificate(tx: Connection, order: Order, *, reason: str, by: By) -> str:
    """Withdraw the certificate of a locked complete order without a new one, and return its number.

    `order` has the projects that the totals count. The order leaves the totals of the Sustainability page; the number
    still verifies, as withdrawn, with the reason. The customer of a checkout gets a mail. Raises CertificateNotValid if
    it was withdrawn before. `reissue_certificate` replaces it later, if the order gets other credits.
    """
    current = await _lock_current(tx, order)
    number = current.record.number
    if current.state is not CertificateState.VALID:
        raise CertificateNotValid(f"Certificate {number} was withdrawn before.")
    mail_at = None if order.email is None else by.at
    await tx.execute(MARK_WITHDRAWN, order.scope.account_id, number, reason, by.at, mail_at)
    await record_statements(tx, [_statement_with_reason(order, StatementKind.WITHDRAWN, number, reason, by.at)])
    await subtract_vintages(tx, order.scope, current.record, current.completed_at)
    await subtract_totals(tx, order, month_of(current.completed_at))
    await audit.record(
        tx,
        order.scope,
        "certificate.withdrawn",
        by=by,
        subject_id=order.id,
        before={"state": CertificateState.VALID},
        after={"state": CertificateState.WITHDRAWN},
        number=number,
        reason=reason,
    )
    return number


def _statement_with_reason(order: Order, kind: StatementKind, number: str, reason: str, now: datetime) -> NewStatement:
    """The statement keeps the reason: a later change of the certificate overwrites it there."""
    names = msgspec.json.encode({"reason": reason}).decode()
    return NewStatement(order.scope.mode, kind, number, now, names)


async def _change_totals(tx: Connection, current: _CurrentCertificate, former: Order | None, order: Order) -> None:
    """A withdrawn certificate is not counted. Other projects are counted instead of the former ones."""
    if current.state is CertificateState.VALID and former is not None:
        await subtract_totals(tx, former, month_of(current.completed_at))
    if current.state is CertificateState.WITHDRAWN or former is not None:
        await add_totals(tx, [order], current.completed_at)


def _keep_known_lines(old: CertificateRecord, lines: list[CertificateLine], beneficiary: str) -> list[CertificateLine]:
    """The lines as the old certificate states them, with the new name, where it states the same retirement.

    The order does not tell any more when credits that were retired in advance were assigned to it.
    """
    known = {(line.serial_range, line.quantity, line.retired_on): line for line in old.lines}
    kept = []
    for line in lines:
        before = known.get((line.serial_range, line.quantity, line.retired_on))
        if before is None:
            kept.append(line)
            continue
        advance = before.in_advance
        if advance is not None:
            advance = RetiredInAdvance(advance.retired_by, beneficiary, advance.assigned_on)
        kept.append(replace(before, in_advance=advance, registry_name=line.registry_name))
    return kept
