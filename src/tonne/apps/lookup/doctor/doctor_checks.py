"""What waits too long, of all packages: for `tonne doctor` and for the operator's page Today."""

from tonne.apps.privacy.retention.waiting import WAITING as RETENTION_WAITING
from tonne.apps.privacy.waiting import WAITING as PERSONS_WAITING
from tonne.channels.checkout.links.domain_waiting import WAITING as SITE_WAITING
from tonne.channels.checkout.waiting import WAITING as CHECKOUTS_WAITING
from tonne.channels.webhooks.waiting import WAITING as WEBHOOKS_WAITING
from tonne.money.cards.waiting import WAITING as PAYMENTS_WAITING
from tonne.money.invoices.waiting import WAITING as INVOICES_WAITING
from tonne.money.refunds.waiting import WAITING as REFUNDS_WAITING
from tonne.platform.db.queues import WAITING as HOLD_WAITING
from tonne.platform.db.schema.partitions import WAITING as PARTITIONS_WAITING
from tonne.platform.db.server.clock_drift import WAITING as CLOCK_WAITING
from tonne.platform.documents.mail.waiting import WAITING as MAILS_WAITING
from tonne.selling.accounts.waiting import WAITING as KEYS_WAITING
from tonne.selling.catalogue.waiting import WAITING as CATALOGUE_WAITING
from tonne.selling.orders.waiting import WAITING as ORDERS_WAITING
from tonne.supply.registries.waiting import WAITING as REGISTRIES_WAITING
from tonne.supply.retirements.waiting import WAITING as RETIREMENTS_WAITING
from tonne.supply.transparency.waiting import WAITING as LOG_WAITING

ALL_WAITING = (
    *HOLD_WAITING,
    *CLOCK_WAITING,
    *PARTITIONS_WAITING,
    *RETENTION_WAITING,
    *CATALOGUE_WAITING,
    *KEYS_WAITING,
    *MAILS_WAITING,
    *ORDERS_WAITING,
    *PAYMENTS_WAITING,
    *INVOICES_WAITING,
    *REFUNDS_WAITING,
    *LOG_WAITING,
    *RETIREMENTS_WAITING,
    *REGISTRIES_WAITING,
    *WEBHOOKS_WAITING,
    *CHECKOUTS_WAITING,
    *PERSONS_WAITING,
    *SITE_WAITING,
)
