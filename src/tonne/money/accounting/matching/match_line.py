"""Which invoice a line of a bank statement pays, and how much of it. What is not certain is left to a person.

For that person, open invoices are suggested that a bank transfer may be for.
"""

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date
from enum import StrEnum
from itertools import product
from math import prod
from typing import NamedTuple

from msgspec import Struct

from tonne.money.bank.formats.statement import BankLine, StatementLine
from tonne.money.bank.transfer_model import Transfer
from tonne.money.invoices.model import Invoice, InvoiceStatus
from tonne.money.invoices.reference import references_in
from tonne.platform.db.database import Connection, columns, value_of
from tonne.platform.values.context import Mode, replace
from tonne.selling.accounts.model import PaymentMethod


class NamedInvoice(Struct):
    """An invoice that lines name, with what it has received up to the current line."""

    invoice: Invoice
    received_minor: int

    @property
    def missing_minor(self) -> int:
        """What it can still receive. One that was settled by hand gets the transfer that it was settled for."""
        invoice = self.invoice
        if invoice.status is InvoiceStatus.OPEN:
            return max(0, invoice.due_minor - self.received_minor)
        if invoice.status is InvoiceStatus.PAID and invoice.settled_by_hand:
            return max(0, (invoice.settled_minor or 0) - invoice.difference_minor - self.received_minor)
        return 0

    @property
    def takes_transfers(self) -> bool:
        """Whether it waits for money by bank transfer."""
        invoice = self.invoice
        by_invoice = invoice.payment_method is PaymentMethod.INVOICE
        return by_invoice and invoice.status is InvoiceStatus.OPEN and self.missing_minor > 0

    def mark_paid(self) -> None:
        self.invoice = replace(self.invoice, status=InvoiceStatus.PAID, settled_minor=self.invoice.due_minor)


class Part(NamedTuple):
    """`assigned_minor` of a line goes to the invoice; `settles` if that pays it, but for what is tolerated."""

    named: NamedInvoice
    assigned_minor: int
    settles: bool
    tolerated_minor: int = 0


class Match(NamedTuple):
    """`named` is the only invoice that the line names; None if it names none, or pays several."""

    named: NamedInvoice | None
    parts: Sequence[Part]
    message: str

    @property
    def references(self) -> str | None:
        """The invoices that it names or pays."""
        named = [part.named for part in self.parts] or ([self.named] if self.named else [])
        return ", ".join(each.invoice.reference for each in named) or None


def match_line(
    line: StatementLine, mode: Mode, invoices: Mapping[str, NamedInvoice], tolerance_minor: int = 0
) -> Match:
    """Adds what it assigns to what the invoices received. At most `tolerance_minor` may be missing of an invoice."""
    chosen, problem = _find_named(line, mode, invoices)
    if not chosen:
        return Match(None, (), problem)
    if len(chosen) > 1:
        parts = [Part(each, each.missing_minor, settles=True) for each in chosen]
        for part in parts:
            part.named.received_minor += part.assigned_minor
        return Match(None, parts, f"{', '.join(each.invoice.reference for each in chosen)} paid.")
    [named] = chosen
    invoice, missing = named.invoice, named.missing_minor
    if missing == 0:
        wording = "assign the money to another invoice, or return it."
        return Match(named, (), f"the invoice is already {invoice.status}: {wording}")
    if invoice.payment_method is PaymentMethod.CARD and invoice.status is InvoiceStatus.OPEN:
        wording = "assign the money by hand if the card cannot pay, or return it."
        return Match(named, (), f"the card of the account pays the invoice: {wording}")
    assigned = min(line.amount_minor, missing)
    surplus = line.amount_minor - assigned
    named.received_minor += assigned
    if invoice.is_written_off:
        message = f"{invoice.money(assigned)} of the written-off invoice recovered."
    elif invoice.status is InvoiceStatus.PAID:
        message = "the invoice was settled by hand: this is its payment."
    elif assigned < missing <= assigned + tolerance_minor:
        message = f"{invoice.due} paid, but for {invoice.money(missing - assigned)}: a small difference."
    elif assigned < missing:
        message = f"{invoice.money(missing - assigned)} of {invoice.due} still missing."
    else:
        message = f"{invoice.due} paid."
    if surplus:
        message = f"{message.removesuffix('.')}, and {invoice.money(surplus)} too much: assign or return that."
    settles = invoice.status is InvoiceStatus.OPEN and missing <= assigned + tolerance_minor
    return Match(named, (Part(named, assigned, settles, missing - assigned if settles else 0),), message)


def named_references(line: BankLine) -> list[set[str]]:
    """The invoices that the payer names in the text, or else in the end-to-end id, which payers choose."""
    return references_in(line.reference) or references_in(line.end_to_end_id)


