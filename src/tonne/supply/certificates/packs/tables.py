"""The tables of an audit pack: serial numbers, and what companies must disclose about the credits that they use."""

import csv
import io
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal

from msgspec import Struct, field

from tonne.platform.documents.sheets.formulas import escape_formula
from tonne.platform.values.countries import EU_COUNTRIES
from tonne.selling.catalogue.countries import country_code
from tonne.supply.certificates.record import CertificateLine, CertificateRecord
from tonne.supply.stock.credit_facts import NO_FACTS, CreditFacts

NOT_RECORDED = "not recorded"
SERIAL_COLUMNS = (
    *("certificate", "issued_at", "order", "beneficiary", "registry", "project_id", "project", "country", "type"),
    *("mechanism", "methodology", "vintage", "serial_numbers", "tonnes", "retired_on", "retirement_url"),
    *("tonnes_of_shared_unit", "retired_in_advance_by", "assigned_on", "name_at_registry"),
    *("removal_percent", "sink", "methodology_version", "durability_years", "reversible", "buffer", "labels"),
    *("article_6", "article_6_uses", "ratings", "verifier", "verified_on"),
)
AB_1305_COLUMNS = (
    *("seller_of_the_offset", "registry_or_programme", "project_id", "project_name", "project_type"),
    *("removal_or_avoidance", "site_location", "protocol", "third_party_verification_of_your_data_and_claims"),
    *("verifier_of_the_credits", "tonnes_co2e", "vintages"),
)
# The law asks about the company's own data and claims, of which a seller of credits knows nothing.
_FOR_YOU = "for you to state"


class _ProjectSum(Struct):
    line: CertificateLine
    seller: str
    tonnes: Decimal = Decimal(0)
    vintages: set[str] = field(default_factory=set)


class PackTables:
    """Add all certificates, then write the tables. Only sums are kept in memory, apart from the serial numbers."""

    def __init__(self) -> None:
        self._serials = io.StringIO()
        self._serial_writer = csv.writer(self._serials, lineterminator="\r\n")
        self._serial_writer.writerow(SERIAL_COLUMNS)
        self._projects: dict[tuple[str, ...], _ProjectSum] = {}
        self._sums: defaultdict[str, Decimal] = defaultdict(Decimal)
        self._registries: defaultdict[str, Decimal] = defaultdict(Decimal)

    def add(self, record: CertificateRecord) -> None:
        for line in record.lines:
            self._serial_writer.writerow(_escaped(_serial_row(record, line)))
            key = (record.issuer, line.registry, line.project_id, _mechanism(line), _verifier(line))
            project = self._projects.setdefault(key, _ProjectSum(line, record.issuer))
            project.tonnes += Decimal(line.quantity)
            project.vintages.add(line.vintage)
            self._registries[line.registry] += Decimal(line.quantity)
            for name, tonnes in _parts(line):
                self._sums[name] += tonnes

    @property
    def tonnes(self) -> Decimal:
        return sum((project.tonnes for project in self._projects.values()), Decimal(0))

    def serials(self) -> bytes:
        return self._serials.getvalue().encode()

    def ab_1305(self) -> bytes:
        """California, Health and Safety Code 44475.1: what a purchaser or user of voluntary offsets discloses."""
        rows = []
        for project in sorted(self._projects.values(), key=lambda each: (each.line.registry, each.line.project_id)):
            line = project.line
            rows.append(
                (
                    *(project.seller, line.registry, line.project_id, line.project_name, line.project_type),
                    *(_mechanism(line), line.country, line.methodology or NOT_RECORDED, _FOR_YOU, _verifier(line)),
                    *(str(project.tonnes), " ".join(sorted(project.vintages))),
                )
            )
        return _csv(AB_1305_COLUMNS, rows)

    def esrs_e1_7(self) -> bytes:
        """ESRS E1-7: carbon credits cancelled in the reporting year. Shares are of the total."""
        total, sums = self.tonnes, self._sums

        def row(name: str, part: str, *, unknown: Decimal | None = None) -> tuple[str, str, str]:
            """`unknown` are the tonnes of which nothing is recorded, and None if that cannot be."""
            if unknown is not None and unknown == (total if part == "adjusted" else sums["removal"]):
                return name, NOT_RECORDED, NOT_RECORDED
            return name, str(sums[part]), _share(sums[part], total)

        rows = [
            ("Total (tCO2eq)", str(total), ""),
            row("From removal projects", "removal"),
            row("of which biogenic sinks", "biogenic", unknown=sums["no sink"]),
            row("of which technological sinks", "technological", unknown=sums["no sink"]),
            row("of which hybrid sinks", "hybrid", unknown=sums["no sink"]),
            row("of which sinks that are not recorded", "no sink"),
            row("From reduction projects", "avoidance"),
            *(
                (f"Quality standard: {name}", str(sum_), _share(sum_, total))
                for name, sum_ in sorted(self._registries.items())
            ),
            row("From projects in the European Union", "eu"),
            row("With a corresponding adjustment", "adjusted", unknown=sums["no article 6"]),
            row("Corresponding adjustment not recorded", "no article 6"),
        ]
        if sums[NOT_RECORDED]:
            rows.append(row("Removal or reduction not recorded", NOT_RECORDED))
        return _csv(("carbon_credits_cancelled", "tonnes_co2e", "share_percent"), rows)


