"""Orders that a card has paid, and their tax documents."""

from tests.money.refunds.refund_scene import ADA, RefundScene
from tonne.money.accounting.books.post_entries import PostEntries
from tonne.money.accounting.journal.sources import all_postings
from tonne.money.invoices.issuing.issue_documents import IssueDocuments
from tonne.money.invoices.tax_documents import find_document_any_account
from tonne.money.refunds.correct_documents import correct_new_documents
from tonne.money.refunds.disputes.decide_tax import TaxDecision, decide_tax
from tonne.selling.orders.model import Order

BALANCES = f"""
SELECT account, sum(amount_minor)::bigint AS minor FROM ({all_postings("true")}) AS posting
GROUP BY account HAVING sum(amount_minor) <> 0 ORDER BY account
"""  # noqa: S608 - our own constants
DOCUMENTS = """
SELECT document.kind, document.reference, document.total_minor, corrected.reference AS corrects
FROM tax_documents document LEFT JOIN tax_documents corrected ON corrected.id = document.corrects
ORDER BY substr(document.id, 5)
"""


class DocumentsScene(RefundScene):
    async def issue(self) -> None:
        await self.run_jobs(IssueDocuments(self.database, self.clock, self.settings, correct_new_documents))

    async def documented(self) -> Order:
        order = await self.paid()
        await self.issue()
        return order

    async def check(self) -> None:
        """Compare all payments with the gateway."""
        await self.execute("UPDATE charges SET check_at = $1", self.clock())
        await self.send()

    async def fail_at_gateway(self) -> None:
        """All refunds fail, although they had succeeded."""
        await self.execute("UPDATE simulated_refunds SET status = 'failed', later = 'failed'")
        await self.execute("UPDATE simulated_charges SET refunded_minor = 0")

    async def decide_tax(self, decision: TaxDecision) -> None:
        dispute_id = await self.fetchval("SELECT id FROM disputes")
        async with self.database.transaction() as tx:
            await decide_tax(tx, dispute_id, decision, by=ADA.at(self.clock()))

    async def documents(self) -> list[tuple[str, int, str | None]]:
        """Number, total, and what it corrects."""
        rows = await self.fetch(DOCUMENTS)
        return [(row["reference"], row["total_minor"], row["corrects"]) for row in rows]

    async def pdf(self, reference: str) -> bytes:
        async with self.database.connection() as connection:
            document = await find_document_any_account(connection, reference, self.scope.mode)
        assert document is not None
        return (await self.services.originals.pdf(document)).read()

    async def balances(self) -> dict[str, int]:
        """What the books show, once the jobs have booked everything, and the doctor finds nothing."""
        await self.run_jobs(PostEntries(self.database, self.clock, self.settings))
        await self.check_invariants()
        return {row["account"]: row["minor"] for row in await self.fetch(BALANCES)}
