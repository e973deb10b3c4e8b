"""When to try again, as data."""

import random
from datetime import timedelta

# Then hourly, without end: an event is never dropped.
BACKOFF_S = (1, 2, 5, 15, 30, 60, 120, 300, 600, 1800, 3600)
SPREAD = 0.2
# A single event refused this often, alone, makes us look whether the receiver takes those of other accounts.
REFUSALS_BEFORE_PARKING = 5
# How long a receiver must have been failing before its organisation's admins get a mail: the first, and the second.
ALERT_AFTER = (timedelta(hours=1), timedelta(hours=24))

MAX_BATCH = 100
MAX_BATCH_BYTES = 512 * 1024


def pause_after(failures: int, time_scale: float) -> timedelta:
    """The pause after that many failures in a row, spread by a fifth so that receivers do not all come back at once."""
    seconds = BACKOFF_S[min(failures, len(BACKOFF_S)) - 1]
    return timedelta(seconds=seconds * time_scale * random.uniform(1 - SPREAD, 1 + SPREAD))  # noqa: S311 - no secret
