"""Files of documents per CPU second: rendered, with the electronic invoice, signed and compressed."""

import asyncio
import statistics
import time
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from datetime import UTC, date, datetime

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from bench.report import Goal, Report, Result
from tests.money.invoices.documents import credit_note, document, line
from tonne.money.invoices.documents.electronic_credit_note import electronic_record
from tonne.money.invoices.documents.factur_x import factur_x_xml
from tonne.money.invoices.documents.pdf import invoice_pdf
from tonne.money.invoices.documents.record import InvoiceRecord
from tonne.money.invoices.originals.document_file import FileFormat, FileKey, document_file
from tonne.platform.keys.signing.document_key import CertificateChain, document_key, sign_in_memory
from tonne.platform.keys.signing.keys import make_key, new_record
from tonne.platform.keys.signing.model import KeyPurpose
from tonne.platform.keys.signing.sign_pdf import sign_pdf

NAMES = ("billing_files",)
ISSUED = datetime(2026, 11, 16, tzinfo=UTC)
COUNT, QUICK = 100, 20
AT_MOST = Goal(reach=1.0, at_most=True)
FULL_MS, SIMPLIFIED_MS = 150.0, 50.0


async def run(names: AbstractSet[str], report: Report, *, quick: bool) -> None:
    if "billing_files" in names:
        report.add(*await asyncio.to_thread(billing_files, QUICK if quick else COUNT))


def billing_files(count: int) -> list[Result]:
    """CPU time of the process for one document of each kind, after the first, and the bytes that are stored."""
    made = make_key(KeyPurpose.DOCUMENT, "Beispiel Klima GmbH", ISSUED)
    private = load_pem_private_key(made.private.encode(), None)
    chain = CertificateChain(x509.load_pem_x509_certificate(made.public.encode()))
    key = document_key(new_record(KeyPurpose.DOCUMENT, made.public, ISSUED), chain, sign_in_memory(private))  # type: ignore[arg-type]
    full = document(line("standard", "19"))
    kinds: dict[str, tuple[InvoiceRecord, float]] = {
        "simplified": (
            document(line("standard", "19"), paid_on="2026-11-16", paid_by_card=True, document="simplified_invoice"),
            SIMPLIFIED_MS,
        ),
        "full": (full, FULL_MS),
        "credit_note": (credit_note(), FULL_MS),
    }
    results = []
    for name, (record, limit_ms) in kinds.items():

        def store(number: int, record: InvoiceRecord = record) -> int:
            numbered = msgspec.structs.replace(record, number=f"TN-LIVE-{number:06d}", order_id=f"ord_{number:026d}")
            contents = {FileFormat.PDF: sign_pdf(invoice_pdf(numbered), key, ISSUED)}
            if (electronic := electronic_record(numbered)) is not None:
                contents[FileFormat.CII] = factur_x_xml(electronic)
            files = [
                document_file(
                    FileKey("inv_x", date(2026, 11, 16), each), content, rendered_at=ISSUED, retention_years=10
                )
                for each, content in contents.items()
            ]
            return sum(len(file.body) for file in files)

        milliseconds, size = _measure(store, count)
        goal = AT_MOST
        results += [
            Result(f"billing_files_{name}", milliseconds, "ms of CPU", limit_ms, goal),
            Result(f"billing_files_{name}_per_s", 1000 / milliseconds, "files per CPU second", 1000 / limit_ms),
            Result(f"billing_files_{name}_size", size / 1000, "KB stored", 1.0),
        ]
    return results


def _measure(store: Callable[[int], int], count: int) -> tuple[float, int]:
    """The median of the times, and a size."""
    size = store(0)
    times = []
    for number in range(1, count + 1):
        started = time.process_time()
        store(number)
        times.append((time.process_time() - started) * 1000)
    return statistics.median(times), size
