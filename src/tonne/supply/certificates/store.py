"""Issues, stores, lists and finds certificates."""

import re
import secrets
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import NamedTuple

import asyncpg
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tonne.platform.db.database import Connection, columns, optional, scope_of, value_of
from tonne.platform.db.json_compression import decompress_json
from tonne.platform.values.amounts import format_tonnes
from tonne.platform.values.context import Mode, Scope, Tenant, to_wire
from tonne.platform.values.paging import START, Position
from tonne.platform.values.serials import serial_range
from tonne.selling.orders.model import Order
from tonne.supply.certificates import record as certificate_record
from tonne.supply.certificates.logo_store import keep_logos
from tonne.supply.certificates.totals import add_vintages
from tonne.supply.stock.credit_facts import CreditFacts
from tonne.supply.stock.lots.lots import earliest_day
from tonne.supply.transparency.record_statements import NewStatement, record_statements
from tonne_verify.openings import StatementKind

# Crockford's base 32: no letters that look like digits.
_LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
# Letters that are typed in place of others, and separators that are ignored.
_MISREAD = str.maketrans("OILU", "011V")
_BETWEEN = re.compile(r"[\s\u2010-\u2015\u2212_.-]+")
_NUMBER = re.compile(f"(TEST)?([{_LETTERS}]{{4}})([{_LETTERS}]{{4}})([{_LETTERS}]{{4}})([{_LETTERS}]{{4}})")


def new_number(mode: Mode) -> str:
    """80 random bits: a certificate can be looked up by its number, and a number cannot be guessed."""
    number = secrets.randbits(80)
    text = "".join([_LETTERS[number >> shift & 31] for shift in range(75, -1, -5)])
    groups = [text[start : start + 4] for start in range(0, 16, 4)]
    return "-".join([*(["TEST"] if mode is Mode.TEST else []), *groups])


def normal_number(text: str) -> str:
    """Normalise a typed number. Returns "", which no certificate has, if it cannot be a number."""
    found = _NUMBER.fullmatch(_BETWEEN.sub("", text[:100]).upper().translate(_MISREAD))
    return "" if found is None else "-".join(filter(None, found.groups()))


def public_address(base_url: str, number: str) -> str:
    """The page of a certificate that is not in a private name."""
    return f"{base_url}/certificates/{number}"


FIND_SHARES = """
SELECT share.order_id, share.beneficiary AS registry_name, share.quantity_grams, parcel.quantity_grams AS parcel_grams,
       parcel.start_grams, parcel.retired_on, parcel.retirement_url, lot.vintage, lot.serial, lot.unit_grams,
       coalesce(lot.methodology, project.methodology) AS methodology, lot.country,
       project.registry, project.registry_project_id, coalesce(allocated.project_name, project.name) AS name,
       coalesce(allocated.project_type, project.type) AS type,
       lot.status = 'pre_retired' AS is_pre_retired, facts.document AS facts,
       coalesce(share.assigned_at, CASE WHEN orders.status = 'retiring' THEN orders.status_changed_at END,
                $3::timestamptz) AS assigned_at
FROM unnest($1::text[], $2::text[]) AS keys (account_id, id)
JOIN orders ON orders.account_id = keys.account_id AND orders.id = keys.id
JOIN shares share ON share.account_id = keys.account_id AND share.order_id = keys.id
JOIN parcels parcel ON parcel.mode = share.mode AND parcel.id = share.parcel_id
JOIN lots lot ON lot.mode = parcel.mode AND lot.id = parcel.lot_id
JOIN projects project ON project.mode = lot.mode AND project.id = lot.project_id
LEFT JOIN order_projects allocated ON allocated.account_id = share.account_id AND allocated.order_id = share.order_id
     AND allocated.line_position = share.line_position AND allocated.project_id = lot.project_id
LEFT JOIN credit_facts facts ON facts.digest = share.facts_digest
ORDER BY share.order_id, share.line_position, name, lot.vintage, lot.id, parcel.start_grams
"""
INSERT_CERTIFICATES = """
INSERT INTO certificates (account_id, order_id, organisation_id, mode, is_public, number, issued_at, record)
SELECT account_id, order_id, organisation_id, mode, is_public, number, $1, record
FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::boolean[], $7::text[], $8::bytea[])
     AS new (account_id, order_id, organisation_id, mode, is_public, number, record)
"""


