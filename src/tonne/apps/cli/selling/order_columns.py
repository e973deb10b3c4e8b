"""What `tonne order show` prints: the facts of an order and its timeline."""

import msgspec

from tonne.apps.cli.output import MoneyColumn, ValueColumn, columns
from tonne.apps.lookup.order_facts import ShownOrder
from tonne.platform.values.timeline import TimelineEntry

FACTS: tuple[ValueColumn[ShownOrder], ...] = (
    *columns("order.id: order", "order.status", "order.payment_state: money", "waits_for", "next_by: next step by"),
    *columns("order.failure_reason", "order.cancellation_reason", "order.scope.mode", "order.created_at: received"),
    *columns("placed_by", "quantity_grams: tonnes"),
    MoneyColumn("total_cost", lambda o: o.total_cost_minor, lambda o: o.order.currency, head="total"),
    MoneyColumn("tax", lambda o: o.order.tax.tax_minor, lambda o: o.order.currency),
    MoneyColumn("amount_due", lambda o: o.order.amount_due_minor, lambda o: o.order.currency),
    MoneyColumn("refunded_amount", lambda o: o.order.refunded_minor, lambda o: o.order.currency, head="refunded"),
    ValueColumn("payment_method", lambda o: o.order.payment_method, head="payment"),
    ValueColumn("invoice", lambda o: o.invoice and o.invoice.reference, show=lambda o: o.invoice_state),
    *columns("order.beneficiary", "order.email: customer", "order.idempotency_key"),
    *columns("order.external_id", "order.external_id_verified", "order.reference"),
    ValueColumn("metadata", lambda o: msgspec.json.decode(o.order.metadata, type=dict[str, msgspec.Raw])),
    ValueColumn("certificate", lambda o: o.order.certificate_url),
    ValueColumn("account_name", lambda o: o.names.of(o.order.scope.account_id), head="account name"),
    ValueColumn("account_id", lambda o: o.order.scope.account_id, head="account"),
    ValueColumn("organisation_name", lambda o: o.names.of(o.order.scope.organisation_id), in_table=False),
    ValueColumn("organisation_id", lambda o: o.order.scope.organisation_id, head="organisation"),
)

TIMELINE: tuple[ValueColumn[TimelineEntry], ...] = (
    *columns("at: time", "kind: what"),
    *columns("text: happened", "actor: by", shrinks=True),
    *columns("subject_id", "is_planned", in_table=False),
)
