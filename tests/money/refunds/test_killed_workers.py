"""Workers that are killed between the number, the file and the mail of a document lose and repeat nothing."""

from functools import partial
from pathlib import Path

import pytest

from chaos.money.documents import RENDER_ALL
from tests.money.refunds.documents_scene import DocumentsScene
from tests.support.processes import Process, free_port
from tests.support.world import TESTER, World
from tonne.apps.wiring.app import Services
from tonne.money.invoices.originals.render_documents import RenderDocuments
from tonne.selling.accounts.change_account import AccountChange, change_account
from tonne.selling.accounts.customer_mail import allow_address

BILLING = "billing@ours.test"
EXPIRE_LEASES = (
    "UPDATE order_mails SET due_at = now() - interval '1 second'",
    "UPDATE unrendered_documents SET next_attempt_at = now() - interval '1 second'",
)
COUNTS = """
SELECT (SELECT count(*) FROM tax_documents), (SELECT count(*) FROM tax_document_files),
       (SELECT count(*) FROM mails)
"""


@pytest.fixture
async def scene(services: Services, world: World) -> DocumentsScene:
    scene = DocumentsScene(services, world.ours_test)
    async with scene.database.transaction() as tx:
        await change_account(tx, scene.scope, AccountChange(receipt_email=BILLING), by=TESTER.at(scene.clock()))
        await allow_address(tx, scene.scope.organisation_id, BILLING, scene.clock())
    return scene


async def test_a_killed_worker_leaves_the_rest_of_a_document_to_the_next(scene: DocumentsScene, tmp_path: Path) -> None:
    await scene.execute(RENDER_ALL)
    order = await scene.paid()
    settings: dict[str, object] = {
        "database_url": scene.database._url,
        "secret_key": scene.settings.secret_key,
        "data_dir": tmp_path,
    }
    found = []
    # Mail and file are made at the same time.
    steps = (
        ("tax_documents", "due_documents"),
        ("tax_document_files, mails", "tax_documents"),
        ("mails", "tax_document_files"),
    )
    for number, (tables, filled) in enumerate(steps):
        holder = await scene.database.connect()
        try:
            # The worker reads the table, and waits with what it inserts.
            await holder.execute("BEGIN")
            await holder.execute(f"LOCK TABLE {tables} IN SHARE MODE")
            ports: dict[str, object] = {"metrics_port": free_port(), "worker_health_port": 0}
            worker = Process("tonne", "worker", settings=settings | ports, log=tmp_path / f"{number}.log")
            try:
                # Rows of the step before are there, and what comes next waits.
                await scene.until(partial(scene.fetchval, f"SELECT count(*) FROM {filled}"))  # noqa: S608 - our own names
                await scene.until_waiting_for_lock()
            finally:
                worker.kill()
            await holder.execute("ROLLBACK")
        finally:
            await holder.close()
        found.append(tuple((await scene.fetch(COUNTS))[0]))
        await scene.check_invariants()
        for statement in EXPIRE_LEASES:
            await scene.execute(statement)
    assert found == [(0, 0, 0), (1, 0, 0), (1, 1, 0)]
    scene.clock.now = scene.services.clock()
    await scene.issue()
    render = RenderDocuments(scene.database, scene.clock, scene.services.originals, share_percent=100)
    await scene.run_jobs(render, scene.mail_orders)
    assert tuple((await scene.fetch(COUNTS))[0]) == (1, 1, 1)
    assert await scene.documents() == [("TN-TEST-000001", order.amount_due_minor, None)]
    await scene.check_invariants()