def supply_day(lines: Sequence[certificate_record.CertificateLine], now: datetime) -> date:
    """When the last credits of an order were retired, or assigned to it if they had been retired in advance."""
    days = [line.retired_on if line.in_advance is None else line.in_advance.assigned_on for line in lines]
    return date.fromisoformat(max(days)) if days else now.astimezone(UTC).date()


class Issued(NamedTuple):
    """The first certificate of an order."""

    number: str
    supplied_on: date


async def issue_certificates(
    tx: Connection, orders: Sequence[Order], *, base_url: str, issuer: str, now: datetime
) -> dict[str, Issued]:
    """Issue a certificate for each of these fully retired orders, by order id. The caller stores the date of supply."""
    lines = await read_lines(tx, orders, issuer=issuer, assigned_at=now)
    orders = [replace(order, supplied_on=supply_day(lines[order.id], now)) for order in orders]
    logos = await keep_logos(tx, orders)
    records = [
        compose_certificate(order, lines[order.id], base_url=base_url, issuer=issuer, now=now, logo=logos.get(order.id))
        for order in orders
    ]
    await tx.execute(
        INSERT_CERTIFICATES,
        now,
        *columns(orders, "scope.account_id, id, scope.organisation_id, scope.mode, is_named_in_public"),
        [record.number for record in records],
        [certificate_record.encode_record(record) for record in records],
    )
    accounts = [order.scope.account_id for order in orders]
    await add_vintages(tx, [(account_id, now, record) for account_id, record in zip(accounts, records, strict=True)])
    await record_statements(
        tx,
        [NewStatement(record.mode, StatementKind.ISSUED, record.number, now) for record in records],
    )
    return {
        order.id: Issued(record.number, order.supplied_on)
        for order, record in zip(orders, records, strict=True)
        if order.supplied_on is not None
    }


def compose_certificate(
    order: Order,
    lines: Sequence[certificate_record.CertificateLine],
    *,
    base_url: str,
    issuer: str,
    now: datetime,
    logo: str | None = None,
    replaces: certificate_record.Replacement | None = None,
) -> certificate_record.CertificateRecord:
    """A certificate with a new number. `logo` is that of `keep_logos`."""
    number = new_number(order.scope.mode)
    return certificate_record.CertificateRecord(
        number=number,
        mode=order.scope.mode,
        order_id=order.id,
        issued_at=to_wire(now),
        beneficiary=order.beneficiary,
        issuer=issuer,
        total_quantity=format_tonnes(0 if order.priced is None else order.priced.quantity_grams),
        verification_url=f"{base_url}/verify/{number}",
        # Credits that were retired in advance have the name of the seller, as the line says.
        lines=[line if line.in_advance is None else replace(line, registry_name=None) for line in lines],
        replaces=replaces,
        language=order.language,
        logo=logo,
        supplied_on=None if order.supplied_on is None else order.supplied_on.isoformat(),
    )


async def read_lines(
    tx: Connection, orders: Sequence[Order], *, issuer: str, assigned_at: datetime
) -> defaultdict[str, list[certificate_record.CertificateLine]]:
    """The retired credits of these orders, by order id. `assigned_at` is for orders that are not retiring."""
    lines: defaultdict[str, list[certificate_record.CertificateLine]] = defaultdict(list)
    names = {order.id: order.beneficiary for order in orders}
    for row in await tx.fetch(FIND_SHARES, *columns(orders, "scope.account_id, id"), assigned_at):
        lines[row["order_id"]].append(_line(row, issuer, names[row["order_id"]]))
    return lines


