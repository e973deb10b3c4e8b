"""PDFs with time stamps: made once, stored, and renewed before the certificates of an authority expire."""

import asyncio
import hashlib
import io
import shutil
import subprocess
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from asn1crypto.x509 import Certificate
from pyhanko.pdf_utils.reader import PdfFileReader
from pyhanko.sign.ades.report import AdESPassed
from pyhanko.sign.validation import DocumentSecurityStore, validate_pdf_signature
from pyhanko.sign.validation.ades import ades_lta_validation
from pyhanko.sign.validation.policy_decl import PdfSignatureValidationSpec, SignatureValidationSpec
from pyhanko_certvalidator.authority import CertTrustAnchor
from pyhanko_certvalidator.context import CertValidationPolicySpec
from pyhanko_certvalidator.policy_decl import REQUIRE_REVINFO, CertRevTrustPolicy
from pyhanko_certvalidator.registry import SimpleTrustManager

from tests.supply.certificates.credentials.scene import Verifier
from tests.support.authority import Authority, running_authority
from tests.support.command import output_of, refusal_of
from tests.support.pdf_a import breaches
from tests.support.world import TESTER
from tonne.platform.keys.signing.document_key import KeyUnusable
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import utc_now
from tonne.supply.certificates.pdf_store import forget_pdfs_signed_since_any_account, store_pdf_any_account
from tonne.supply.certificates.person_store import OwnCertificate, overwrite_certificate
from tonne.supply.certificates.renew_pdfs import renew_pdfs
from tonne.supply.certificates.store import StoredCertificate, list_of_order
from tonne_verify.policy import Policy
from tonne_verify.report import Verdict
from tonne_verify.verify_file import verify_file


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Authority]:
    with running_authority(tmp_path_factory.mktemp("authority")) as found:
        yield found


@pytest.fixture
def settings(settings: Settings, authority: Authority) -> Settings:
    return msgspec.structs.replace(settings, document_time_stamp_url=authority.time_stamp_url, **authority.signer)


def is_long_term(pdf: bytes, root: Certificate) -> bool:
    """pyHanko's validator needs no network: all that it asks for is in the file (B-LT)."""
    reader = PdfFileReader(io.BytesIO(pdf))
    (signature,) = reader.embedded_regular_signatures
    context = DocumentSecurityStore.read_dss(reader).as_validation_context(
        {"trust_roots": [root], "allow_fetching": False, "revocation_mode": "require"}
    )
    status = validate_pdf_signature(signature, context, context)
    return status.bottom_line and status.timestamp_validity is not None


async def is_archived(pdf: bytes, root: Certificate) -> bool:
    """All of the chain of time stamps holds (B-LTA)."""
    reader = PdfFileReader(io.BytesIO(pdf))
    (signature,) = reader.embedded_regular_signatures
    trusted = SimpleTrustManager.build([CertTrustAnchor(root)])
    policy = CertValidationPolicySpec(trusted, CertRevTrustPolicy(REQUIRE_REVINFO))
    result = await ades_lta_validation(signature, PdfSignatureValidationSpec(SignatureValidationSpec(policy)))
    return result.ades_subindic == AdESPassed.OK and result.oldest_evidence_record_timestamp is not None


async def renew(verifier: Verifier, before: datetime) -> list[tuple[int, dict[str, str]]]:
    services = verifier.services
    return [each async for each in renew_pdfs(services.database, services.sign_documents, before, by=TESTER.now())]


async def pdf_of(verifier: Verifier, order_id: str) -> bytes:
    answer = await verifier.api.get(f"/v1/orders/{order_id}/certificate")
    assert answer.status_code == 200, answer.text
    return answer.content


async def certificates_of(verifier: Verifier, order_id: str) -> list[StoredCertificate]:
    async with verifier.database.connection() as connection:
        return await list_of_order(connection, verifier.world.ours_test.scope, order_id)


async def hashes_of(verifier: Verifier, number: str) -> list[str]:
    sql = "SELECT encode(sha256, 'hex') AS hash FROM certificate_documents WHERE number = $1 ORDER BY rendered_at"
    return [row["hash"] for row in await verifier.fetch(sql, number)]


