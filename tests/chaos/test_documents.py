"""The SQL with which chaos runs prove documents finds nothing in true books, and everything that is broken in them."""

from decimal import Decimal

import pytest

from chaos.money.documents import CHECKS, find_undocumented
from tests.money.refunds.documents_scene import DocumentsScene
from tests.support.world import ADDRESS, TESTER, World
from tonne.apps.wiring.app import Services
from tonne.money.cards.gateways.card import DisputeState
from tonne.money.invoices.originals.render_documents import RenderDocuments
from tonne.platform.values.amounts import TaxTreatment
from tonne.selling.accounts.tax.tax_profile import set_tax_profile

# What each check must find, with a statement that breaks the books.
BREAKS = {
    "what a card paid for an order is on its documents": (
        # Of a refunded order, of one whose payment was lost before delivery, and of one that stays as it is.
        "DELETE FROM tax_documents WHERE reference = 'CN-TEST-000001'",
        "DELETE FROM tax_documents WHERE reference = 'CN-TEST-000002'",
        "DELETE FROM invoice_orders WHERE invoice_id IN (SELECT id FROM invoices WHERE number = 1)",
        "UPDATE tax_documents SET total_minor = total_minor - 1 WHERE reference = 'TN-TEST-000001'",
        "UPDATE simulated_charges SET amount_minor = amount_minor + 1",
    ),
    "what a card paid for invoices is on them": (
        "UPDATE charges SET invoice_id = id, order_id = NULL WHERE order_id IS NOT NULL",
    ),
    "orders were charged or billed, never both": ("UPDATE invoices SET is_prepaid = false",),
    "the tax of documents is the tax that is booked": (
        "UPDATE tax_documents SET tax_minor = tax_minor - 1 WHERE reference = 'TN-TEST-000001'",
        "DELETE FROM ledger_postings WHERE account::text LIKE 'Liabilities:Tax%'",
    ),
    "the books have what the gateway has": ("DELETE FROM simulated_refunds",),
    "numbers have no gap": ("DELETE FROM tax_documents WHERE reference = 'TN-TEST-000002'",),
    "every document has its file": ("DELETE FROM tax_document_files WHERE format = 'pdf'",),
    "nothing waits": ("INSERT INTO ledger_due (table_name, source_id) VALUES ('orders', 'ord_x')",),
    "a file is not as it was stored": ("UPDATE tax_document_files SET sha256 = sha256('x')",),
}


@pytest.fixture
async def scene(services: Services, world: World) -> DocumentsScene:
    scene = DocumentsScene(services, world.ours_test)
    profile = {"treatment": TaxTreatment.STANDARD, "rate": Decimal("0.19"), **ADDRESS}
    async with scene.database.transaction() as tx:
        await set_tax_profile(tx, scene.scope.organisation_id, profile, by=TESTER.at(scene.clock()))
    return scene


async def test_every_broken_book_is_found_and_a_true_one_is_not(scene: DocumentsScene) -> None:
    refunded, lost, delivered = [await scene.documented() for _ in range(3)]
    await scene.refund(refunded, 100)
    await scene.send()
    await scene.dispute(lost, DisputeState.LOST)
    await scene.allocate()
    # Its tax is to be decided by a person: the document stays.
    await scene.dispute(delivered, DisputeState.LOST)
    # Otherwise those of test mode are rendered when they are first read.
    await scene.execute("INSERT INTO unrendered_documents SELECT id, mode, now(), '-infinity' FROM tax_documents")
    await scene.run_jobs(RenderDocuments(scene.database, scene.clock, scene.services.originals, share_percent=100))
    await scene.balances()
    assert await find_undocumented(scene.fetch) == []
    assert len(await scene.documents()) == 5
    assert BREAKS.keys() == {*CHECKS, "a file is not as it was stored"}
    unnoticed = []
    for name, statements in BREAKS.items():
        for statement in statements:
            async with scene.database.connection() as connection:
                transaction = connection.transaction()
                await transaction.start()
                # No trigger and no foreign key hinders it.
                await connection.execute("SET LOCAL session_replication_role = replica")
                await connection.execute(statement)
                sql = CHECKS.get(name)
                found = await (find_undocumented(connection.fetch) if sql is None else connection.fetch(sql))
                await transaction.rollback()
            if not found:
                unnoticed.append((name, statement))
    assert unnoticed == []
