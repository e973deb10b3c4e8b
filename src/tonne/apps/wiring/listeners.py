"""Connects packages that call a later one: every process that changes orders does this at its start."""

from tonne.channels.checkout.link_counts.count_store import count_paid_links
from tonne.money.invoices.issuing.due_document_store import request_documents
from tonne.money.invoices.issuing.joining_store import set_joining
from tonne.selling.orders.move_order import listen_for_paid_orders
from tonne.selling.orders.release_order import listen_for_released_orders


def connect_listeners() -> None:
    listen_for_paid_orders(request_documents, count_paid_links)
    listen_for_released_orders(set_joining)
