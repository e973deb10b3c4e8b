"""What a person decides about the tax of a dispute that was lost after delivery: correct it, or keep it.

The sale was made and is not paid. Whether its tax is still owed depends on the country.
"""

from enum import StrEnum

from tonne.money.cards.captured_store import CapturedCharge, find_captured_any_account, lock_shared
from tonne.money.cards.invoice_charge_store import list_invoices_of_charge
from tonne.money.invoices.credit_notes.credit_note import CreditCause, CreditedOrder, credit_in_part, without
from tonne.money.invoices.credit_notes.issue_credit_note import issue_credit_note
from tonne.money.invoices.credit_notes.store import sum_credited
from tonne.money.invoices.issuing.billed_order_store import find_billed_order, list_paid_shares
from tonne.money.invoices.store import find_invoice, lock_invoices_any_account
from tonne.money.refunds.disputes import dispute_store
from tonne.money.refunds.errors import TaxDecisionInvalid
from tonne.money.refunds.model import Dispute
from tonne.money.refunds.order_money import divide_dispute
from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.values.context import By
from tonne.selling.orders.model import Order, OrderKey, OrderStatus
from tonne.selling.orders.queue import lock_orders

REASON = "The payment was reversed by the card issuer"
_DELIVERED = {OrderStatus.RETIRING, OrderStatus.COMPLETE}


class TaxDecision(StrEnum):
    CREDITED = "credited"
    KEPT = "kept"


async def decide_tax(tx: Connection, dispute_id: str, decision: TaxDecision, *, by: By) -> Dispute:
    """With a credit note, only the tax changes in the books: the loss is smaller by it. Call it last.

    Raises TaxDecisionInvalid if there is nothing to decide.
    """
    found = await dispute_store.find_dispute_any_account(tx, dispute_id)
    charge = None if found is None else await find_captured_any_account(tx, found.charge_id)
    if found is None or charge is None:
        raise TaxDecisionInvalid
    shares = await list_paid_shares(tx, charge) if charge.is_shared else {charge.order_key: found.withdrawn_minor}
    orders = await lock_orders(tx, list(shares))
    await lock_shared(tx, [charge])
    if not await dispute_store.has_open_tax(tx, found) or not await dispute_store.decide(tx, found, decision, by=by):
        raise TaxDecisionInvalid
    if decision is TaxDecision.CREDITED:
        parts = {key: part.withdrawn_minor for key, part in divide_dispute(found, shares).items()}
        await _credit(tx, charge, orders, parts, by=by)
    await audit.record(
        tx, charge.scope, "dispute.tax_decided", by=by, subject_id=found.id, after={"decision": decision.value}
    )
    return found


async def _credit(
    tx: Connection, charge: CapturedCharge, orders: dict[str, Order], parts: dict[OrderKey, int], *, by: By
) -> None:
    """On each of the invoices that the charge has paid."""
    if charge.is_shared:
        ids = await list_invoices_of_charge(tx, charge.scope, charge.id)
    else:
        issued = await find_invoice(tx, charge.scope, charge.order_id)
        ids = [] if issued is None else [issued.id]
    if not ids:
        raise TaxDecisionInvalid("The document of the order is not issued yet.")
    is_credited = False
    for invoice in await lock_invoices_any_account(tx, ids):
        earlier = await sum_credited(tx, invoice)
        credited: list[CreditedOrder] = []
        for key, minor in parts.items():
            billed = await find_billed_order(tx, invoice, key) if orders[key.id].status in _DELIVERED else None
            if billed is None:
                continue
            left = without(billed, earlier.get(key.id))
            if (amount := min(minor, left.total_minor)) > 0:
                credited.append(credit_in_part(left, amount))
        if credited:
            await issue_credit_note(tx, invoice, credited, cause=CreditCause.DISPUTE, reason=REASON, by=by)
            is_credited = True
    if not is_credited:
        raise TaxDecisionInvalid("Nothing is left to credit.")
