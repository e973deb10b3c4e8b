from tonne.db.invariant import Invariant
from tonne.orders.model import EVENT_TYPES, PAYMENT_UPDATED, TRANSITIONS, OrderStatus

# The transitions of the table as SQL values: '' is the event before a new order's first.
_MOVES = ", ".join(
    [f"('', '{EVENT_TYPES[OrderStatus.RECEIVED]}')"]
    + [f"('{EVENT_TYPES[before]}', '{EVENT_TYPES[after]}')" for before, after in TRANSITIONS]
)
_STATUSES = ", ".join(f"('{status}', '{event_type}')" for status, event_type in EVENT_TYPES.items())

INVARIANTS = (
    Invariant(
        "an order's events follow the transition table",
        "An order made a transition that does not exist, or an event is missing or duplicated.",
        f"""
        SELECT format('order %s of account %s: %s after %s', subject_id, account_id, event_type,
                      coalesce(nullif(before, ''), 'nothing')) AS "where"
        FROM (SELECT account_id, subject_id, event_type,
                     coalesce(lag(event_type) OVER (PARTITION BY account_id, subject_id ORDER BY position), '')
                         AS before
              FROM events WHERE event_type LIKE 'order.%' AND event_type <> '{PAYMENT_UPDATED}') steps
        WHERE (before, event_type) NOT IN (VALUES {_MOVES})
        """,  # noqa: S608 - made of our own table
    ),
    Invariant(
        "an order's last event matches its status",
        "An order changed its status without an event, or an event was written without the change.",
        f"""
        SELECT format('order %s of account %s is %s, its last event is %s', orders.id, orders.account_id, orders.status,
                      coalesce(last.event_type, 'missing')) AS "where"
        FROM orders
        LEFT JOIN (SELECT DISTINCT ON (account_id, subject_id) account_id, subject_id, event_type FROM events
                   WHERE event_type <> '{PAYMENT_UPDATED}'
                   ORDER BY account_id, subject_id, position DESC) last
          ON (last.account_id, last.subject_id) = (orders.account_id, orders.id)
        WHERE (orders.status, coalesce(last.event_type, '')) NOT IN (VALUES {_STATUSES})
        """,  # noqa: S608 - made of our own table
    ),
    Invariant(
        "lines sum to their order, in grams and in money",
        "The lines of an order do not add up to its totals.",
        """
        SELECT format('order %s of account %s: %s of %s g, %s of %s minor units', orders.id, orders.account_id,
                      sum(line.quantity_grams), orders.quantity_grams, sum(line.offset_cost_minor),
                      orders.offset_cost_minor) AS "where"
        FROM orders LEFT JOIN order_lines line ON (line.account_id, line.order_id) = (orders.account_id, orders.id)
        GROUP BY orders.account_id, orders.id
        HAVING sum(line.quantity_grams) IS DISTINCT FROM orders.quantity_grams
            OR sum(line.offset_cost_minor) IS DISTINCT FROM orders.offset_cost_minor
        """,
    ),
    Invariant(
        "an order's JSON matches its columns",
        "The stored JSON of an order differs from its columns: clients would see wrong data.",
        """
        SELECT format('order %s of account %s', id, account_id) AS "where"
        FROM orders, LATERAL (SELECT convert_from(wire_document, 'UTF8')::json AS shown) AS document
        WHERE (shown ->> 'status', shown ->> 'id', shown ->> 'idempotency_key', (shown -> 'metadata')::text,
               (shown ->> 'created_at')::timestamptz)
              IS DISTINCT FROM (status, id, idempotency_key, metadata, created_at)
        """,
    ),
)
