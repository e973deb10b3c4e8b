"""The queues of retirements, and what `tonne doctor` warns of."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from tonne.platform.db.queues import MAX_COUNTED, Queue, Topic, WaitingCheck, queue_of
from tonne.platform.settings.settings import Settings
from tonne.supply.retirements.confirmations.work_list import IS_HELD


def _retirement_times(settings: Settings, now: datetime) -> Sequence[object]:
    return now, timedelta(days=settings.retirement_days)


QUEUES = (
    # For the operator: no job retires credits at a registry.
    Queue(
        "retirements",
        f"""
        SELECT modes.mode, waiting.depth, waiting.since, NULL::timestamptz AS due
        FROM (VALUES ('live'), ('test')) AS modes (mode)
        CROSS JOIN LATERAL (
            SELECT count(*) AS depth, min(opened_at) AS since
            FROM (SELECT parcels.opened_at FROM parcels
                  WHERE parcels.mode = modes.mode AND parcels.status = 'to_retire'
                  ORDER BY parcels.opened_at LIMIT {MAX_COUNTED}) AS each
        ) AS waiting
        """,  # noqa: S608 - a number
    ),
    queue_of("pooled_units", "parcels WHERE status = 'open' ORDER BY close_at", since="opened_at", due="close_at"),
)
WAITING = (
    WaitingCheck(
        "live certificates of invalid lots are decided about",
        "A certificate states credits of a lot that was invalidated.",
        "Decide for each order with `tonne lot resolve LOT --order ORDER`: `--resupply` for other credits and a new "
        "certificate, or `--withdraw`. `tonne lot show` lists them.",
        """
        SELECT format('lot %s, order %s of account %s: certificate %s, since %s', lot_id, order_id, account_id,
                      coalesce(certificate_number, '-'), to_char(opened_at, 'YYYY-MM-DD HH24:MI')) AS "where"
        FROM lot_cases WHERE mode = 'live' AND state = 'undecided' AND opened_at <= $1 ORDER BY opened_at, order_id
        """,
        topic=Topic.SUPPLY,
    ),
    WaitingCheck(
        "live orders of invalid lots get other credits within an hour",
        "An order lost its credits with an invalid lot, and there are not enough others of its bundles.",
        "Buy credits and import them with `tonne catalogue import-lots`. The orders then get them automatically.",
        """
        SELECT format('lot %s, order %s of account %s: %s t, since %s', lot_id, order_id, account_id,
                      trim_scale(quantity_grams / 1000000.0), to_char(opened_at, 'YYYY-MM-DD HH24:MI')) AS "where"
        FROM lot_cases WHERE mode = 'live' AND state = 'resupply' AND opened_at < $1::timestamptz - interval '1 hour'
        ORDER BY opened_at, order_id
        """,
        topic=Topic.SUPPLY,
    ),
    WaitingCheck(
        "live certificates of invalid lots are replaced by the day that the order shows",
        "A certificate is withdrawn until other credits are retired, and that takes longer than the customer was told.",
        "Retire the credits at their registries and import the confirmations with `tonne retirement import`. If a "
        "further lot of the order is invalid, decide about it with `tonne lot resolve`.",
        """
        SELECT DISTINCT format('order %s of account %s, expected on %s', orders.id, orders.account_id,
                               orders.certificate_due_on) AS "where"
        FROM lot_cases lot_case
        JOIN orders ON orders.account_id = lot_case.account_id AND orders.id = lot_case.order_id
        WHERE lot_case.mode = 'live' AND lot_case.state = 'retiring'
          AND orders.certificate_due_on < ($1::timestamptz AT TIME ZONE 'UTC')::date
        ORDER BY 1
        """,
        topic=Topic.RETIREMENTS,
    ),
    WaitingCheck(
        "live units are closed at the end of their waiting time",
        "A pooled unit should have been put on the work list an hour ago. Perhaps no worker is running.",
        "Start a worker with `tonne worker`, or close the unit with `tonne unit close`.",
        """
        SELECT format('unit %s of project %s, closing date %s', id, project_id,
                      to_char(close_at, 'YYYY-MM-DD HH24:MI')) AS "where"
        FROM parcels WHERE mode = 'live' AND status = 'open' AND close_at < $1::timestamptz - interval '1 hour'
        ORDER BY close_at
        """,
        topic=Topic.RETIREMENTS,
    ),
    WaitingCheck(
        "paid live orders get supply within a day",
        "An order is paid, but there are not enough credits of the projects in its bundles.",
        "Buy credits and import them with `tonne catalogue import-lots`. Waiting orders are then served, oldest first.",
        """
        SELECT format('order %s of account %s: %s t, paid at %s', id, account_id,
                      trim_scale(quantity_grams / 1000000.0), to_char(status_changed_at, 'YYYY-MM-DD HH24:MI'))
               AS "where"
        FROM orders WHERE mode = 'live' AND status = 'paid' AND next_attempt_at IS NOT NULL
          AND greatest(status_changed_at, fulfil_after) < $1::timestamptz - interval '1 day'
        ORDER BY status_changed_at
        """,
        topic=Topic.ORDERS,
        # Most orders that are paid just now get their credits within seconds: Today shows those that wait for an hour,
        # like the list of stuck orders.
        patience=timedelta(hours=23),
    ),
    WaitingCheck(
        "live retirements are confirmed within TONNE_RETIREMENT_DAYS",
        "Credits of customers are not retired yet, or the retirement was not confirmed here.",
        "Write the list with `tonne retirement export --mode live`, retire the credits at their registries, and import "
        "the confirmations with `tonne retirement import`.",
        # A unit in the service's name is ready since it was closed, any other parcel since its last order got a share.
        f"""
        SELECT format('parcel %s: %s t of project %s', parcel.id, trim_scale(parcel.quantity_grams / 1000000.0),
                      parcel.project_id) AS "where"
        FROM parcels parcel
        CROSS JOIN LATERAL (
            SELECT CASE WHEN parcel.in_service_name THEN parcel.closed_at
                   ELSE max(orders.status_changed_at) END AS since
            FROM shares share
            JOIN orders ON orders.account_id = share.account_id AND orders.id = share.order_id
            WHERE share.mode = parcel.mode AND share.parcel_id = parcel.id
        ) ready
        WHERE parcel.mode = 'live' AND parcel.status = 'to_retire' AND NOT {IS_HELD}
          AND ready.since < $1::timestamptz - $2::interval
        ORDER BY ready.since
        """,  # noqa: S608 - a constant
        _retirement_times,
        topic=Topic.RETIREMENTS,
    ),
    WaitingCheck(
        "no pooled live unit is retired within three days with a rest that nobody bought",
        "A unit is still partly unsold. When its waiting time ends it is retired whole, in the service's name, and the "
        "rest serves later orders.",
        "Nothing has to be done. To wait longer from the next unit on, raise TONNE_POOL_WAIT_DAYS. After the deadline, "
        "the unit is in `tonne retirement list --mode live`.",
        """
        SELECT format('parcel %s of project %s: %s of %s kg bought, closes at %s', id, project_id,
                      allocated_grams / 1000, quantity_grams / 1000, to_char(close_at, 'YYYY-MM-DD HH24:MI')) AS "where"
        FROM parcels WHERE mode = 'live' AND status = 'open' AND close_at < $1::timestamptz + interval '3 days'
        ORDER BY close_at
        """,
        topic=Topic.RETIREMENTS,
    ),
)
