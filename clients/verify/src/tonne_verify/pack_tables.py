"""The tables of an audit pack: serials, and what companies must disclose about the credits that they use.

The seller writes them with this module, and `tonne-verify pack` writes them again from the certificates in the pack.
"""

import csv
import io
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from tonne_verify.formulas import escape_formula

Json = dict[str, Any]
PACK_FORMAT = "tonne-pack/1"
# What a pack says about itself.
PACK_FILE = "pack.json"
# The folders of the certificates.
CURRENT, PREVIOUS = "certificates", "previous-period"
NOT_RECORDED = "not recorded"
# The law asks about the company's own data and claims, of which a seller of credits knows nothing.
_FOR_YOU = "for you to state"
SERIAL_COLUMNS = (
    *("certificate", "issued_at", "order", "beneficiary", "registry", "project_id", "project", "country", "type"),
    *("mechanism", "methodology", "vintage", "serial_numbers", "tonnes", "retired_on", "retirement_url"),
    *("tonnes_of_shared_unit", "retired_in_advance_by", "assigned_on", "name_at_registry"),
    *("removal_percent", "sink", "methodology_version", "durability_years", "reversible", "buffer", "labels"),
    *("article_6", "article_6_uses", "ratings", "verifier", "verified_on"),
)
_STATED = ("removal_percent", "sink", "methodology_version", "durability_years", "reversible", "buffer")
AB_1305_COLUMNS = (
    *("seller_of_the_offset", "registry_or_programme", "project_id", "project_name", "project_type"),
    *("removal_or_avoidance", "site_location", "protocol", "third_party_verification_of_your_data_and_claims"),
    *("verifier_of_the_credits", "tonnes_co2e", "vintages"),
    *("removal_percent", "durability_years", "standards_met", "verified_on"),
)
ESRS_COLUMNS = (
    *("carbon_credits_cancelled", "tonnes_co2e", "share_percent"),
    *("tonnes_co2e_of_the_previous_period", "share_percent_of_the_previous_period"),
)
PLANNED_COLUMNS = ("order", "status", "tonnes_co2e")
_TOTAL = "Total (tCO2eq)"


@dataclass(frozen=True, slots=True)
class PlannedOrder:
    """An order that is cleared for fulfilment and has no certificate yet."""

    order: str
    status: str
    tonnes: str


@dataclass(slots=True)
class _Sums:
    """Tonnes of a period, by what is reported about them."""

    total: Decimal = Decimal(0)
    certificates: int = 0
    parts: defaultdict[str, Decimal] = field(default_factory=lambda: defaultdict(Decimal))
    standards: defaultdict[str, Decimal] = field(default_factory=lambda: defaultdict(Decimal))

    def figures(self, part: str, unknown: str, base: str) -> tuple[str, str]:
        """`unknown` is the part of `base` of which nothing is recorded: if it is all, the figure is not known."""
        whole = self.total if base == _TOTAL else self.parts[base]
        if unknown and whole and self.parts[unknown] == whole:
            return NOT_RECORDED, NOT_RECORDED
        return self.shares(self.parts[part])

    def shares(self, part: Decimal) -> tuple[str, str]:
        return str(part), f"{part * 100 / self.total:.2f}" if self.total else "0.00"


@dataclass(slots=True)
class _Project:
    tonnes: Decimal = Decimal(0)
    vintages: set[str] = field(default_factory=set)


