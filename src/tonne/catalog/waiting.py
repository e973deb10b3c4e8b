"""What `tonne doctor` warns of."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from tonne.base.settings import Settings
from tonne.db.waiting_check import WaitingCheck


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
    ),
)
