"""Computes the tables of an audit pack again from the certificates in it."""

import json
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from pathlib import Path

from tonne_verify.errors import NotProven
from tonne_verify.files import list_names, read_member
from tonne_verify.issuer import Issuer
from tonne_verify.pack_tables import (
    CURRENT,
    PACK_FILE,
    PACK_FORMAT,
    PREVIOUS,
    Json,
    PackTables,
    PlannedOrder,
    read_planned,
)
from tonne_verify.pdf import check_pdf, read_attachments
from tonne_verify.report import Report, Results, Verdict

PACK_RESULTS = Results(
    holds="The tables say what the certificates state. Verify the certificates themselves with `tonne-verify` and a "
    "policy.",
    fails="Do not use these tables. Ask for a new pack.",
)
_EU = frozenset(
    """
    austria|belgium|bulgaria|croatia|cyprus|czech republic|czechia|denmark|estonia|finland|france|germany|greece|hungary
    |ireland|italy|latvia|lithuania|luxembourg|malta|netherlands|poland|portugal|romania|slovakia|slovenia|spain|sweden
    |the netherlands
    |at|be|bg|cy|cz|de|dk|ee|es|fi|fr|gr|hr|hu|ie|it|lt|lu|lv|mt|nl|pl|pt|ro|se|si|sk
    """.replace("\n", "")
    .replace("    ", "")
    .split("|")
)


def is_in_eu(country: str) -> bool:
    """By its English name or code, as certificates state it."""
    return " ".join(country.casefold().split()) in _EU


def check_pack(path: Path, issuer: Issuer) -> Report:
    """Raises NotProven if the file is no audit pack."""
    names = set(list_names(path))
    try:
        about = json.loads(read_member(path, PACK_FILE))
        if about["format"] != PACK_FORMAT:
            raise NotProven(f"{path} is a pack of another version: use a newer tonne-verify.")
        planned = read_planned(read_member(path, "planned-cancellations.csv"))
    except (ValueError, KeyError, TypeError, ArithmeticError) as error:
        raise NotProven(f"{path} is no audit pack: pack.json or planned-cancellations.csv is damaged.") from error
    report, tables = Report(str(path)), PackTables(is_in_eu)
    for folder, add, start in ((CURRENT, tables.add, ""), (PREVIOUS, tables.add_previous, "previous_")):
        period = (str(about.get("mode")), str(about.get(f"{start}first_day")), str(about.get(f"{start}last_day")))
        for record in sorted(_read_records(path, folder, names, issuer, report), key=_place):
            _check_period(report, record, period)
            add(record)
    if about.get("mode") == "test":
        report.add("mode", Verdict.TEST, "A pack of the test mode: no credits were retired.")
    expected = _tables(path, tables, about, planned)
    for name, content in expected.items():
        _compare(report, name, read_member(path, name) if name in names else b"", content)
    for name in sorted(names - expected.keys() - {PACK_FILE}):
        if not name.startswith((f"{CURRENT}/", f"{PREVIOUS}/")):
            report.add(name, Verdict.FAILS, "This file does not belong to a pack.")
    report.add("planned", Verdict.NOT_CHECKED, "Only the seller knows which orders were paid for: their sum is right.")
    return report


def _read_records(path: Path, folder: str, names: Iterable[str], issuer: Issuer, report: Report) -> list[Json]:
    records: dict[str, Json] = {}
    for name in sorted(each for each in names if each.startswith(f"{folder}/")):
        try:
            record = _read_record(read_member(path, name), issuer)
        except NotProven as error:
            report.add(name, Verdict.FAILS, str(error))
            continue
        if record["number"] in records:
            report.add(name, Verdict.FAILS, f"Certificate {record['number']} is in the folder twice.")
        records[record["number"]] = record
    report.add(folder, Verdict.HOLDS, f"Certificates that the seller has signed: {len(records)}.")
    return list(records.values())


def _read_record(data: bytes, issuer: Issuer) -> Json:
    """What a certificate states. The signature covers the attached credential, too."""
    check_pdf(data, issuer)
    try:
        credential = json.loads(read_attachments(data)["credential.json"])
        record: Json = credential["credentialSubject"]
        return {**record, "issued_at": credential["validFrom"], "issuer": credential["issuer"]["name"]}
    except (ValueError, KeyError, TypeError) as error:
        raise NotProven("The certificate has no credential that can be read.") from error


def _check_period(report: Report, record: Json, period: tuple[str, str, str]) -> None:
    mode, first, last = period
    if record["mode"] != mode or not first <= str(record["issued_at"])[:10] <= last:
        sentence = f"It is of {record['mode']} mode and {str(record['issued_at'])[:10]}: not of this pack."
        report.add(str(record["number"]), Verdict.FAILS, sentence)


def _place(record: Json) -> tuple[str, str]:
    return str(record["issued_at"]), str(record["number"])


def _tables(path: Path, tables: PackTables, about: Json, planned: Sequence[PlannedOrder]) -> dict[str, bytes]:
    try:
        return tables.files(about, planned)
    except (ValueError, KeyError, TypeError, ArithmeticError) as error:
        raise NotProven(f"{path} is no audit pack: pack.json or planned-cancellations.csv is damaged.") from error


def _compare(report: Report, name: str, found: bytes, expected: bytes) -> None:
    if found == expected:
        report.add(name, Verdict.HOLDS, "Every figure follows from the certificates.")
        return
    lines = zip_longest(*(each.decode(errors="replace").splitlines() for each in (found, expected)), fillvalue="")
    number, (there, here) = next(
        (each for each in enumerate(lines, 1) if each[1][0] != each[1][1]), (0, ("other line breaks", ""))
    )
    report.add(name, Verdict.FAILS, f"Line {number} is “{there}”. From the certificates it would be “{here}”.")