async def test_a_pdf_is_made_once_and_renewed(verifier: Verifier, authority: Authority, tmp_path: Path) -> None:
    order_id, number = await verifier.complete_order()
    early = await pdf_of(verifier, order_id)
    (found,) = await certificates_of(verifier, order_id)
    certificates = verifier.services.render_certificate
    assert await certificates.render_to_send(found.record) is None, "mails wait for the proof"
    await verifier.publish()
    made = await pdf_of(verifier, order_id)
    assert made != early
    assert await pdf_of(verifier, order_id) == made
    assert await certificates.render_to_send(found.record) == made
    assert await renew(verifier, utc_now() - timedelta(hours=1)) == []
    (once,) = await renew(verifier, utc_now())
    first = await pdf_of(verifier, order_id)
    # A second time, with the command.
    settings = verifier.settings
    operator = {
        "database_url": verifier.database._url,
        "data_dir": settings.data_dir,
        "secret_key": settings.secret_key,
        "document_time_stamp_url": settings.document_time_stamp_url,
    }
    assert output_of("signing", "renew", **operator).startswith("No stored PDF was made or renewed last before")
    async with verifier.database.transaction() as tx:
        await tx.execute("UPDATE certificate_documents SET rendered_at = rendered_at - interval '2 years'")
    assert output_of("signing", "renew", **operator) == "Renewed: 1 PDF."
    operator["document_time_stamp_url"] = ""
    assert "Set TONNE_DOCUMENT_TIME_STAMP_URL" in refusal_of("signing", "renew", **operator)
    second = await pdf_of(verifier, order_id)
    assert once == (1, {})
    assert second.startswith(first)
    assert first.startswith(made)
    files = [early, made, first, second]
    assert await hashes_of(verifier, number) == [hashlib.sha256(each).hexdigest() for each in files]
    assert await verifier.fetchval("SELECT count(pdf) FROM certificate_documents") == 1
    issuer = await verifier.issuer()
    for each in (made, first, second):
        report = verify_file("certificate.pdf", each, issuer, Policy().accepting_no_witness())
        # An order of the test mode.
        assert report.exit_code == 4, report.lines()
        found_holding = {check.name for check in report.checks if check.verdict is Verdict.HOLDS}
        assert found_holding == {"signature", "credential", "log", "facts", "retirements"}
        signature, time = (check.sentence for check in report.checks if check.name in {"signature", "time"})
        assert ", stamped on " in signature
        assert "It was stamped at " in time
    assert await asyncio.to_thread(is_long_term, made, authority.root)
    assert [await is_archived(each, authority.root) for each in (made, second)] == [False, True]
    for each in (made, first, second):
        assert breaches(each) == []
        await asyncio.to_thread(check_with_others, each, tmp_path)


def check_with_others(pdf: bytes, folder: Path) -> None:
    """As far as they are installed. `tests/integration/test_signed_pdfs.py` has them always."""
    path = folder / "file.pdf"
    path.write_bytes(pdf)
    if (program := shutil.which("qpdf")) is not None:
        subprocess.run([program, "--check", str(path)], check=True, capture_output=True)
    if (program := shutil.which("pdfsig")) is not None:
        run = subprocess.run([program, "-nocert", str(path)], check=True, capture_output=True, text=True)
        assert "Signature Validation: Signature is Valid." in run.stdout


async def test_a_renewal_that_fails_or_is_interrupted_loses_nothing(
    verifier: Verifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = [await verifier.complete_order() for _ in range(2)]
    await verifier.publish()
    made = [await pdf_of(verifier, order_id) for order_id, _ in orders]
    signing, before = verifier.services.sign_documents, utc_now()
    renew_one = signing.renew

    async def stop(pdf: bytes) -> bytes:
        if pdf == made[1]:
            raise failure
        return await renew_one(pdf)

    monkeypatch.setattr(signing, "renew", stop)
    failure: BaseException = SystemExit()
    with pytest.raises(SystemExit):
        await renew(verifier, before)
    assert [await pdf_of(verifier, order_id) for order_id, _ in orders] == made
    failure = KeyUnusable("no answer")
    assert await renew(verifier, before) == [(1, {orders[1][1]: "no answer"})]
    monkeypatch.undo()
    assert await renew(verifier, before) == [(1, {})]
    assert await renew(verifier, before) == []
    actions = await verifier.fetch("SELECT action FROM audit_log WHERE action = 'certificate.pdfs_renewed'")
    assert len(actions) == 2
    for (order_id, _), first in zip(orders, made, strict=True):
        renewed = await pdf_of(verifier, order_id)
        assert renewed.startswith(first)
        assert len(PdfFileReader(io.BytesIO(renewed)).embedded_timestamp_signatures) == 1


async def test_a_pdf_is_made_again_without_an_erased_name_and_after_a_leak(verifier: Verifier) -> None:
    order_id, number = await verifier.complete_order()
    await verifier.publish()
    made = await pdf_of(verifier, order_id)
    (found,) = await certificates_of(verifier, order_id)
    erased = msgspec.structs.replace(found.record, beneficiary="-", name_erased_on="2026-11-19")
    async with verifier.database.transaction() as tx:
        own = OwnCertificate(erased, None, is_public=False, next_mail_at=None)
        await overwrite_certificate(tx, verifier.world.ours_test.scope, own)
    assert await verifier.fetchval("SELECT count(pdf) FROM certificate_documents WHERE number = $1", number) == 0
    # Drawn from the record that was read before.
    async with verifier.database.transaction() as tx:
        assert await store_pdf_any_account(tx, found.record, b"old", utc_now()) == b"old"
    again = await pdf_of(verifier, order_id)
    assert again != made
    assert await pdf_of(verifier, order_id) == again
    assert len(await hashes_of(verifier, number)) == 3

    # The key leaks: what it has signed since then is made again.
    for since, is_kept in ((timedelta(), True), (timedelta(days=1), False)):
        async with verifier.database.transaction() as tx:
            await forget_pdfs_signed_since_any_account(tx, utc_now() - since)
        assert (await pdf_of(verifier, order_id) == again) == is_kept
