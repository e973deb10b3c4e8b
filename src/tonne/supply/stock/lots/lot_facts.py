"""What lots.csv says of its credits beyond what their project says. No I/O."""

import re
from collections.abc import Iterator
from typing import Annotated

import msgspec
from msgspec import Meta

from tonne.platform.documents.sheets import columns
from tonne.platform.documents.sheets.columns import CellError, quoted
from tonne.platform.documents.sheets.read_sheet import Values
from tonne.selling.catalogue.imports import detail_columns

_CODE = re.compile(r"[a-z][a-z0-9_]{1,39}")
# Of CORSIA, "in scope" and "eligible" are two things: only the second may be used by an airline.
CORSIA = frozenset(
    f"corsia_{phase}_{state}" for phase in ("pilot", "first", "second") for state in ("scope", "eligible")
)


class CreditLabel(msgspec.Struct, frozen=True):
    """A label of units, with who says so and when."""

    code: Annotated[str, Meta(description="The label.", examples=["icvcm_ccp"])]
    source: Annotated[str, Meta(description="Who says so.", examples=["Verra registry"])]
    as_of: Annotated[str, Meta(description="When it said so.", examples=["2026-01-31"])]


class LotFacts(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The fields have the names of the columns of lots.csv. They may change while orders hold credits of the lot."""

    mechanism: str | None = None
    removal_percent: int | None = None
    labels: list[CreditLabel] | None = None
    article_6: str | None = None
    article_6_uses: list[str] | None = None
    article_6_source: str | None = None
    article_6_date: str | None = None
    verifying_body: str | None = None
    verified_on: str | None = None
    facts_source: str | None = None
    facts_as_of: str | None = None


NO_LOT_FACTS = LotFacts()


def parse_label(item: str) -> CreditLabel:
    code, source, day = map(str, detail_columns.parts(item, "code", "source", "date", required=3))
    code = code.lower()
    if not _CODE.fullmatch(code) or (code.startswith("corsia") and code not in CORSIA):
        known = f"icvcm_ccp, icroa_programme, {', '.join(sorted(CORSIA))}"
        raise CellError(f"{quoted(code)} is not a label: write one such as {known}.")
    return CreditLabel(code, columns.text(detail_columns.MAX_ITEM_LENGTH)(source), detail_columns.parse_day(day))


def check_facts(values: Values) -> Iterator[tuple[str, str]]:
    has_article_6 = values.get("article_6") is not None
    for name in ("article_6_source", "article_6_date"):
        if has_article_6 and name in values and values[name] is None:
            yield name, "the cell is empty: enter who says what article_6 states, and when."
    for name in ("article_6_uses", "article_6_source", "article_6_date"):
        if not has_article_6 and "article_6" in values and values.get(name) is not None:
            yield name, "article_6 is empty: fill both, or clear both."
    if values.get("verified_on") is not None and values.get("verifying_body", "invalid") is None:
        yield "verified_on", "verifying_body is empty: fill both, or clear both."
