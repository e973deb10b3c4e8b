"""Certificates rendered per second on one core."""

import time

from bench.pace import LifePace
from bench.report import Goal, Result
from tonne.retirements.certificate_pdf import certificate_pdf
from tonne.retirements.certificate_record import CertificateLine, CertificateRecord, SharedUnit

LEAST_PER_SECOND = 20.0
WARM_UP = 5


def certificates(pace: LifePace) -> Result:
    """Each certificate has another beneficiary and link, so that none repeats the one before."""
    for number in range(WARM_UP):
        certificate_pdf(_record(number))
    # CPU time, not elapsed time: typst can use a second core for part of the work.
    started = time.process_time()
    rendered = 0
    while (spent_s := time.process_time() - started) < pace.certificates_s:
        certificate_pdf(_record(WARM_UP + rendered))
        rendered += 1
    return Result("certificates", rendered / spent_s, "1/s", LEAST_PER_SECOND, Goal(reach=1.0))


def _record(number: int) -> CertificateRecord:
    """Like most orders: two retirements, one of them a share of a tonne."""
    return CertificateRecord(
        number=f"C-{number:08}",
        mode="live",
        order_id=f"ord_{number:026}",
        issued_at="2026-11-15T10:00:00.123Z",
        beneficiary=f"Marlowe & Finch Shipping No. {number} Ltd",
        issuer="Tonne Benchmark",
        total_quantity="3.105697",
        verification_url=f"https://tonne.example.org/certificates/{number:022}",
        lines=[_line("VCS1340", "2", None), _line("VCS672", "1.105697", SharedUnit("1", "0.105697"))],
    )


def _line(project_id: str, quantity: str, shared: SharedUnit | None) -> CertificateLine:
    return CertificateLine(
        registry="Verra",
        project_id=project_id,
        project_name="Bale Mountains Eco-region REDD+ project",
        country="Ethiopia",
        project_type="Forest conservation",
        methodology="VM0015",
        vintage="2019",
        serial_range=f"TEST-{project_id}-2019 17–18",
        quantity=quantity,
        retired_on="2026-11-15",
        retirement_url=f"https://registry.example.org/retirements/test-{project_id.lower()}-2019",
        shared=shared,
    )
