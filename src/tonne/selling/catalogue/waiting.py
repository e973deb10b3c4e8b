"""What `tonne doctor` warns of."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from tonne.platform.db.queues import Topic, WaitingCheck
from tonne.platform.settings.settings import Settings


def _times(settings: Settings, now: datetime) -> Sequence[object]:
    """Warns before the rate expires, so that no order has to wait."""
    return now, now - timedelta(days=settings.rate_max_age_days) * 3 / 4


WAITING = (
    WaitingCheck(
        "live accounts have a recent exchange rate",
        "An exchange rate is missing or gets old. Live orders wait if it is older than TONNE_RATE_MAX_AGE_DAYS.",
        "Import a new rate with `tonne catalogue import`: a line in exchange_rates.csv.",
        """
        SELECT format('%s to %s: %s', catalogues.currency, quotes.currency,
                      coalesce('the newest rate is of ' || to_char(newest.as_of, 'YYYY-MM-DD'), 'there is no rate'))
               AS "where"
        FROM catalogues
        JOIN (SELECT DISTINCT accounts.mode, accounts.currency FROM accounts) quotes
          ON quotes.mode = catalogues.mode AND quotes.currency <> catalogues.currency
        CROSS JOIN LATERAL (
            SELECT max(exchange_rates.as_of) AS as_of FROM exchange_rates
            WHERE exchange_rates.mode = catalogues.mode AND exchange_rates.base = catalogues.currency
              AND exchange_rates.quote = quotes.currency AND exchange_rates.as_of <= $1
        ) newest
        WHERE catalogues.mode = 'live' AND (newest.as_of IS NULL OR newest.as_of < $2)
        ORDER BY newest.as_of NULLS FIRST, quotes.currency
        """,
        _times,
        topic=Topic.RATES,
    ),
    WaitingCheck(
        "scheduled live prices are applied within an hour",
        "A scheduled price of a bundle is not applied: no worker is running, or the worker cannot apply it.",
        "Start a worker with `tonne worker`. Otherwise its log says why, at `price_change_not_applied`.",
        """
        SELECT format('price change %s of bundle %s, due at %s', id, bundle_id,
                      to_char(starts_at, 'YYYY-MM-DD HH24:MI')) AS "where"
        FROM price_changes
        WHERE mode = 'live' AND starts_at < $1::timestamptz - interval '1 hour' AND next_attempt_at IS NOT NULL
        ORDER BY starts_at, id
        """,
        topic=Topic.RATES,
    ),
)
