"""The queues of checkouts, and what `tonne doctor` warns of."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from tonne.money.cards.gateways.metered_gateway import takes_cards
from tonne.platform.db.queues import Queue, Topic, WaitingCheck, queue_of
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode
from tonne.selling.accounts.tax.tax_rates import SHIPPED_ON


def _due_at(name: str, column: str) -> Queue:
    """Only those that are due: a checkout waits for its customer first."""
    return queue_of(name, f"checkouts WHERE {column} <= now() ORDER BY {column}", since=column, due=column)


QUEUES = (_due_at("checkouts", "next_close_at"), _due_at("certificate_mails", "next_mail_at"))


def _modes_without_gateway(settings: Settings, now: datetime) -> Sequence[object]:
    return now, [mode for mode in Mode if not takes_cards(settings, mode)]


# Rates change with the year, and rarely within it.
OLDEST_RATES = timedelta(days=200)


def _countries_of_old_rates(settings: Settings, now: datetime) -> Sequence[object]:
    return settings.tax_by_country, SHIPPED_ON, now - OLDEST_RATES


WAITING = (
    WaitingCheck(
        "the rates of tax by country are up to date",
        "Consumers pay the tax of their country, at rates that nobody has imported for 200 days.",
        "Compare them with those of the countries and import them: Settings, Books, or `tonne tax rates import`.",
        """
        SELECT format('imported on %s', newest.day) AS "where"
        FROM (SELECT greatest($2::date, max(imported_at AT TIME ZONE 'UTC')::date) AS day FROM tax_rates) AS newest
        WHERE $1 = 'consumers' AND newest.day < $3::timestamptz::date
        """,
        _countries_of_old_rates,
        topic=Topic.PAYMENTS,
    ),
    WaitingCheck(
        "the card of a consumer is from the country that was given",
        "An order has the tax of the country that its customer named, and the card is from another one.",
        "Ask the customer where they live. If the tax is wrong, refund the order with `tonne order refund`: a credit "
        "note corrects it.",
        """
        SELECT format('order %s: %s was given, the card is from %s', buyer.order_id, buyer.taxed_in,
                      charges.card_country) AS "where"
        FROM order_buyers buyer
        JOIN orders ON orders.account_id = buyer.account_id AND orders.id = buyer.order_id
        JOIN charges ON charges.account_id = buyer.account_id AND charges.order_id = buyer.order_id
        WHERE charges.card_country <> buyer.taxed_in AND charges.status = 'captured' AND orders.mode = 'live'
          AND orders.created_at > $1::timestamptz - interval '100 days'
        ORDER BY buyer.order_id
        """,
        topic=Topic.PAYMENTS,
    ),
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
