"""Numbers of simplified invoices and credit notes are gapless, whatever workers do at once."""

import asyncio
import contextlib
from decimal import Decimal

import pytest

from tests.money.refunds.documents_scene import DocumentsScene
from tests.support.world import TESTER, World
from tonne.apps.wiring.app import Services
from tonne.money.invoices.issuing import issue_documents
from tonne.money.invoices.issuing.due_document_store import claim_due_documents
from tonne.money.invoices.issuing.issue_documents import IssueDocuments
from tonne.money.refunds.correct_documents import correct_new_documents
from tonne.platform.values.amounts import TaxTreatment
from tonne.selling.accounts.tax.tax_profile import set_tax_profile

WORKERS, ORDERS = 4, 24
NUMBERS = "SELECT series, number FROM tax_documents ORDER BY series, number"


class _Crash(Exception):
    pass


@pytest.fixture
async def scene(services: Services, world: World) -> DocumentsScene:
    """Without an address, small orders get simplified invoices."""
    scene = DocumentsScene(services, world.ours_test)
    async with scene.database.transaction() as tx:
        profile = {"treatment": TaxTreatment.STANDARD, "rate": Decimal("0.19")}
        await set_tax_profile(tx, scene.scope.organisation_id, profile, by=TESTER.at(scene.clock()))
    return scene


async def test_four_workers_and_crashes_leave_no_gap(scene: DocumentsScene, monkeypatch: pytest.MonkeyPatch) -> None:
    orders = [await scene.order() for _ in range(ORDERS)]
    await scene.run_jobs(scene.worker)
    # Half of them are refunded in part before they have a document: the worker that issues it credits that, too.
    refunded = orders[::2]
    for order in refunded:
        await scene.refund(order, 100)
    await scene.send()
    monkeypatch.setattr(issue_documents, "BATCH", 3)
    barrier = asyncio.Barrier(WORKERS + 1)

    async def worker() -> None:
        job = IssueDocuments(scene.database, scene.clock, scene.settings, correct_new_documents)
        await barrier.wait()
        while await job.run_once():
            pass

    async def crashing() -> None:
        await barrier.wait()
        for _ in range(5):
            with contextlib.suppress(_Crash):
                await _issue_and_crash(scene)

    await asyncio.gather(*(worker() for _ in range(WORKERS)), crashing())
    await scene.issue()
    numbers = [(row["series"], row["number"]) for row in await scene.fetch(NUMBERS)]
    assert numbers == [
        *(("CN", number) for number in range(1, len(refunded) + 1)),
        *(("TS", number) for number in range(1, ORDERS + 1)),
    ]
    await scene.check_invariants()


async def _issue_and_crash(scene: DocumentsScene) -> None:
    async with scene.database.transaction() as tx:
        due = await claim_due_documents(tx, scene.clock(), 2)
        await issue_documents.issue_documents(tx, due, scene.settings, correct_new_documents, now=scene.clock())
        raise _Crash