class PackTables:
    """Add all certificates in their order, then write the files. `is_eu` says whether a country is in the EU."""

    def __init__(self, is_eu: Callable[[str], bool]) -> None:
        self._is_eu = is_eu
        self._serials = io.StringIO()
        self._writer = csv.writer(self._serials, lineterminator="\r\n")
        self._writer.writerow(SERIAL_COLUMNS)
        self._projects: dict[tuple[str, ...], _Project] = {}
        self._current, self._previous = _Sums(), _Sums()

    def add(self, record: Json) -> None:
        """A certificate of the period, as its JSON states it."""
        self._add_sums(self._current, record)
        for line in record["lines"]:
            self._writer.writerow(map(escape_formula, _serial_row(record, line)))
            project = self._projects.setdefault(_disclosed(record, line), _Project())
            project.tonnes += Decimal(line["quantity"])
            project.vintages.add(line["vintage"])

    def add_previous(self, record: Json) -> None:
        """One of the previous period, of which only sums are reported."""
        self._add_sums(self._previous, record)

    def files(self, about: Json, planned: Sequence[PlannedOrder]) -> dict[str, bytes]:
        """`about` is the content of pack.json."""
        tables = {
            "serial-numbers.csv": self._serials.getvalue().encode(),
            "california-ab-1305.csv": self._ab_1305(),
            "esrs-e1-7.csv": self._esrs_e1_7(),
            "planned-cancellations.csv": _planned(planned),
        }
        missing = {name: _count_missing(content) for name, content in tables.items()}
        text = _README.format(
            **about,
            test="\nTEST MODE: nothing in this file was retired.\n" if about["mode"] == "test" else "",
            count=self._current.certificates,
            tonnes=self._current.total,
            previous=self._previous.certificates,
            missing=", ".join(f"{count} in {name}" for name, count in missing.items() if count) or "none",
        )
        return {**tables, "README.txt": text.encode()}

    def _add_sums(self, sums: _Sums, record: Json) -> None:
        sums.certificates += 1
        for line in record["lines"]:
            tonnes = Decimal(line["quantity"])
            sums.total += tonnes
            for name, part in _parts(line, tonnes, is_eu=self._is_eu(line["country"])):
                sums.parts[name] += part
            for standard in _standards(line):
                sums.standards[standard] += tonnes

    def _ab_1305(self) -> bytes:
        """California, Health and Safety Code 44475.1: what a purchaser or user of voluntary offsets discloses."""
        rows = []
        for key, project in sorted(self._projects.items(), key=lambda each: (each[0][1:3], each)):
            head, facts = key[:10], key[10:]
            rows.append((*head, str(project.tonnes), " ".join(sorted(project.vintages)), *facts))
        return _csv(AB_1305_COLUMNS, rows)

    def _esrs_e1_7(self) -> bytes:
        """ESRS E1-7: carbon credits cancelled in the reporting period, and in the same one a year before."""
        periods = (self._current, self._previous)

        def row(name: str, part: str, unknown: str = "", base: str = _TOTAL) -> Iterable[str]:
            return (name, *(cell for sums in periods for cell in sums.figures(part, unknown, base)))

        standards = sorted(self._current.standards.keys() | self._previous.standards.keys())
        rows = [
            (_TOTAL, *(cell for sums in periods for cell in (str(sums.total), ""))),
            row("From removal projects", "removal", NOT_RECORDED),
            row("of which biogenic sinks", "biogenic", "no sink", "removal"),
            row("of which technological sinks", "technological", "no sink", "removal"),
            row("of which hybrid sinks", "hybrid", "no sink", "removal"),
            row("of which sinks that are not recorded", "no sink"),
            row("From reduction projects", "avoidance", NOT_RECORDED),
            row("Removal or reduction not recorded", NOT_RECORDED),
            *((name, *(cell for sums in periods for cell in sums.shares(sums.standards[name]))) for name in standards),
            row("From projects in the European Union", "eu"),
            row("With a corresponding adjustment", "adjusted", "no article 6"),
            row("Corresponding adjustment not recorded", "no article 6"),
        ]
        return _csv(ESRS_COLUMNS, rows)


def _count_missing(content: bytes) -> int:
    return sum(row.count(NOT_RECORDED) for row in csv.reader(io.StringIO(content.decode(), newline="")))


def _planned(orders: Sequence[PlannedOrder]) -> bytes:
    total = sum((Decimal(each.tonnes) for each in orders), Decimal(0))
    rows = [(each.order, each.status, each.tonnes) for each in orders]
    return _csv(PLANNED_COLUMNS, [*rows, (_TOTAL, "", str(total))])


def read_planned(content: bytes) -> list[PlannedOrder]:
    """Raises ValueError."""
    rows = list(csv.reader(io.StringIO(content.decode(), newline="")))
    if not rows or tuple(rows[0]) != PLANNED_COLUMNS or any(len(row) != len(PLANNED_COLUMNS) for row in rows):
        raise ValueError("other columns")
    return [PlannedOrder(*row) for row in rows[1:-1]]


def _serial_row(record: Json, line: Json) -> Sequence[str]:
    shared, advance, facts = line["shared"] or {}, line.get("in_advance") or {}, _facts(line)
    return (
        *(record["number"], record["issued_at"], record["order_id"], record["beneficiary"]),
        *(line["registry"], line["project_id"], line["project_name"], line["country"], line["project_type"]),
        *(_stated(line, "mechanism"), line["methodology"] or "", line["vintage"], line["serial_range"]),
        *(line["quantity"], line["retired_on"], line["retirement_url"] or "", shared.get("unit_quantity", "")),
        *(advance.get("retired_by", ""), advance.get("assigned_on", ""), line.get("registry_name") or ""),
        # Empty: not recorded.
        *(_stated(line, name, "") for name in _STATED),
        "; ".join(f"{each['code']} ({each['source']}, {each['as_of']})" for each in facts.get("labels") or ()),
        _stated(line, "article_6", ""),
        " ".join((facts.get("article_6") or {}).get("uses") or ()),
        "; ".join(_rating(each, record["issued_at"]) for each in facts.get("ratings") or ()),
        _stated(line, "verifier", ""),
        (facts.get("verifier") or {}).get("as_of") or "",
    )


