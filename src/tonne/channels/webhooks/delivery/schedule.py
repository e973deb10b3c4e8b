"""Limits of delivery and the back-off after failures."""

import random
import re
from datetime import UTC, timedelta
from email.utils import parsedate_to_datetime

# The pauses between attempts. The last one repeats without end: an event is never dropped.
BACKOFF_S = (1, 2, 5, 15, 30, 60, 120, 300, 600, 1800, 3600)
# Each pause is longer or shorter by up to this share.
SPREAD = 0.2
# How often the first event, sent alone, is refused before Tonne probes other accounts.
REFUSALS_BEFORE_PARKING = 5
# How many accounts a turn probes, and after how many requests without a response it stops.
PROBES = 20
MAX_UNANSWERED = 3
# Admins get a mail when a receiver has been failing for this long, and a second mail.
ALERT_AFTER = (timedelta(hours=1), timedelta(hours=24))

MAX_BATCH = 100
MAX_BATCH_BYTES = 512 * 1024
# After so many batches, the webhook is released if others may wait: a long backlog must not delay them.
BATCHES_PER_CLAIM = 10


_SECONDS = re.compile(r"[0-9]{1,12}", re.ASCII)


def pause_after(failures: int, time_scale: float, retry_after_s: float = 0.0) -> timedelta:
    """The pause after so many failures in a row, with jitter so that receivers are not all retried at once.

    At least as long as the receiver asks for, up to the longest back-off: a wrong header must not stop deliveries.
    """
    seconds = BACKOFF_S[min(failures, len(BACKOFF_S)) - 1] * time_scale
    seconds *= random.uniform(1 - SPREAD, 1 + SPREAD)  # noqa: S311 - no secret
    return timedelta(seconds=max(seconds, min(retry_after_s, BACKOFF_S[-1] * time_scale)))


def parse_retry_after(text: str, now: float) -> float:
    """The seconds that a `Retry-After` header asks to wait: a number, or an HTTP date. 0 if it has neither."""
    text = text.strip()
    if _SECONDS.fullmatch(text):
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, IndexError, TypeError, OverflowError):
        return 0.0
    # A date without a zone is in UTC.
    return max(0.0, (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - now)
