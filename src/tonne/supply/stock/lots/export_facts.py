"""What public exports of registries say of credits besides their serials, as columns of lots.csv. No I/O.

Only words with one meaning are read. An empty cell, "No" and "Not Applicable" are no facts: what is unknown stays so.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import date

from msgspec import Struct

FACT_COLUMNS = (
    *("mechanism", "labels", "article_6", "article_6_uses", "article_6_source", "article_6_date"),
    *("facts_source", "facts_as_of"),
)
_SILENT = {"", "-", "no", "n/a", "not applicable"}
_MECHANISM = re.compile(r"(?:(?:ghg )?emissions? |carbon dioxide |verified )?(?P<kind>reduction|removal)s?")
_CORSIA = re.compile(
    r"corsia - (?P<name>pilot|first|second) phase\b.*?(?P<kind>scope|eligible)"
    r"|eligible for corsia (?P<years>2021-2023|2024-2026) compliance period(?: \([a-z ]+\))?"
)
_PHASES = {"2021-2023": "pilot", "2024-2026": "first"}
_ARTICLE_6 = re.compile(r"(?:article 6 )?authori[sz]ed(?: - (?P<use>ndc|int(?:ernationa)?l|other)\b.*)?")
_USES = {"ndc": "ndc", "int": "international", "oth": "other"}
_ADJUSTED = re.compile(r"(?:article 6 )?correspondingly adjusted|corresponding adjustment")
# Texts about a market or Article 6 that are none of the above may mean anything.
_OTHER_LABEL = re.compile(r"(?!corsia|article|author)[a-z][a-z0-9_]{1,39}")


class FactColumns(Struct, frozen=True):
    """`labels`: columns with labels of any name. `flags`: columns whose "Yes" states what their name says."""

    labels: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()


class ExportedFacts(Struct):
    """Facts of one line. `unread` are texts whose meaning is not known."""

    mechanisms: set[str]
    labels: list[str]
    article_6: set[str]
    uses: list[str]
    unread: list[str]

    def cells(self, source: str, day: date) -> dict[str, str]:
        found = {"labels": " | ".join(f"{code} ; {source} ; {day}" for code in self.labels)}
        if len(self.mechanisms) == 1:
            found |= {"mechanism": min(self.mechanisms), "facts_source": source, "facts_as_of": str(day)}
        if self.article_6:
            # Alphabetically, an adjustment is before the authorisation that it presupposes.
            found |= {"article_6": min(self.article_6), "article_6_uses": " | ".join(self.uses)}
            found |= {"article_6_source": source, "article_6_date": str(day)}
        return found


def read_facts(columns: FactColumns, by_name: Mapping[str, str]) -> ExportedFacts:
    """`by_name` are the cells of a line by their columns in lower case."""
    facts = ExportedFacts(set(), [], set(), [], [])
    for column in (*columns.labels, *columns.others):
        # "CORSIA - First Phase, 2024-2026 Scope" is one statement.
        for statement in re.split(r";|,(?! *20[0-9]{2})", by_name.get(column.lower(), "")):
            _read(facts, statement.strip(), is_label=column in columns.labels)
    for column in columns.flags:
        if by_name.get(column.lower(), "").lower() == "yes":
            _read(facts, column, is_label=False)
    return facts


def _read(facts: ExportedFacts, statement: str, *, is_label: bool) -> None:
    text = re.sub(r"\s*[–—-]\s+|\s+[–—-]", " - ", statement.lower())
    if text in _SILENT:
        return
    if found := _MECHANISM.fullmatch(text):
        facts.mechanisms.add("removal" if found["kind"] == "removal" else "avoidance")
    elif found := _CORSIA.fullmatch(text):
        _add(facts.labels, f"corsia_{found['name'] or _PHASES[found['years']]}_{found['kind'] or 'eligible'}")
    elif _ADJUSTED.fullmatch(text):
        facts.article_6.add("adjusted")
    elif found := _ARTICLE_6.fullmatch(text):
        facts.article_6.add("authorised")
        _add(facts.uses, *(_USES[use[:3]] for use in filter(None, [found["use"]])))
    elif text in {"icvcm ccp", "ccp approved"}:
        _add(facts.labels, "icvcm_ccp")
    elif _OTHER_LABEL.fullmatch(code := re.sub(r"[^a-z0-9]+", "_", text).strip("_")) and is_label:
        _add(facts.labels, code)
    else:
        _add(facts.unread, statement)


def _add(values: list[str], *more: str) -> None:
    values.extend(value for value in more if value not in values)


def stated(lines: Iterable[Mapping[str, str]]) -> tuple[str, ...]:
    """The columns that some line states: an import does not change those that its file lacks."""
    every = list(lines)
    return tuple(name for name in FACT_COLUMNS if any(cells.get(name) for cells in every))
