"""Limits of delivery and the back-off after failures."""

import random
from datetime import timedelta

# The last pause repeats without end: an event is never dropped.
BACKOFF_S = (1, 2, 5, 15, 30, 60, 120, 300, 600, 1800, 3600)
SPREAD = 0.2
# After so many refusals of a single event, sent alone, Tonne probes other accounts: so many of them in one turn, but no
# more after so many requests without a response.
REFUSALS_BEFORE_PARKING = 5
PROBES = 20
MAX_UNANSWERED = 3
# Admins get a mail when a receiver has been failing for this long, and a second mail.
ALERT_AFTER = (timedelta(hours=1), timedelta(hours=24))

MAX_BATCH = 100
MAX_BATCH_BYTES = 512 * 1024
# Then the webhook is released if others may wait, so that a long backlog does not delay them.
BATCHES_PER_CLAIM = 10


def pause_after(failures: int, time_scale: float) -> timedelta:
    """The pause after so many failures in a row, with jitter so that receivers are not all retried at once."""
    seconds = BACKOFF_S[min(failures, len(BACKOFF_S)) - 1]
    return timedelta(seconds=seconds * time_scale * random.uniform(1 - SPREAD, 1 + SPREAD))  # noqa: S311 - no secret