def _serial_row(record: CertificateRecord, line: CertificateLine) -> Sequence[str]:
    shared, advance = line.shared, line.in_advance
    return (
        *(record.number, record.issued_at, record.order_id, record.beneficiary),
        *(line.registry, line.project_id, line.project_name, line.country, line.project_type),
        *(_mechanism(line), line.methodology or "", line.vintage, line.serial_range, line.quantity),
        *(line.retired_on, line.retirement_url or "", "" if shared is None else shared.unit_quantity),
        *(("", "") if advance is None else (advance.retired_by, advance.assigned_on)),
        line.registry_name or "",
        *_fact_cells(line.facts or NO_FACTS),
    )


def _fact_cells(facts: CreditFacts) -> Iterator[str]:
    """Empty: not recorded."""
    for stated in (
        *(facts.removal_percent, facts.sink, facts.methodology_version, facts.durability_years),
        *(facts.reversible, facts.buffer),
    ):
        value = "" if stated is None else stated.value
        yield ("yes" if value else "no") if isinstance(value, bool) else str(value)
    yield "; ".join(f"{each.code} ({each.source}, {each.as_of})" for each in facts.labels or ())
    yield "" if facts.article_6 is None else facts.article_6.value
    yield "" if facts.article_6 is None else " ".join(facts.article_6.uses or ())
    yield "; ".join(f"{each.agency}: {each.grade} ({each.as_of}, {each.url})" for each in facts.ratings or ())
    yield "" if facts.verifier is None else facts.verifier.value
    yield "" if facts.verifier is None else facts.verifier.as_of or ""


def _mechanism(line: CertificateLine) -> str:
    stated = (line.facts or NO_FACTS).mechanism
    return NOT_RECORDED if stated is None else stated.value


def _verifier(line: CertificateLine) -> str:
    stated = (line.facts or NO_FACTS).verifier
    return NOT_RECORDED if stated is None else stated.value


def _parts(line: CertificateLine) -> Iterator[tuple[str, Decimal]]:
    """The tonnes of a line by what is reported about them. Mixed credits are removal and avoidance by their percent."""
    tonnes, facts, mechanism = Decimal(line.quantity), line.facts or NO_FACTS, _mechanism(line)
    removed = tonnes if mechanism == "removal" else Decimal(0)
    if mechanism == "mixed" and facts.removal_percent is not None:
        removed = tonnes * facts.removal_percent.value / 100
    if mechanism == NOT_RECORDED:
        yield NOT_RECORDED, tonnes
    else:
        yield "removal", removed
        yield "no sink" if facts.sink is None else facts.sink.value, removed
        yield "avoidance", tonnes - removed
    if country_code(line.country) in EU_COUNTRIES:
        yield "eu", tonnes
    if facts.article_6 is None:
        yield "no article 6", tonnes
    elif facts.article_6.value == "adjusted":
        yield "adjusted", tonnes


def _share(part: Decimal, total: Decimal) -> str:
    return f"{part * 100 / total:.2f}" if total else "0.00"


def _escaped(cells: Sequence[str]) -> list[str]:
    return [escape_formula(cell) for cell in cells]


def _csv(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(columns)
    writer.writerows(_escaped(row) for row in rows)
    return text.getvalue().encode()
