"""Certificates rendered per second on one core."""

import time

from msgspec.structs import replace

from bench.pace import LifePace
from bench.report import Goal, Result
from tests.support.certificates import LINE, RECORD
from tonne.retirements.certificate_pdf import certificate_pdf
from tonne.retirements.certificate_record import CertificateRecord

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
    return replace(
        RECORD,
        number=f"C-{number:08}",
        beneficiary=f"Marlowe & Finch Shipping No. {number} Ltd",
        verification_url=f"https://tonne.example.org/certificates/{number:022}",
        lines=[replace(LINE, quantity="2", shared=None), LINE],
    )
