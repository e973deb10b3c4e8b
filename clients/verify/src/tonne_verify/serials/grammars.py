"""The forms of serials of registries. A form is a pattern for text in upper case, and what its parts mean."""

import re
from collections.abc import Callable
from datetime import date
from typing import NamedTuple

from tonne_verify.serials.units import KILOGRAM_GRAMS, TONNE_GRAMS, SerialError, UnitRange

_NUMBER = r"(?:0|[1-9]\d{0,14})"
_RANGE = rf"(?P<first>{_NUMBER})-(?P<last>{_NUMBER})"
_RANGE_TO = rf"(?P<first>{_NUMBER})(?: TO |-)(?P<last>{_NUMBER})"
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_PART = r"[A-Z0-9]+"
_ID = r"[1-9]\d*"


class Grammar(NamedTuple):
    """`namespace` and `refuses` get the match and the text before and after the numbers.

    `spelt` gives back the letters that the registry writes in lower case.
    """

    name: str
    pattern: re.Pattern[str]
    example: str
    namespace: Callable[[re.Match[str]], str]
    unit_grams: int = TONNE_GRAMS
    refuses: Callable[[re.Match[str]], str | None] = lambda _: None
    spelt: Callable[[str], str] = lambda text: text
    # Digits of a number with zeros in front.
    width: int = 1

    def read(self, text: str) -> UnitRange | None:
        """None if the text, cleaned and in upper case, has another form. Raises SerialError."""
        found = self.pattern.fullmatch(text)
        if found is None:
            return None
        if reason := self.refuses(found):
            raise SerialError(reason)
        first, last = int(found["first"]), int(found["last"])
        if last < first:
            raise SerialError(f"the last number {last} is below the first number {first}: swap or correct the two.")
        text = self.spelt(text)
        known = found.groupdict()
        return UnitRange(
            self.name,
            self.namespace(found),
            first,
            last,
            self.unit_grams,
            text[: found.start("first")],
            text[found.end("first") : found.start("last")],
            text[found.end("last") :],
            self.width,
            known.get("country"),
            known.get("project"),
            _vintage(known),
        )


def _vintage(known: dict[str, str | None]) -> tuple[date, date] | None:
    if year := known.get("year"):
        return date(int(year), 1, 1), date(int(year), 12, 31)
    start, end = known.get("start"), known.get("end")
    if start is None or end is None:
        return None
    days = _day(start), _day(end)
    if days[1] < days[0]:
        raise SerialError(f"the vintage ends on {days[1]}, before it starts on {days[0]}: correct the serial.")
    return days


def _day(text: str) -> date:
    """Of DDMMYYYY or YYMM."""
    try:
        if len(text) == len("YYMM"):
            return date(2000 + int(text[:2]), int(text[2:]), 1)
        return date(int(text[4:]), int(text[2:4]), int(text[:2]))
    except ValueError as error:
        raise SerialError(f"{text} in the serial is not a date: correct it.") from error


def _named(*names: str) -> Callable[[re.Match[str]], str]:
    """A namespace of fixed words and parts of the serial."""
    return lambda found: " ".join(found[name] if name in found.re.groupindex else name for name in names)


def _frame(name: str) -> Callable[[re.Match[str]], str]:
    """All text around the numbers is the namespace."""
    return lambda found: f"{name} {found.string[: found.start('first')]} {found.string[found.end('last') :]}".strip()


def _lower_to(text: str) -> str:
    return text.replace(" TO ", " to ")


_UUID = re.compile(r"[0-9A-F]{8}(?:-[0-9A-F]{4}){3}-[0-9A-F]{12}")


def _lower_uuid(text: str) -> str:
    return _UUID.sub(lambda found: found[0].lower(), text)