def _line(row: asyncpg.Record, seller: str, beneficiary: str) -> certificate_record.CertificateLine:
    shared = None
    if row["quantity_grams"] < row["parcel_grams"]:
        shared = certificate_record.SharedUnit(format_tonnes(row["parcel_grams"]), format_tonnes(row["quantity_grams"]))
    in_advance = None
    if row["is_pre_retired"] or row["retired_on"] < earliest_day(row["assigned_at"]):
        assigned_on = row["assigned_at"].astimezone(UTC).date().isoformat()
        in_advance = certificate_record.RetiredInAdvance(seller, beneficiary, assigned_on)
    return certificate_record.CertificateLine(
        registry=row["registry"],
        project_id=row["registry_project_id"],
        project_name=row["name"],
        country=row["country"],
        project_type=row["type"],
        methodology=row["methodology"],
        vintage=str(row["vintage"]),
        serial_range=serial_range(
            row["registry"], row["serial"], row["unit_grams"], row["start_grams"], row["parcel_grams"]
        ),
        quantity=format_tonnes(row["quantity_grams"]),
        retired_on=row["retired_on"].isoformat(),
        retirement_url=row["retirement_url"],
        shared=shared,
        in_advance=in_advance,
        registry_name=None if row["registry_name"] == beneficiary else row["registry_name"],
        facts=None if row["facts"] is None else msgspec.json.decode(row["facts"], type=CreditFacts),
    )


FIND_CERTIFICATE = """
SELECT record FROM certificates WHERE account_id = $1 AND order_id = $2 AND state <> 'replaced'
"""


async def find_certificate(
    connection: Connection, scope: Scope, order_id: str
) -> certificate_record.CertificateRecord | None:
    """The record of the order's current certificate, which is valid or withdrawn."""
    stored: bytes | None = await connection.fetchval(FIND_CERTIFICATE, scope.account_id, order_id)
    return None if stored is None else certificate_record.decode_record(stored)


FIND_WITHDRAWAL = """
SELECT state_reason FROM certificates WHERE account_id = $1 AND order_id = $2 AND state = 'withdrawn'
"""


async def find_withdrawal(connection: Connection, scope: Scope, order_id: str) -> str | None:
    """Why the order's current certificate was withdrawn; None if it is valid, or there is none."""
    return optional(str, await connection.fetchval(FIND_WITHDRAWAL, scope.account_id, order_id))


class StoredCertificate(msgspec.Struct, frozen=True):
    """A certificate and its state. `is_public` is false if it names a person who did not agree to that."""

    scope: Scope
    record: certificate_record.CertificateRecord
    state: certificate_record.CertificateState
    replaced_by: str | None
    state_reason: str | None
    state_changed_at: datetime | None
    is_public: bool

    @property
    def out(self) -> certificate_record.CertificateOut:
        return certificate_record.CertificateOut(
            **msgspec.structs.asdict(self.record),
            state=self.state,
            replaced_by=self.replaced_by,
            state_reason=self.state_reason,
            state_changed_at=None if self.state_changed_at is None else to_wire(self.state_changed_at),
        )


STORED = """organisation_id, account_id, mode, record, state, replaced_by, state_reason, state_changed_at, is_public"""
LIST_OF_ORDER = f"""
SELECT {STORED} FROM certificates WHERE account_id = $1 AND order_id = $2
ORDER BY state <> 'replaced' DESC, state_changed_at DESC
"""  # noqa: S608 - columns above


async def list_of_order(connection: Connection, scope: Scope, order_id: str) -> list[StoredCertificate]:
    """The certificates of an order: the current one, then those that were replaced, newest first."""
    return [stored_certificate(row) for row in await connection.fetch(LIST_OF_ORDER, scope.account_id, order_id)]


FIND_BY_NUMBER = f"SELECT {STORED} FROM certificates WHERE number = $1"  # noqa: S608 - columns above


async def find_by_number_any_account(connection: Connection, number: str) -> StoredCertificate | None:
    """Knowing the number is the permission to read the certificate."""
    return optional(stored_certificate, await connection.fetchrow(FIND_BY_NUMBER, number))


def stored_certificate(row: asyncpg.Record) -> StoredCertificate:
    """From the columns of `STORED`."""
    record = certificate_record.decode_record(row["record"])
    return value_of(StoredCertificate, row, scope=scope_of(row), record=record)


class CertificateDocument(NamedTuple):
    """A PDF that was sent or downloaded. `sha256` is in hexadecimal."""

    sha256: str
    rendered_at: datetime


LIST_DOCUMENTS = """
SELECT encode(sha256, 'hex') AS sha256, rendered_at FROM certificate_documents WHERE number = $1
ORDER BY rendered_at, sha256
"""