def _find_named(
    line: StatementLine, mode: Mode, invoices: Mapping[str, NamedInvoice]
) -> tuple[Sequence[NamedInvoice], str]:
    """The invoices that the line pays, or a message. What is not certain is left for an operator."""
    places = named_references(line)
    missing = [min(place) for place in places if not place & invoices.keys()]
    by_first = {each.invoice.reference: each for each in invoices.values()}
    known = [_first_numbers(place, invoices) for place in places]
    names = {name for place in known for name in place}
    if not places:
        return (), "no invoice is named."
    if missing:
        return (), f"there is no invoice {missing[0]}."
    if len(names) > 1:
        fitting = _find_fitting(line, mode, known, by_first)
        if len(fitting) == 1:
            return [by_first[name] for name in sorted(fitting.pop())], ""
        return (), f"ambiguous: may be any of {', '.join(sorted(names))}."
    named = by_first[names.pop()]
    invoice = named.invoice
    if (invoice.mode, invoice.currency) != (mode, line.currency):
        return (), f"{invoice.reference} is in {invoice.mode} mode and in {invoice.currency}."
    return [named], ""


def _first_numbers(place: AbstractSet[str], invoices: Mapping[str, NamedInvoice]) -> set[str]:
    """Of the invoices that a place may name: one that was replaced has several numbers."""
    return {invoices[name].invoice.reference for name in place & invoices.keys()}


# A text with many unclear numbers is left to a person.
_MAX_COMBINATIONS = 1_000


def _find_fitting(
    line: StatementLine, mode: Mode, places: Sequence[AbstractSet[str]], invoices: Mapping[str, NamedInvoice]
) -> set[frozenset[str]]:
    """The combinations of one invoice for each place that are open, of one organisation, and miss this sum."""
    if prod(map(len, places)) > _MAX_COMBINATIONS:
        return set()
    found = set()
    for names in {frozenset(names) for names in product(*places)}:
        chosen = [invoices[name] for name in names]
        is_payable = all(
            each.takes_transfers and (each.invoice.mode, each.invoice.currency) == (mode, line.currency)
            for each in chosen
        )
        is_of_one = len({each.invoice.organisation_id for each in chosen}) == 1
        if is_payable and is_of_one and sum(each.missing_minor for each in chosen) == line.amount_minor:
            found.add(names)
    return found


class SuggestedSplit(NamedTuple):
    """What each named invoice would get of a transfer. Exactly one of the differences may be above 0."""

    parts: Sequence[tuple[Invoice, int]]
    missing_minor: int
    surplus_minor: int

    @property
    def references(self) -> str:
        return " ".join(invoice.reference for invoice, _ in self.parts)


def suggest_split(transfer: Transfer, invoices: Mapping[str, NamedInvoice]) -> SuggestedSplit | None:
    """In the order of the numbers. None unless the text names several open invoices of one customer."""
    by_first = {each.invoice.reference: each for each in invoices.values()}
    names = {name for place in named_references(transfer) for name in _first_numbers(place, invoices)}
    chosen = [by_first[name] for name in sorted(names)]
    payable = [
        each
        for each in chosen
        if each.takes_transfers and (each.invoice.mode, each.invoice.currency) == (transfer.mode, transfer.currency)
    ]
    if len(payable) < 2 or len({each.invoice.organisation_id for each in payable}) != 1:
        return None
    parts, rest_minor = [], transfer.rest_minor
    for each in payable:
        parts.append((each.invoice, min(rest_minor, each.missing_minor)))
        rest_minor -= parts[-1][1]
    missing_minor = sum(each.missing_minor for each in payable) - sum(minor for _, minor in parts)
    return SuggestedSplit([part for part in parts if part[1]], missing_minor, rest_minor)


PER_TRANSFER = 3
_NUMBER = re.compile(r"(?<![0-9])0*([1-9][0-9]{0,14})(?![0-9])")
_MAX_NUMBERS = 20
# Shorter ones are more often a day, a quantity or a part of an address. Zeros in front count.
_MIN_DIGITS = 4


class MatchHint(StrEnum):
    """Why an invoice is suggested."""

    NUMBER = "number"
    AMOUNT = "amount"
    ACCOUNT = "account"
    NAME = "name"

    @property
    def label(self) -> str:
        return _LABELS[self]


_LABELS = {
    MatchHint.NUMBER: "number in the text",
    MatchHint.AMOUNT: "same amount",
    MatchHint.ACCOUNT: "paid from this account before",
    MatchHint.NAME: "similar name",
}


class SuggestedInvoice(Struct, frozen=True):
    invoice_id: str
    reference: str
    organisation_id: str
    organisation_name: str
    currency: str
    open_minor: int
    due_on: date
    hints: tuple[MatchHint, ...]


