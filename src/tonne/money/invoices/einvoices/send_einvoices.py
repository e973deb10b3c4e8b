"""A job: hand electronic invoices to the network, each once, and look up those whose answer was lost."""

from datetime import timedelta
from functools import partial
from typing import Any, ClassVar

from tonne.money.invoices.einvoices import delivery_store
from tonne.money.invoices.einvoices.delivery_store import Delivery
from tonne.money.invoices.einvoices.network import EInvoice, EInvoiceNetwork, NetworkAnswer, NetworkOutcome
from tonne.money.invoices.errors import InvoiceNotFound
from tonne.money.invoices.originals.document_file import FileFormat
from tonne.money.invoices.originals.originals import Originals
from tonne.money.invoices.tax_documents import find_documents_any_account
from tonne.platform.db.batches import RowJob, run_each
from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.values.context import By, job_actor

BATCH = 20
# Longer than a network takes for a batch.
LEASE = timedelta(minutes=10)
ACTOR = job_actor("send_einvoices")


class SendEInvoices(RowJob, frozen=True):
    originals: Originals
    # None: they go by mail, and none is due.
    network: EInvoiceNetwork | None

    EVERY_S: ClassVar[int] = 5

    async def run_once(self) -> bool:
        """Send a batch; false if none is due. After a failure one is looked up when its lease expires."""
        if self.network is None:
            return False
        now = self.clock()
        claimed = await self.database.run(delivery_store.claim_deliveries, now, now + LEASE, BATCH)
        return await run_each(
            claimed,
            partial(self._send, self.network),
            failure_event="einvoice_not_sent",
            describe=lambda delivery: {"reference": delivery.number},
        )

    async def _send(self, network: EInvoiceNetwork, delivery: Delivery) -> None:
        [document] = await self.database.run(find_documents_any_account, [delivery.document_id])
        file = await self.originals.file(document, FileFormat.UBL)
        if file is None:
            raise LookupError(f"document {document.id} has no UBL")
        invoice = EInvoice(document.id, delivery.number, delivery.format, delivery.receiver, file.read())
        answer = await network.find(invoice) if delivery.state == "sending" else None
        answer = answer or await network.send(invoice)
        by = ACTOR.at(self.clock())
        await self.database.commit(delivery_store.record_answer_any_account, document.id, answer, by=by)


async def record_answer(tx: Connection, number: str, answer: NetworkAnswer, *, by: By) -> None:
    """What a person learned about one that was sent. Raises InvoiceNotFound."""
    found = await delivery_store.lock_delivery_any_account(tx, number.strip().upper())
    if found is None or found.state == "due":
        raise InvoiceNotFound(f"No electronic invoice {number} was sent. `tonne einvoice list` shows all.")
    await delivery_store.record_answer_any_account(tx, found.document_id, answer, by=by)
    details: dict[str, Any] = {"reference": found.number, "reason": answer.reason}
    action = "einvoice.accepted" if answer.outcome is NetworkOutcome.ACCEPTED else "einvoice.refused"
    await audit.record(tx, found, action, by=by, subject_id=found.document_id, **details)