async def list_documents_any_account(connection: Connection, number: str) -> list[CertificateDocument]:
    return [CertificateDocument(**row) for row in await connection.fetch(LIST_DOCUMENTS, number)]


FIND_NUMBER_OF_DOCUMENT = "SELECT number FROM certificate_documents WHERE sha256 = $1 LIMIT 1"


async def find_number_of_document_any_account(connection: Connection, sha256: str) -> str | None:
    """The number of the certificate for which a file with this hash was sent out."""
    return optional(str, await connection.fetchval(FIND_NUMBER_OF_DOCUMENT, bytes.fromhex(sha256)))


INSERT_DOCUMENT = """
INSERT INTO certificate_documents (number, sha256, rendered_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING
"""


async def record_document_any_account(connection: Connection, number: str, sha256: bytes, now: datetime) -> None:
    """Store the hash of a rendered PDF, so that the file can be verified later."""
    await connection.execute(INSERT_DOCUMENT, number, sha256, now)


# A page reads at most this many certificates. If too few of them match, it says from where to continue.
SCANNED = 3_000
_AT_ONCE = 300
_EARLIEST = datetime(1, 1, 1, tzinfo=UTC)


class CertificateFilter(Struct, frozen=True, kw_only=True):
    """`since` is included, `until` is not. `text` is a part of what the certificate states: names, serial numbers."""

    mode: Mode
    text: str | None = None
    since: datetime | None = None
    until: datetime | None = None


class ListedCertificates(Struct, frozen=True):
    """`next` is where to continue, None after the last one. `is_short`: more may match than were read."""

    certificates: list[StoredCertificate]
    next: Position | None
    is_short: bool


LIST_OF_ORGANISATION = f"""
SELECT {STORED}, number, issued_at FROM certificates
WHERE organisation_id = $1 AND mode = $2 AND (issued_at, number) < ($3, $4) AND issued_at >= $5
ORDER BY issued_at DESC, number DESC LIMIT $6
"""  # noqa: S608 - constants


async def list_certificates(
    connection: Connection, organisation_id: str, requested: CertificateFilter, start: Position = START, *, limit: int
) -> ListedCertificates:
    place = start
    if requested.until is not None and requested.until <= start.created_at:
        place = Position(requested.until, "")
    found: list[asyncpg.Record] = []
    at_once = limit + 1 if requested.text is None else _AT_ONCE
    # In several statements, so that other requests are served meanwhile.
    for _ in range(SCANNED // _AT_ONCE):
        rows = await connection.fetch(
            LIST_OF_ORGANISATION,
            organisation_id,
            requested.mode,
            place.created_at,
            place.id,
            requested.since or _EARLIEST,
            at_once,
        )
        found += [row for row in rows if _has(row["record"], requested.text)]
        if len(found) > limit:
            return _listed(found[:limit], _place(found[limit - 1]))
        if len(rows) < at_once:
            return _listed(found, None)
        place = _place(rows[-1])
    return _listed(found, place, is_short=True)


def _has(stored: bytes, text: str | None) -> bool:
    return text is None or text.lower() in decompress_json(stored).decode().lower()


def _place(row: asyncpg.Record) -> Position:
    return Position(row["issued_at"], row["number"])


def _listed(rows: Sequence[asyncpg.Record], after: Position | None, *, is_short: bool = False) -> ListedCertificates:
    return ListedCertificates([stored_certificate(row) for row in rows], after, is_short)


FIND_NAMED = f"""
SELECT {STORED} FROM certificates WHERE organisation_id = $1 AND mode = $2 AND number = $3
UNION ALL
SELECT {STORED} FROM certificates
WHERE organisation_id = $1 AND mode = $2 AND order_id = $4
  AND account_id IN (SELECT id FROM accounts WHERE accounts.organisation_id = $1 AND accounts.mode = $2)
"""  # noqa: S608 - constants


async def find_certificates(
    connection: Connection, tenant: Tenant, *, number: str, order_id: str
) -> list[StoredCertificate]:
    """Those with this number, or of this order."""
    rows = await connection.fetch(FIND_NAMED, *tenant, number, order_id)
    return [stored_certificate(row) for row in rows]
