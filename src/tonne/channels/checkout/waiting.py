"""The queues of checkouts, and what `tonne doctor` warns of."""

from collections.abc import Sequence
from datetime import datetime

from tonne.money.cards.gateways.metered_gateway import takes_cards
from tonne.platform.db.queues import Queue, Topic, WaitingCheck, queue_of
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode


def _due_at(name: str, column: str) -> Queue:
    """Only those that are due: a checkout waits for its customer first."""
    return queue_of(name, f"checkouts WHERE {column} <= now() ORDER BY {column}", since=column, due=column)


QUEUES = (_due_at("checkouts", "next_close_at"), _due_at("certificate_mails", "next_mail_at"))


def _modes_without_gateway(settings: Settings, now: datetime) -> Sequence[object]:
    return now, [mode for mode in Mode if not takes_cards(settings, mode)]


WAITING = (
    WaitingCheck(
        "all open offset links can be paid",
        "There is no card gateway for live mode, so people see a closed page.",
        "Set TONNE_STRIPE_SECRET_KEY, or run `tonne link disable`.",
        """
        SELECT format('link %s of account %s', id, account_id) AS "where"
        FROM offset_links
        WHERE mode = ANY ($2::text[]) AND enabled AND (expires_at IS NULL OR expires_at > $1::timestamptz)
        ORDER BY created_at, id
        """,
        _modes_without_gateway,
        topic=Topic.PAYMENTS,
    ),
)