# A rating that is older is shown with its age.
RATING_MONTHS = 24


def old_months(as_of: str, issued_at: str) -> int:
    """How many months a rating was old when the certificate was issued; 0 unless more than 24."""
    (year, month, day), (this_year, this_month, this_day) = (
        map(int, each[:10].split("-")) for each in (as_of, issued_at)
    )
    months = (this_year - year) * 12 + this_month - month - (this_day < day)
    is_old = months > RATING_MONTHS or (months == RATING_MONTHS and this_day != day)
    return months if is_old else 0


def _rating(rating: Json, issued_at: str) -> str:
    months = old_months(rating["as_of"], issued_at)
    age = f", {months} months old at the issue" if months else ""
    return f"{rating['agency']}: {rating['grade']} ({rating['as_of']}{age}, {rating['url']})"


def _disclosed(record: Json, line: Json) -> tuple[str, ...]:
    """What is disclosed of a project. Credits with other facts are in a row of their own."""
    codes = sorted(each["code"] for each in _facts(line).get("labels") or ())
    return (
        *(record["issuer"], line["registry"], line["project_id"], line["project_name"], line["project_type"]),
        *(_stated(line, "mechanism"), line["country"], line["methodology"] or NOT_RECORDED, _FOR_YOU),
        *(
            _stated(line, "verifier"),
            _stated(line, "removal_percent", _percent(line)),
            _stated(line, "durability_years"),
        ),
        " ".join(codes) or NOT_RECORDED,
        (_facts(line).get("verifier") or {}).get("as_of") or NOT_RECORDED,
    )


def _percent(line: Json) -> str:
    return {"removal": "100", "avoidance": "0"}.get(_stated(line, "mechanism"), NOT_RECORDED)


def _facts(line: Json) -> Json:
    return line.get("facts") or {}


def _stated(line: Json, name: str, missing: str = NOT_RECORDED) -> str:
    stated = _facts(line).get(name)
    if stated is None:
        return missing
    value = stated["value"]
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def _parts(line: Json, tonnes: Decimal, *, is_eu: bool) -> Iterator[tuple[str, Decimal]]:
    """The tonnes of a line by what is reported. Mixed credits are removal and avoidance by their percent."""
    percent = _stated(line, "removal_percent", _percent(line))
    if percent == NOT_RECORDED:
        yield NOT_RECORDED, tonnes
    else:
        removed = tonnes * Decimal(percent) / 100
        yield "removal", removed
        yield _stated(line, "sink", "no sink"), removed
        yield "avoidance", tonnes - removed
    if is_eu:
        yield "eu", tonnes
    yield {NOT_RECORDED: "no article 6"}.get(of := _stated(line, "article_6"), of), tonnes


def _standards(line: Json) -> Iterator[str]:
    """Registries are programmes; a quality standard is what a label says. A line may have several."""
    yield f"Programme: {line['registry']}"
    codes = {each["code"] for each in _facts(line).get("labels") or ()}
    yield from (f"Quality standard: {code}" for code in codes)
    if not codes:
        yield "Quality standard not recorded"


def _csv(columns: Sequence[str], rows: Iterable[Iterable[str]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(columns)
    writer.writerows(map(escape_formula, row) for row in rows)
    return text.getvalue().encode()


_README = """Audit pack
{test}
Certificates issued from {first_day} to {last_day} (days in UTC): {count}, {tonnes} t of CO2 equivalent.
Certificates of the previous period, {previous_first_day} to {previous_last_day}: {previous}.
Certificates that were replaced or withdrawn are not included.
Values that are not recorded: {missing}.

certificates/             one PDF per certificate; the address printed on it verifies it
previous-period/          the certificates of the previous period, for the sums of that period
serial-numbers.csv        every line of every certificate: registry, project, vintage, serial numbers, tonnes,
                          date and page of the retirement, and the facts that were frozen when it was sold
california-ab-1305.csv    per project, in the form of California AB 1305 (Health and Safety Code 44475.1)
esrs-e1-7.csv             credits cancelled in both periods, in the form of ESRS E1-7
planned-cancellations.csv orders that were paid for and had no certificate on {made_on}: credits planned to be
                          cancelled. By when is for you to state
pack.json                 the periods

All files are UTF-8. Amounts are exact, in tonnes. "not recorded" marks what this service does not know: complete it
before you publish. A line with several labels counts for each of them. The tables describe the credits; whether and
how you may claim them is for you and your auditor.

`tonne-verify pack` computes all tables again from the certificates, without the seller.
"""
