"""The file of an invoice or credit note is rendered once: everybody gets the same bytes for ten years."""

import asyncio
from datetime import date
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import pytest

from tests.money.invoices.billing import Billing
from tests.support.command import Operator
from tests.support.world import TESTER, World
from tonne.apps.privacy.retention.remove_partitions import NotRemoved, remove_due
from tonne.money.invoices.credit_notes.cancel_invoice import correct_invoice
from tonne.money.invoices.originals.document_file import FileFormat
from tonne.money.invoices.originals.file_store import CLAIM_UNRENDERED
from tonne.money.invoices.originals.invariants import INVARIANTS
from tonne.money.invoices.originals.render_documents import LEASE
from tonne.money.invoices.tax_documents import TaxDocument, find_documents_any_account
from tonne.platform.db.schema.partitions import DOCUMENTS, create_partition, list_partitions
from tonne.platform.documents.pdf import render_pdf
from tonne.platform.keys.signing.keys import rotate_key
from tonne.platform.keys.signing.model import KeyPurpose
from tonne.platform.values.context import job_actor
from tonne.selling.orders.model import Order


def attached(mail: EmailMessage) -> bytes:
    [first, *_] = mail.iter_attachments()
    return bytes(first.get_content())


async def download(billing: Billing, document: TaxDocument) -> bytes:
    return (await billing.services.originals.pdf(document)).read()


async def test_mail_download_and_command_have_the_same_bytes_whatever_happens_later(
    billing: Billing, world: World, operator: Operator, tmp_path: Path
) -> None:
    orders = [await billing.place_order(world.ours_live.scope) for _ in range(3)]
    await billing.work()
    mailed = {mail["Subject"].split(":")[0]: attached(mail) for mail in await billing.mails()}
    assert len(mailed) == len(orders)
    async with billing.database.transaction() as tx:
        first, by = await billing.invoice(orders[0]), TESTER.at(billing.clock())
        await correct_invoice(tx, first, None, 100, reason="Agreed", by=by)
        box, seller = billing.services.box, "Another name"
        await rotate_key(tx, KeyPurpose.DOCUMENT, box, seller, by=by)
    await billing.settle(orders[1])
    await billing.cancel(orders[2])
    billing.clock.turn_to(5, 1)
    await billing.work()
    path = tmp_path / "invoice.pdf"
    for order in orders:
        invoice = await billing.invoice(order)
        operator.does("invoice", "pdf", invoice.reference, "-o", str(path))
        assert path.read_bytes() == mailed[f"Invoice {invoice.reference}"] == await download(billing, invoice)
        xml = await billing.services.originals.file(invoice, FileFormat.CII)
        assert xml is None, "without countries there is no electronic invoice"
    reminders = [attached(mail) for mail in await billing.mails() if "Reminder" in mail["Subject"]]
    assert reminders, "of the invoice that is still open"
    assert {*reminders} <= {*mailed.values()}
    await billing.check_invariants()


