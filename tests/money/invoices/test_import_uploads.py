"""Uploaded statements are read and imported by the worker, large ones in a process of their own."""

import pytest

from tests.money.bank.formats.large_statements import large_csv, large_mt940
from tests.money.invoices.billing import Billing
from tests.support.world import TESTER
from tonne.money.accounting.matching import import_uploads
from tonne.money.accounting.matching.import_statement import NO_OPTIONS
from tonne.money.accounting.matching.upload_store import (
    StatementUpload,
    UploadStatus,
    ask_for_import,
    find_upload,
    upload_statement,
)
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.platform.process.offload import OffloadFailed
from tonne.platform.values.context import Mode

LINES = 300


async def staged(billing: Billing, content: bytes) -> str:
    by = TESTER.at(billing.clock())
    file = SheetFile("march.txt", content)
    return await billing.database.commit(upload_statement, Mode.LIVE, file, NO_OPTIONS, by=by)


async def found(billing: Billing, upload_id: str) -> StatementUpload:
    return await billing.database.run(find_upload, Mode.LIVE, upload_id)


async def test_a_large_file_is_read_elsewhere_with_progress(billing: Billing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_uploads, "NOTE_EVERY_S", 0.01)
    upload_id = await staged(billing, large_mt940(LINES))
    assert (await found(billing, upload_id)).status is UploadStatus.READING
    await billing.run_jobs(billing.services.import_uploads)
    read = await found(billing, upload_id)
    assert read.status is UploadStatus.READ
    assert read.step
    assert read.total
    assert read.seen.outcomes == {"unmatched": (LINES, {"EUR": LINES * 1000})}
    assert len(read.seen.lines) == import_uploads.SHOWN
    assert await billing.fetchval("SELECT count(*) FROM bank_transfers") == 0
    by = TESTER.at(billing.clock())
    assert await billing.database.commit(ask_for_import, Mode.LIVE, upload_id, by=by)
    assert not await billing.database.commit(ask_for_import, Mode.LIVE, upload_id, by=by)
    await billing.run_jobs(billing.services.import_uploads)
    assert await billing.fetchval("SELECT count(*) FROM bank_transfers") == LINES
    assert await billing.fetchval("SELECT count(*) FROM statement_uploads") == 0
    actor = await billing.fetchval("SELECT actor FROM audit_log WHERE action = 'bank_statement.imported'")
    assert actor == str(TESTER)
    await billing.check_invariants()


async def test_faults_of_a_large_file_are_stored_for_its_page(billing: Billing) -> None:
    upload_id = await staged(billing, large_csv(LINES).replace(b"2026-01-05,", b"soon,"))
    await billing.run_jobs(billing.services.import_uploads)
    refused = await found(billing, upload_id)
    assert (refused.status, refused.seen.error_count) == (UploadStatus.REFUSED, LINES)
    assert len(refused.seen.errors) == import_uploads.SHOWN
    assert "soon" in refused.seen.errors[0]


async def test_a_process_that_dies_is_tried_again_and_then_reported(
    billing: Billing, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def dies(*_: object) -> None:
        raise OffloadFailed("killed")

    monkeypatch.setattr(import_uploads, "offload", dies)
    upload_id = await staged(billing, large_mt940(LINES))
    for _ in range(import_uploads.MOST_FAILURES):
        assert (await found(billing, upload_id)).status is UploadStatus.READING
        await billing.fetchval("UPDATE statement_uploads SET next_attempt_at = now()")
        assert await billing.services.import_uploads.run_once()
    refused = await found(billing, upload_id)
    assert refused.status is UploadStatus.REFUSED
    assert "tonne invoice import-statement" in refused.seen.errors[0]
    assert not await billing.services.import_uploads.run_once()
