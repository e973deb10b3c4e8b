"""Open invoices that a bank transfer may be for. Only suggestions: a person decides."""

import re
from collections.abc import Sequence
from datetime import date
from enum import StrEnum

from msgspec import Struct

from tonne.money.bank.transfer_model import Transfer
from tonne.platform.db.database import Connection, columns, value_of
from tonne.platform.values.context import Mode

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
