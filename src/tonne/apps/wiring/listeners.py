"""Connects packages that call a later one: every process that changes orders does this at its start."""

from tonne.channels.checkout.link_counts.count_store import count_paid_links
from tonne.selling.orders.move_order import listen_for_paid_orders


def connect_listeners() -> None:
    listen_for_paid_orders(count_paid_links)
