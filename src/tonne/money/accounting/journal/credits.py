"""What delivered credits cost, for lots whose cost per tonne is known."""

from tonne.money.accounting.journal.model import JournalSource
from tonne.money.accounting.journal.model import LedgerAccount as To

# The credits that an order had when it became complete. Some may have been replaced since.
DELIVERED = JournalSource(
    "delivered",
    "Cost of the credits of a complete order",
    f"""
    SELECT used.mode, used.at, used.order_id AS source_id, used.order_id AS subject, used.organisation_id,
           used.currency, posting.account, posting.amount_minor
    FROM (
        SELECT share.mode, orders.status_changed_at AS at, orders.id AS order_id, share.organisation_id,
               lot.cost_currency AS currency,
               round(sum(share.quantity_grams::numeric * lot.unit_cost_minor) / 1000000)::bigint AS cost_minor
        FROM (
            SELECT account_id, order_id, mode, parcel_id, organisation_id, quantity_grams, assigned_at,
                   NULL AS replaced_at
            FROM shares
            UNION ALL
            SELECT account_id, order_id, mode, parcel_id, organisation_id, quantity_grams, NULL, replaced_at
            FROM replaced_shares
        ) AS share
        JOIN orders ON orders.account_id = share.account_id AND orders.id = share.order_id
        JOIN parcels parcel ON parcel.mode = share.mode AND parcel.id = share.parcel_id
        JOIN lots lot ON lot.mode = parcel.mode AND lot.id = parcel.lot_id
        WHERE orders.status = 'complete' AND lot.unit_cost_minor IS NOT NULL
          AND (share.assigned_at IS NULL OR share.assigned_at <= orders.status_changed_at)
          AND (share.replaced_at IS NULL OR share.replaced_at > orders.status_changed_at)
        GROUP BY share.mode, orders.status_changed_at, orders.id, share.organisation_id, lot.cost_currency
    ) AS used
    CROSS JOIN LATERAL (VALUES
        ('{To.COST_OF_CREDITS}', used.cost_minor),
        ('{To.CREDITS}', -used.cost_minor)
    ) AS posting (account, amount_minor)
    """,  # noqa: S608 - made of our own constants
)
# Credits of a complete order that took the place of invalid ones. Those stay an expense.
RESUPPLIED = JournalSource(
    "resupplied",
    "Cost of credits that replace invalid ones",
    f"""
    SELECT used.mode, used.at, used.source_id, used.order_id AS subject, used.organisation_id, used.currency,
           posting.account, posting.amount_minor
    FROM (
        SELECT share.mode, share.assigned_at AS at, orders.id AS order_id, share.organisation_id,
               lot.cost_currency AS currency,
               share.order_id || ':' || share.line_position || ':' || share.parcel_id AS source_id,
               round(share.quantity_grams::numeric * lot.unit_cost_minor / 1000000)::bigint AS cost_minor
        FROM shares share
        JOIN orders ON orders.account_id = share.account_id AND orders.id = share.order_id
        JOIN parcels parcel ON parcel.mode = share.mode AND parcel.id = share.parcel_id
        JOIN lots lot ON lot.mode = parcel.mode AND lot.id = parcel.lot_id
        WHERE orders.status = 'complete' AND lot.unit_cost_minor IS NOT NULL
          AND share.assigned_at > orders.status_changed_at
    ) AS used
    CROSS JOIN LATERAL (VALUES
        ('{To.COST_OF_CREDITS}', used.cost_minor),
        ('{To.CREDITS}', -used.cost_minor)
    ) AS posting (account, amount_minor)
    """,  # noqa: S608 - made of our own constants
)
CREDITS = (DELIVERED, RESUPPLIED)
