"""A job: render the files of documents that have none, one after the other, with a bounded share of CPU."""

import asyncio
import time
from datetime import timedelta

from tonne.money.invoices.originals.file_store import claim_unrendered
from tonne.money.invoices.originals.originals import Originals
from tonne.money.invoices.tax_documents import TaxDocument, find_documents_any_account
from tonne.platform.db.batches import RowJob, run_each

BATCH = 10
# Longer than a batch of the largest invoices takes. If the worker dies, another one continues after that.
LEASE = timedelta(minutes=10)


class RenderDocuments(RowJob, frozen=True):
    """One document at a time, in `share_percent` of the time: a worker needs at most half a core for it."""

    originals: Originals
    share_percent: int = 50

    async def run_once(self) -> bool:
        """Render a batch; false if every document has its files. After a failure a document is due with its lease."""
        now = self.clock()
        ids = await self.database.run(claim_unrendered, now, now + LEASE, BATCH)
        documents = await self.database.run(find_documents_any_account, ids)
        return await run_each(
            documents,
            self._render,
            failure_event="document_not_rendered",
            describe=lambda document: {"reference": document.reference},
        )

    async def _render(self, document: TaxDocument) -> None:
        started = time.monotonic()
        await self.originals.render(document)
        await asyncio.sleep((time.monotonic() - started) * (100 / self.share_percent - 1))
