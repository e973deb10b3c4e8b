"""Constructs the page of an order, which organisations and the operator share."""

from tonne.apps.dashboard.order_desk import MAILS, MAILS_PER_S, OrderDesk
from tonne.apps.lookup.order_actions import OrderActions
from tonne.apps.wiring.parts import Parts
from tonne.platform.http.limits.rate_limit import TokenBuckets


def order_desk(parts: Parts, *, limit_name: str) -> OrderDesk:
    """`limit_name` is that of the limit of mails: what members send does not use up the operator's."""
    actions = OrderActions(parts.database, parts.card_gateways, parts.clock, parts.settings, parts.notifier)
    mails = TokenBuckets(limit_name, MAILS_PER_S, MAILS)
    return OrderDesk(*parts.page, actions, parts.render_certificate, parts.render_invoice, mails)
