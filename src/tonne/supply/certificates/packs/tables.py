"""The tables of an audit pack: serial numbers, and what companies must disclose about the credits that they use."""

import csv
import io
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

from msgspec import Struct, field

from tonne.platform.documents.sheets.formulas import escape_formula
from tonne.supply.certificates.record import CertificateLine, CertificateRecord

Mechanisms = Mapping[tuple[str, str], str]
NOT_RECORDED = "not recorded"
# Member states of the European Union, as names and as codes.
_EU = frozenset(
    (
        *("AT", "BE", "BG", "HR", "CY", "CZ", "DK", "EE", "FI", "FR", "DE", "GR", "HU", "IE", "IT", "LV", "LT", "LU"),
        *("MT", "NL", "PL", "PT", "RO", "SK", "SI", "ES", "SE", "austria", "belgium", "bulgaria", "croatia", "cyprus"),
        *("czechia", "denmark", "estonia", "finland", "france", "germany", "greece", "hungary", "ireland", "italy"),
        *("latvia", "lithuania", "luxembourg", "malta", "netherlands", "poland", "portugal", "romania", "slovakia"),
        *("slovenia", "spain", "sweden"),
    )
)
SERIAL_COLUMNS = (
    *("certificate", "issued_at", "order", "beneficiary", "registry", "project_id", "project", "country", "type"),
    *("mechanism", "methodology", "vintage", "serial_numbers", "tonnes", "retired_on", "retirement_url"),
    *("tonnes_of_shared_unit", "retired_in_advance_by", "assigned_on", "name_at_registry"),
)
AB_1305_COLUMNS = (
    *("seller_of_the_offset", "registry_or_programme", "project_id", "project_name", "project_type"),
    *("removal_or_avoidance", "site_location", "protocol", "third_party_verification", "tonnes_co2e", "vintages"),
)


class _ProjectSum(Struct):
    line: CertificateLine
    seller: str
    tonnes: Decimal = Decimal(0)
    vintages: set[str] = field(default_factory=set)


class PackTables:
    """Add all certificates, then write the tables. Only sums are kept in memory, apart from the serial numbers."""

    def __init__(self, mechanisms: Mechanisms) -> None:
        self._mechanisms = mechanisms
        self._serials = io.StringIO()
        self._serial_writer = csv.writer(self._serials, lineterminator="\r\n")
        self._serial_writer.writerow(SERIAL_COLUMNS)
        self._projects: dict[tuple[str, str, str], _ProjectSum] = {}

    def add(self, record: CertificateRecord) -> None:
        for line in record.lines:
            self._serial_writer.writerow(_escaped(self._serial_row(record, line)))
            key = (record.issuer, line.registry, line.project_id)
            project = self._projects.setdefault(key, _ProjectSum(line, record.issuer))
            project.tonnes += Decimal(line.quantity)
            project.vintages.add(line.vintage)

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
                    *(self._mechanism(line), line.country, line.methodology or NOT_RECORDED),
                    f"yes, by the verifiers that {line.registry} accredits",
                    *(str(project.tonnes), " ".join(sorted(project.vintages))),
                )
            )
        return _csv(AB_1305_COLUMNS, rows)

    def esrs_e1_7(self) -> bytes:
        """ESRS E1-7: carbon credits cancelled in the reporting year. Shares are of the total."""
        total, by_registry = self.tonnes, defaultdict[str, Decimal](Decimal)
        by_mechanism, in_eu = defaultdict[str, Decimal](Decimal), Decimal(0)
        for project in self._projects.values():
            by_registry[project.line.registry] += project.tonnes
            by_mechanism[self._mechanism(project.line)] += project.tonnes
            in_eu += project.tonnes if _is_in_eu(project.line.country) else 0
        rows = [
            ("Total (tCO2eq)", str(total), ""),
            ("From removal projects", str(by_mechanism["removal"]), _share(by_mechanism["removal"], total)),
            ("of which biogenic sinks", NOT_RECORDED, NOT_RECORDED),
            ("of which technological sinks", NOT_RECORDED, NOT_RECORDED),
            ("From reduction projects", str(by_mechanism["avoidance"]), _share(by_mechanism["avoidance"], total)),
            *(
                (f"Quality standard: {name}", str(sum_), _share(sum_, total))
                for name, sum_ in sorted(by_registry.items())
            ),
            ("From projects in the European Union", str(in_eu), _share(in_eu, total)),
            ("With a corresponding adjustment", NOT_RECORDED, NOT_RECORDED),
        ]
        if unknown := by_mechanism[NOT_RECORDED]:
            rows.append(("Removal or reduction not recorded", str(unknown), _share(unknown, total)))
        return _csv(("carbon_credits_cancelled", "tonnes_co2e", "share_percent"), rows)

    def _serial_row(self, record: CertificateRecord, line: CertificateLine) -> Sequence[str]:
        shared, advance = line.shared, line.in_advance
        return (
            *(record.number, record.issued_at, record.order_id, record.beneficiary),
            *(line.registry, line.project_id, line.project_name, line.country, line.project_type),
            *(self._mechanism(line), line.methodology or "", line.vintage, line.serial_range, line.quantity),
            *(line.retired_on, line.retirement_url or "", "" if shared is None else shared.unit_quantity),
            *(("", "") if advance is None else (advance.retired_by, advance.assigned_on)),
            line.registry_name or "",
        )

    def _mechanism(self, line: CertificateLine) -> str:
        return self._mechanisms.get((line.registry, line.project_id), NOT_RECORDED)


def _is_in_eu(country: str) -> bool:
    return country in _EU or country.lower() in _EU


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
