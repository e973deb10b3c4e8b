"""What `tonne order show` prints: the facts of an order and its timeline."""

import msgspec

from tonne.apps.cli.output import STATUS_STYLES, MoneyColumn, TimeColumn, TonnesColumn, ValueColumn
from tonne.apps.lookup.order_facts import ShownOrder
from tonne.platform.values.timeline import TimelineEntry

FACTS: tuple[ValueColumn[ShownOrder], ...] = (
    ValueColumn("id", lambda o: o.order.id, head="order"),
    ValueColumn("status", lambda o: o.order.status, styles=STATUS_STYLES),
    ValueColumn("payment_state", lambda o: o.order.payment_state, head="money", styles=STATUS_STYLES),
    ValueColumn("waits_for", lambda o: o.waits_for),
    ValueColumn("next_by", lambda o: o.next_by, head="next step by"),
    ValueColumn("failure_reason", lambda o: o.order.failure_reason),
    ValueColumn("cancellation_reason", lambda o: o.order.cancellation_reason),
    ValueColumn("mode", lambda o: o.order.scope.mode),
    TimeColumn("created_at", lambda o: o.order.created_at, head="received"),
    ValueColumn("placed_by", lambda o: o.placed_by),
    TonnesColumn("quantity", lambda o: o.quantity_grams, head="tonnes"),
    MoneyColumn("total_cost", lambda o: o.total_cost_minor, lambda o: o.order.currency, head="total"),
    MoneyColumn("tax", lambda o: o.order.tax.tax_minor, lambda o: o.order.currency),
    MoneyColumn("amount_due", lambda o: o.order.amount_due_minor, lambda o: o.order.currency),
    MoneyColumn("refunded_amount", lambda o: o.order.refunded_minor, lambda o: o.order.currency, head="refunded"),
    ValueColumn("payment_method", lambda o: o.order.payment_method, head="payment"),
    ValueColumn("invoice", lambda o: o.invoice and o.invoice.reference, show=lambda o: o.invoice_state),
    ValueColumn("beneficiary", lambda o: o.order.beneficiary),
    ValueColumn("email", lambda o: o.order.email, head="customer"),
    ValueColumn("idempotency_key", lambda o: o.order.idempotency_key),
    ValueColumn("metadata", lambda o: msgspec.json.decode(o.order.metadata, type=dict[str, msgspec.Raw])),
    ValueColumn("certificate", lambda o: o.order.certificate_url),
    ValueColumn("account_name", lambda o: o.names.of(o.order.scope.account_id), head="account name"),
    ValueColumn("account_id", lambda o: o.order.scope.account_id, head="account"),
    ValueColumn("organisation_name", lambda o: o.names.of(o.order.scope.organisation_id), in_table=False),
    ValueColumn("organisation_id", lambda o: o.order.scope.organisation_id, head="organisation"),
)

TIMELINE: tuple[ValueColumn[TimelineEntry], ...] = (
    TimeColumn("at", lambda e: e.at, head="time"),
    ValueColumn("kind", lambda e: e.kind, head="what"),
    ValueColumn("text", lambda e: e.text, head="happened", shrinks=True),
    ValueColumn("actor", lambda e: e.actor, head="by", shrinks=True),
    ValueColumn("subject_id", lambda e: e.subject_id, in_table=False),
    ValueColumn("is_planned", lambda e: e.is_planned, in_table=False),
)
