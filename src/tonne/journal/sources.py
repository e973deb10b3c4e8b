"""All kinds of business events that are booked."""

from tonne.journal.card_payments import CAPTURED, PAID_OUT, REFUNDED
from tonne.journal.sales import CANCELLED, COMPLETED, CREDITED, INVOICED

SOURCES = (INVOICED, CREDITED, CAPTURED, REFUNDED, PAID_OUT, COMPLETED, CANCELLED)
