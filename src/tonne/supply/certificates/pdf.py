"""Renders a certificate as a PDF."""

import re
from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import segno

from tonne.platform.documents.pdf import PdfFailed, label_inputs, render_pdf
from tonne.platform.documents.print_image import image_as_svg
from tonne.platform.values.amounts import people_mass
from tonne.platform.web.translate import translator
from tonne.supply.certificates.labels import certificate_labels, more_projects, printed_facts
from tonne.supply.certificates.record import CertificateLine, CertificateRecord

TEMPLATE = Path(__file__).parent / "templates" / "certificate.typ"
# If the retirements do not fit on the front page, it shows the largest projects.
PROJECTS_ON_FACE = 4
_DARK_RUN = re.compile(b"\x01+")


class AttachedFiles(msgspec.Struct, frozen=True):
    """What programs verify the certificate with. Without `proof` if no checkpoint of the log covers it yet."""

    credential: str
    proof: str | None


def certificate_pdf(
    record: CertificateRecord, logo: bytes | None = None, attached: AttachedFiles | None = None
) -> bytes:
    """A PDF/A-3. The same arguments give the same bytes. Uses CPU time: call it with `asyncio.to_thread`."""
    _ = translator(record.language)
    projects = _projects(record.lines)
    printed = msgspec.to_builtins(record)
    for shown, line in zip(printed["lines"], record.lines, strict=True):
        shown["facts"] = printed_facts(line, _)
    printed |= {
        "qr": qr_code(record.verification_url),
        "seal": _for_people(Decimal(record.total_quantity)),
        "projects": projects[:PROJECTS_ON_FACE],
    }
    labels = certificate_labels(record, _)
    if len(projects) > PROJECTS_ON_FACE:
        labels["more_projects"] = more_projects(len(projects) - PROJECTS_ON_FACE, _)
    inputs = label_inputs(_, labels)
    if logo is not None and (drawn := image_as_svg(logo)) is not None:
        inputs["logo"] = drawn
    if attached is not None:
        inputs["credential"] = attached.credential
        if attached.proof is not None:
            inputs["tlog_proof"] = attached.proof
    issued_at = datetime.fromisoformat(record.issued_at)
    try:
        return render_pdf(TEMPLATE, printed, issued_at=issued_at, inputs=inputs, standard="a-3b")
    except PdfFailed:
        # PDF/A forbids characters that no font has, such as emoji in a name.
        return render_pdf(TEMPLATE, printed, issued_at=issued_at, inputs=inputs)


def _projects(lines: Iterable[CertificateLine]) -> list[dict[str, Any]]:
    """The projects of these retirements with their tonnes and vintages, the largest first."""
    grouped: dict[tuple[str, str], list[CertificateLine]] = {}
    for line in lines:
        grouped.setdefault((line.registry, line.project_id), []).append(line)
    totals = {key: sum(Decimal(line.quantity) for line in group) for key, group in grouped.items()}
    return [
        {
            "name": grouped[key][0].project_name,
            "kind": [part for part in (grouped[key][0].project_type, grouped[key][0].country) if part],
            "registry": grouped[key][0].registry,
            "id": grouped[key][0].project_id,
            "vintages": _span(sorted({line.vintage for line in grouped[key]})),
            "quantity": _for_people(Decimal(totals[key])),
        }
        for key in sorted(grouped, key=lambda key: -totals[key])
    ]


def _span(vintages: list[str]) -> str:
    return vintages[0] if len(vintages) == 1 else f"{vintages[0]}–{vintages[-1]}"


def _for_people(tonnes: Decimal) -> dict[str, str]:
    amount, unit = people_mass(tonnes)
    return {"amount": f"{amount:f}", "unit": unit}


def qr_code(url: str) -> dict[str, Any]:
    """A QR code as an SVG path, one bar per run of dark modules. Error correction level M restores 15 % of damage."""
    rows = segno.make_qr(url, error="m", boost_error=False).matrix
    bars = [
        f"M{run.start()} {y}h{len(run.group())}v1H{run.start()}z"
        for y, row in enumerate(rows)
        for run in _DARK_RUN.finditer(bytes(row))
    ]
    return {"side": len(rows), "path": "".join(bars)}