async def test_a_release_that_renders_differently_does_not_change_what_was_sent(
    billing: Billing, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await billing.place_order(world.ours_live.scope)
    await billing.work()
    [mail] = await billing.mails()

    def render(*arguments: Any, **options: Any) -> bytes:
        return render_pdf(*arguments, **options) + b"% rendered by another release"

    monkeypatch.setattr("tonne.money.invoices.documents.pdf.render_pdf", render)
    after = await billing.place_order(world.ours_live.scope)
    await billing.work()
    assert b"another release" in await download(billing, await billing.invoice(after))
    assert await download(billing, await billing.invoice(before)) == attached(mail)


async def test_a_file_that_is_not_as_it_was_stored_is_reported(billing: Billing, world: World) -> None:
    await billing.place_order(world.ours_live.scope)
    await billing.work()
    await billing.tamper("UPDATE tax_document_files SET sha256 = sha256('x')")
    [(name, [place])] = (await billing.breaches()).items()
    assert (name, "the digest differs" in place) == (INVARIANTS[0].name, True)


async def test_a_file_of_a_document_is_never_changed_or_removed(billing: Billing, world: World) -> None:
    await billing.place_order(world.ours_live.scope)
    await billing.work()
    [row] = await billing.fetch("SELECT * FROM tax_document_files")
    assert (row["retain_until"], row["format"]) == (date(2036, 12, 31), "pdf")
    assert len(row["body"]) < row["raw_size"]
    storage = "SELECT DISTINCT attstorage FROM pg_attribute WHERE attname = 'body' AND attrelid = $1::oid"
    partition = await billing.fetchval("SELECT tableoid FROM tax_document_files")
    assert await billing.fetchval(storage, partition) == b"e", "zstd: PostgreSQL does not compress it again"
    for statement in ("UPDATE tax_document_files SET body = ''", "DELETE FROM tax_document_files"):
        with pytest.raises(asyncpg.RaiseError, match="append-only"):
            await billing.execute(statement)


async def test_the_outbox_refers_to_the_file_and_has_no_copy(billing: Billing, world: World) -> None:
    await billing.place_order(world.ours_live.scope)
    await billing.work()
    [mail] = await billing.fetch("SELECT message FROM mails")
    [file] = await billing.fetch("SELECT raw_size, encode(sha256, 'hex') AS sha256 FROM tax_document_files")
    assert len(mail["message"]) < 10_000
    assert file["sha256"].encode() in mail["message"]
    [whole] = await billing.mails()
    assert len(attached(whole)) == file["raw_size"]


async def test_live_mails_wait_for_the_file_and_a_download_renders_at_once(billing: Billing, world: World) -> None:
    first, second = [await billing.place_order(world.ours_live.scope) for _ in range(2)]
    await billing.run_jobs(billing.issue, billing.follow_up)
    assert await billing.mails() == []
    invoice = await billing.invoice(first)
    both = await asyncio.gather(download(billing, invoice), download(billing, invoice))
    assert both[0] == both[1]
    assert await billing.fetchval("SELECT count(*) FROM unrendered_documents") == 1
    await billing.run_jobs(billing.follow_up)
    [mail] = await billing.mails()
    assert attached(mail) == both[0]
    await billing.work()
    assert await billing.fetchval("SELECT count(*) FROM tax_document_files") == 2
    await _check_mailed_once(billing, first, second)


async def _check_mailed_once(billing: Billing, *orders: Order) -> None:
    assert len(await billing.mails()) == len(orders)
    await billing.check_invariants()


async def test_a_worker_that_dies_after_each_step_loses_no_document(billing: Billing, world: World) -> None:
    order = await billing.place_order(world.ours_live.scope)
    await billing.issue.run_once()
    # It dies with the number, before there is a file.
    now = billing.clock.now
    await billing.database.commit(lambda tx: tx.fetch(CLAIM_UNRENDERED, now, now + LEASE, 10))
    await billing.work()
    assert await billing.mails() == []
    billing.clock.now += LEASE
    # It dies with the file, before the mail.
    await billing.render.run_once()
    original = await download(billing, await billing.invoice(order))
    await billing.work()
    [mail] = await billing.mails()
    assert attached(mail) == original
    await _check_mailed_once(billing, order)


async def test_documents_are_removed_only_after_their_years_and_with_an_archive(
    billing: Billing, world: World, tmp_path: Path
) -> None:
    await billing.place_order(world.ours_live.scope)
    await billing.work()
    settings = msgspec.structs.replace(billing.settings, archive_dir=str(tmp_path), archive_tables="", events_days=0)
    settings = msgspec.structs.replace(settings, mails_days=0, webhook_attempts_days=0)
    async with billing.database.transaction() as tx:
        [*_, last] = await list_partitions(tx, DOCUMENTS)
        await create_partition(tx, DOCUMENTS, last.end)

    async def run(year: int, years: int = 10) -> list[object]:
        kept = msgspec.structs.replace(settings, document_retention_years=years)
        connection = await billing.database.connect()
        try:
            return [*await remove_due(connection, kept, lambda: billing.clock.now.replace(year=year), job_actor("x"))]
        finally:
            await connection.close()

    assert await run(2036) == []
    assert isinstance((await run(2036, years=5))[0], NotRemoved), "it was promised to be kept until the end of 2036"
    removed = await run(2038)
    assert len(removed) >= 1
    assert not any(isinstance(each, NotRemoved) for each in removed)
    assert await billing.fetchval("SELECT count(*) FROM tax_document_files") == 0
    assert len(await asyncio.to_thread(lambda: [*tmp_path.glob("tax_document_files_*.jsonl.gz")])) == len(removed)
    await billing.check_invariants()


async def test_a_document_of_an_unknown_kind_is_not_forgotten(billing: Billing) -> None:
    async with billing.database.connection() as connection:
        assert await find_documents_any_account(connection, ["inv_x", "crn_x"]) == []