_PURO = (
    r"PURO_PR_CORC(?:_?\d+\+?)?_(?P<country>[A-Z]{2})_(?P<project>[A-Z0-9]{6})"
    rf"_{_YEAR}_(?P<issuance>{_UUID.pattern})_"
)
VERRA = Grammar(
    "verra",
    re.compile(
        rf"(?P<batch>{_ID})-{_RANGE}-(?:VCS-)?VCU-\d+-(?P<registrar>VER|MER)-(?P<country>[A-Z]{{2}})(?:-\d{{1,2}})?"
        rf"-(?P<project>{_ID})-(?P<start>\d{{8}})-(?P<end>\d{{8}})-[01]"
    ),
    "19385-941467007-941467431-VCS-VCU-1507-VER-ET-14-1340-01012020-31122020-1",
    _named("VERRA", "registrar", "batch"),
)
GOLD_STANDARD = Grammar(
    "gold_standard",
    re.compile(rf"GS\d-\d+-(?P<country>[A-Z]{{2}})-GS(?P<project>{_ID})-\d+-{_YEAR}-(?P<batch>{_ID})-{_RANGE}"),
    "GS1-1-UG-GS11236-16-2024-30307-1-19149",
    _named("GOLDSTANDARD", "project", "year", "batch"),
)
ACR = Grammar(
    "acr",
    re.compile(rf"ACR-(?P<country>[A-Z]{{2}})-(?P<project>{_ID})-{_YEAR}-(?P<batch>{_ID})-{_RANGE_TO}"),
    "ACR-FR-1129-2025-2917-30932 to 35143",
    _named("ACR", "project", "year", "batch"),
    spelt=_lower_to,
)
CAR = Grammar(
    "car",
    re.compile(
        rf"CAR-(?P<type>1|ROC)-(?P<country>[A-Z]{{2}})-(?P<project>{_ID})-{_PART}-{_PART}-{_PART}-{_YEAR}"
        rf"-(?P<batch>{_ID})-{_RANGE_TO}"
    ),
    "CAR-1-US-1335-31-983-KS-2025-9205-1 to 5000",
    _named("CAR", "project", "year", "batch"),
    refuses=lambda found: (
        "ROC are offset credits of a compliance programme, no voluntary supply: delete the line."
        if found["type"] == "ROC"
        else None
    ),
    spelt=_lower_to,
)
PURO = Grammar(
    "puro",
    re.compile(_PURO + _RANGE),
    "PURO_PR_CORC100+_FI_577166_2020_055a3fbe-eabc-4535-b9cf-1028e7d18f89_1-100",
    _named("PURO", "issuance"),
    spelt=_lower_uuid,
)
# Old numbers: a GSRN of 18 digits, and 12 digits.
PURO_GSRN = Grammar(
    "puro",
    re.compile(rf"{_PURO}(?P<gsrn>\d{{18}})(?P<first>\d{{12}})-(?P=gsrn)(?P<last>\d{{12}})"),
    "PURO_PR_CORC_FR_181856_2021_8646834b-ea59-4167-996e-16d8a084cfc1_643002406555908610000000272877-"
    "643002406555908610000000272883",
    _named("PURO", "issuance", "gsrn"),
    spelt=_lower_uuid,
    width=12,
)
ISOMETRIC = Grammar(
    "isometric",
    re.compile(rf"ISO-1-{_PART}-(?P<country>[A-Z]{{3}})-(?P<project>[A-Z0-9]{{4}})-{_YEAR}-{_RANGE}"),
    "ISO-1-BSTORE-GBR-F5X7-2024-78177-81177",
    # Whether numbers run through a pathway or a project is not known: the wider of the two is the safe side.
    _named("ISOMETRIC", "project", "year"),
    unit_grams=KILOGRAM_GRAMS,
)
PLAN_VIVO = Grammar(
    "plan_vivo",
    re.compile(
        rf"PV-[RFV]?PVC-(?P<country>[A-Z]{{2}})-(?P<project>\d{{15}})-(?P<start>\d{{8}})-(?P<end>\d{{8}})-{_RANGE}"
        r"-(?:SPG|MER-\d+-[A-Z])"
    ),
    "PV-rPVC-MZ-110200000000034-01052022-30042023-1-2550-SPG",
    _frame("PLANVIVO"),
    spelt=lambda text: re.sub("^PV-[RFV]PVC", lambda found: f"PV-{found[0][3].lower()}PVC", text),
)
BIOCARBON = Grammar(
    "biocarbon",
    re.compile(
        rf"(?:BCR|PCR)-(?P<project>(?P<country>[A-Z]{{2}})-{_PART}-\d+-\d+)-(?P<class>2|3|R)-(?P<start>\d{{4}})"
        r"-(?P<end>\d{4})-(?P<first>\d{7}|[1-9]\d{7,14})-(?P<last>\d{7}|[1-9]\d{7,14})"
    ),
    "BCR-CO-259-14-002-2-2401-2409-0043804-0043903",
    _frame("BIOCARBON"),
    refuses=lambda found: (
        "credits of class R are a reserve, no supply: delete the line." if found["class"] == "R" else None
    ),
    width=7,
)
CERCARBONO = Grammar(
    "cercarbono",
    re.compile(
        rf"(?P<serial>CDC_(?P<project>{_ID})(?:_{_PART})+?_(?:{_YEAR}|(?P<buffer>BF)))(?: FROM)?"
        rf" (?P<first>{_NUMBER}) TO (?P<last>{_NUMBER})"
    ),
    "CDC_1_1_1_321_14_1_2009 from 4426 to 4971",
    # The units of an issuance may have serials of two revisions.
    lambda found: "CERCARBONO " + re.sub(r"_R\d+(?=_)", "", found["serial"]),
    refuses=lambda found: "credits of the buffer (BF) are no supply: delete the line." if found["buffer"] else None,
    spelt=lambda text: text.replace(" FROM ", " from ").replace(" TO ", " to "),
)
CDM = Grammar(
    "cdm",
    re.compile(
        rf"(?P<country>[A-Z]{{2}})-5-(?P<first>{_NUMBER})-(?P<rest>(?P<period>\d)-\d-\d+-(?P<project>{_ID}))"
        rf" - (?P=country)-5-(?P<last>{_NUMBER})-(?P=rest)"
    ),
    "RW-5-1463953-2-2-0-7014 - RW-5-1467609-2-2-0-7014",
    # Numbers are unique within a party and a commitment period, whatever the project.
    _named("CDM", "country", "5", "period"),
)
# By the id of the registry. Gold Standard lists CERs, too.
GRAMMARS: dict[str, tuple[Grammar, ...]] = {
    "VERRA": (VERRA,),
    "GOLDSTANDARD": (GOLD_STANDARD, CDM),
    "ACR": (ACR,),
    "CAR": (CAR,),
    "PURO": (PURO, PURO_GSRN),
    "ISOMETRIC": (ISOMETRIC,),
    "PLANVIVO": (PLAN_VIVO,),
    "BIOCARBON": (BIOCARBON,),
    "CERCARBONO": (CERCARBONO,),
    "CDM": (CDM,),
}
