"""The queues that the metrics report on, from the database."""

from tonne.channels.checkout.waiting import QUEUES as CHECKOUT_QUEUES
from tonne.channels.webhooks.waiting import QUEUES as WEBHOOK_QUEUES
from tonne.money.cards.waiting import QUEUES as CHARGE_QUEUES
from tonne.money.invoices.waiting import QUEUES as INVOICE_QUEUES
from tonne.money.refunds.waiting import QUEUES as REFUND_QUEUES
from tonne.platform.documents.mail.waiting import QUEUES as MAIL_QUEUES
from tonne.selling.accounts.waiting import QUEUES as KEY_QUEUES
from tonne.selling.orders.waiting import QUEUES as ORDER_QUEUES
from tonne.supply.retirements.waiting import QUEUES as RETIREMENT_QUEUES
from tonne.supply.transparency.waiting import QUEUES as LOG_QUEUES

ALL_QUEUES = (
    *(*MAIL_QUEUES, *ORDER_QUEUES, *CHARGE_QUEUES, *REFUND_QUEUES, *INVOICE_QUEUES),
    *(*LOG_QUEUES, *RETIREMENT_QUEUES, *WEBHOOK_QUEUES, *CHECKOUT_QUEUES, *KEY_QUEUES),
)
