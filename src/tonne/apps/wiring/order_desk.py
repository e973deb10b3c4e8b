"""Constructs the page of an order, which organisations and the operator share."""

from tonne.apps.dashboard.order_desk import OrderDesk
from tonne.apps.lookup.order_actions import OrderActions
from tonne.apps.wiring.parts import Parts


def order_desk(parts: Parts, *, limit_name: str) -> OrderDesk:
    """`limit_name` is that of the limit of mails: what members send does not use up the operator's."""
    database, clock, settings = parts.database, parts.clock, parts.settings
    actions = OrderActions(database, parts.card_gateways, clock, settings, parts.notifier)
    parts_of_page = (database, parts.dashboard.layout, actions, parts.render_certificate, parts.render_invoice)
    return OrderDesk(*parts_of_page, clock=clock, settings=settings, limit_name=limit_name)
