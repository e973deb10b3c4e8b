"""Checks of VAT ids: what a register said, whether that proves reverse charge today, and their table.

A register is asked by a job of the worker only, never in a transaction or while an order is placed.
"""

from collections.abc import Collection
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from tonne.platform.db.database import Connection, parameters_of, value_of
from tonne.platform.events.audit import record as audit
from tonne.platform.values.context import By, new_id
from tonne.platform.values.countries import EU_COUNTRIES
from tonne.platform.values.tax_ids import is_eu_vat
from tonne.selling.accounts.errors import TaxProfileInvalid

# How long a valid check counts while the register does not respond.
UNAVAILABLE_FOR = timedelta(days=90)
_MAX_TEXT, _MAX_NUMBER = 500, 100


class VatOutcome(StrEnum):
    VALID = "valid"
    INVALID = "invalid"
    # The register did not answer. That says nothing about the number.
    UNAVAILABLE = "unavailable"


class VatSource(StrEnum):
    VIES = "vies"
    # A person has asked a register and written down what it said.
    BY_HAND = "by_hand"


class VatAnswer(Struct, frozen=True):
    """What a register knows of a VAT id. It gives a consultation number only if it is told who asks."""

    outcome: VatOutcome
    name: str | None = None
    address: str | None = None
    consultation_number: str | None = None


class VatRegister(Protocol):
    async def check(self, vat_id: str, requester: str | None) -> VatAnswer:
        """Ask about a VAT id of the EU, on behalf of our own. Raises nothing: a failure is `unavailable`."""


class VatCheck(VatAnswer, frozen=True, kw_only=True):
    id: str
    vat_id: str
    requester: str | None
    source: VatSource
    checked_at: datetime
    checked_by: str
    # Whether the register was asked later and did not answer.
    is_unavailable: bool = False

    def proves(self, now: datetime, max_age_days: int) -> bool:
        """Whether it is enough for a document without tax that is issued now."""
        allowed = UNAVAILABLE_FOR if self.is_unavailable else timedelta(0)
        return self.outcome is VatOutcome.VALID and now - self.checked_at <= max(timedelta(max_age_days), allowed)


def is_checked(vat_id: str | None) -> bool:
    """Whether a register of the EU knows such numbers. Other countries have registers of their own."""
    return vat_id is not None and vat_id[:2] in {*EU_COUNTRIES, "EL"} and is_eu_vat(vat_id)


_COLUMNS = "id, vat_id, requester, outcome, name, address, consultation_number, source, checked_at, checked_by"
FIND_CHECKS = f"""
SELECT DISTINCT ON (known.vat_id) {_COLUMNS},
       EXISTS (SELECT FROM vat_checks later WHERE later.vat_id = known.vat_id AND later.outcome = 'unavailable'
               AND later.checked_at > known.checked_at) AS is_unavailable
FROM vat_checks known WHERE known.vat_id = ANY ($1::text[]) AND known.outcome <> 'unavailable'
ORDER BY known.vat_id, known.checked_at DESC, known.id DESC
"""  # noqa: S608 - a constant


async def find_vat_checks(connection: Connection, vat_ids: Collection[str]) -> dict[str, VatCheck]:
    """What was last known of each of these VAT ids. Those that no register has answered about are missing."""
    rows = await connection.fetch(FIND_CHECKS, list(vat_ids))
    return {row["vat_id"]: value_of(VatCheck, row) for row in rows}


async def find_vat_check(connection: Connection, vat_id: str | None) -> VatCheck | None:
    return None if vat_id is None else (await find_vat_checks(connection, [vat_id])).get(vat_id)


LIST_CHECKS = f"SELECT {_COLUMNS} FROM vat_checks WHERE vat_id = $1 ORDER BY checked_at DESC, id DESC LIMIT $2"  # noqa: S608 - a constant


async def list_vat_checks(connection: Connection, vat_id: str, limit: int) -> list[VatCheck]:
    """Newest first."""
    return [value_of(VatCheck, row) for row in await connection.fetch(LIST_CHECKS, vat_id, limit)]


# Of the requests that were not answered, only the last one says something.
INSERT_CHECK = f"""
WITH replaced AS (DELETE FROM vat_checks WHERE vat_id = $2 AND outcome = 'unavailable' AND $4 = 'unavailable')
INSERT INTO vat_checks ({_COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
"""  # noqa: S608 - a constant


async def insert_vat_check(tx: Connection, check: VatCheck) -> None:
    await tx.execute(INSERT_CHECK, *parameters_of(check, _COLUMNS))


def vat_check_of(vat_id: str, requester: str | None, answer: VatAnswer, source: VatSource, *, by: By) -> VatCheck:
    return VatCheck(
        id=new_id("vat"),
        vat_id=vat_id,
        requester=requester,
        outcome=answer.outcome,
        name=_text(answer.name, _MAX_TEXT),
        address=_text(answer.address, _MAX_TEXT),
        consultation_number=_text(answer.consultation_number, _MAX_NUMBER),
        source=source,
        checked_at=by.at,
        checked_by=str(by.actor),
    )


def _text(text: str | None, longest: int) -> str | None:
    """On one line, printable. Registers write `---` for what they do not tell."""
    plain = " ".join("".join(char if char.isprintable() else " " for char in text or "").split())[:longest]
    return plain if plain.strip("- ") else None


async def record_vat_check(tx: Connection, vat_id: str, requester: str | None, answer: VatAnswer, *, by: By) -> None:
    """What a person has read in a register. It counts like an answer of the register. Raises TaxProfileInvalid."""
    vat_id = "".join(vat_id.split()).upper()
    if not is_checked(vat_id):
        raise TaxProfileInvalid(f"{vat_id} is not a VAT number of a country of the EU, with its prefix.")
    check = vat_check_of(vat_id, requester, answer, VatSource.BY_HAND, by=by)
    await insert_vat_check(tx, check)
    stated = {"outcome": check.outcome, "consultation_number": check.consultation_number, "name": check.name}
    await audit.record(tx, None, "vat_check.recorded", by=by, subject_id=vat_id, after=stated)
