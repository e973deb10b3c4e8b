"""Bank records that name a payer. They are kept as long as the law asks for."""

from collections.abc import Sequence
from datetime import date
from typing import NamedTuple

from tonne.platform.db.database import Connection
from tonne.platform.values.context import Mode


class PayerRecord(NamedTuple):
    id: str
    booked_on: date
    payer: str
    payer_iban: str
    reference: str


LIST_OF_PAYER = """
SELECT id, booked_on, payer, payer_iban, reference FROM bank_transfers
WHERE ($1::text IS NULL OR mode = $1)
  AND EXISTS (SELECT FROM unnest($2::text[]) AS term WHERE strpos(lower(concat_ws(' ', payer, reference)), term) > 0)
ORDER BY booked_on, id
"""


async def list_of_payer_any_account(
    connection: Connection, mode: Mode | None, terms: Sequence[str]
) -> list[PayerRecord]:
    """Transfers whose payer or reference contains a term, which is in lower case."""
    return [PayerRecord(**row) for row in await connection.fetch(LIST_OF_PAYER, mode, terms)]