# Names are compared without spaces, punctuation and the usual legal forms.
_LEGAL_FORMS = "gmbh|ug|ag|kg|ohg|ltd|limited|llc|inc|plc|as|asa|ab|oy|sa|sas|sarl|srl|spa|bv|nv|aps"
_FOLD = rf"regexp_replace(lower({{0}}), '\m({_LEGAL_FORMS})\M|[^[:alnum:]]', '', 'g')"
SUGGEST = f"""
WITH waiting AS (
    SELECT keys.id, keys.currency, keys.rest_minor, keys.iban, {_FOLD.format("keys.payer")} AS payer
    FROM unnest($2::text[], $3::text[], $4::bigint[], $5::text[], $6::text[])
         AS keys (id, currency, rest_minor, iban, payer)
), debts AS MATERIALIZED (
    SELECT invoices.id, invoices.reference, invoices.number, invoices.organisation_id, invoices.currency,
           invoices.due_on, organisations.name AS organisation_name, {_FOLD.format("organisations.name")} AS folded,
           (invoices.total_minor - invoices.credited_minor
            - coalesce((SELECT sum(paid.amount_minor) FROM transfer_assignments paid
                        WHERE paid.invoice_id = invoices.id), 0))::bigint AS open_minor
    FROM invoices JOIN organisations ON organisations.id = invoices.organisation_id
    WHERE invoices.mode = $1 AND invoices.status = 'open' AND invoices.payment_method = 'invoice'
      AND invoices.currency = ANY ($3::text[])
), hints AS (
    SELECT waiting.id AS transfer_id, debts.id AS invoice_id, 'number' AS hint, 5 AS weight
    FROM unnest($7::text[], $8::bigint[]) AS named (id, number)
    JOIN waiting ON waiting.id = named.id
    JOIN debts ON debts.currency = waiting.currency AND debts.number = named.number
    UNION
    SELECT waiting.id, debts.id, 'amount', 3
    FROM waiting JOIN debts ON debts.currency = waiting.currency AND debts.open_minor = waiting.rest_minor
    UNION
    SELECT waiting.id, debts.id, 'account', 2
    FROM waiting JOIN bank_transfers earlier ON waiting.iban <> '' AND earlier.payer_iban = waiting.iban
    JOIN transfer_assignments paid ON paid.transfer_id = earlier.id AND paid.amount_minor > 0
    JOIN invoices payed ON payed.id = paid.invoice_id AND payed.mode = $1
    JOIN debts ON debts.currency = waiting.currency AND debts.organisation_id = payed.organisation_id
    UNION
    SELECT waiting.id, debts.id, 'name', 2
    FROM waiting JOIN debts ON debts.currency = waiting.currency
     AND length(waiting.payer) >= 4 AND length(debts.folded) >= 4
     AND (position(debts.folded IN waiting.payer) > 0 OR position(waiting.payer IN debts.folded) > 0)
), ranked AS (
    SELECT hints.transfer_id, hints.invoice_id, array_agg(hints.hint ORDER BY hints.weight DESC, hints.hint) AS hints,
           row_number() OVER (PARTITION BY hints.transfer_id
                              ORDER BY sum(hints.weight) DESC, min(debts.due_on), min(debts.number)) AS place
    FROM hints JOIN debts ON debts.id = hints.invoice_id GROUP BY hints.transfer_id, hints.invoice_id
)
SELECT ranked.transfer_id, ranked.invoice_id, debts.reference, debts.organisation_id, debts.organisation_name,
       debts.currency, debts.open_minor, debts.due_on, ranked.hints
FROM ranked JOIN debts ON debts.id = ranked.invoice_id
WHERE ranked.place <= $9 ORDER BY ranked.transfer_id, ranked.place
"""  # noqa: S608 - constants


async def suggest_matches_any_account(
    connection: Connection, mode: Mode, transfers: Sequence[Transfer], *, per_transfer: int = PER_TRANSFER
) -> dict[str, list[SuggestedInvoice]]:
    """The best candidates of each transfer with money left, by transfer id, in one statement."""
    open_ones = [each for each in transfers if each.amount_minor > 0 and each.rest_minor > 0]
    found: dict[str, list[SuggestedInvoice]] = {}
    if not open_ones:
        return found
    named = [(each.id, number) for each in open_ones for number in numbers_in(each)]
    waiting = columns(open_ones, "id, currency, rest_minor, payer_iban, payer")
    numbers = [id_ for id_, _ in named], [number for _, number in named]
    for row in await connection.fetch(SUGGEST, mode, *waiting, *numbers, per_transfer):
        found.setdefault(row["transfer_id"], []).append(value_of(SuggestedInvoice, row))
    return found


def numbers_in(transfer: Transfer) -> list[int]:
    """Numbers that the payer wrote and that may be those of invoices."""
    text = f"{transfer.reference} {transfer.end_to_end_id}"
    numbers = (int(found[1]) for found in _NUMBER.finditer(text) if len(found[0]) >= _MIN_DIGITS)
    return list(dict.fromkeys(numbers))[:_MAX_NUMBERS]
