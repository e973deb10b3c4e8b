"""Buyers who lost the mail get the links of their orders again. The page only records the request, which takes the same
time for every address; a job looks it up. So nobody can learn from the answer, or from its time, who has bought here.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from email.message import EmailMessage
from itertools import groupby

import asyncpg
from msgspec import Struct, field

from tonne.platform.db.database import Connection, Database, scope_of
from tonne.platform.documents.mail.layout import button_lines, join_blocks, one_line
from tonne.platform.documents.mail.send_mail import compose_mail, is_mail_address
from tonne.platform.http.limits.rate_limit import TokenBuckets
from tonne.platform.http.route import Request, Response
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock, Mode, Scope
from tonne.platform.values.language import N_
from tonne.platform.web.render import FormGuard, Renderer
from tonne.platform.web.visitor import visitor_language
from tonne.platform.web.wording import wording_in
from tonne.selling.accounts.customer_mail import enqueue_customer_mail
from tonne.selling.orders.mails.order_links import LinkedOrder, order_urls

# Per network: 5 requests at once, then one every 5 minutes, as for passwords.
REQUESTS = 5
REQUESTS_PER_S = 1 / 300
# To one address, from any network. Further requests of the hour are dropped.
ANSWERS_PER_HOUR = 3
BATCH_ROWS = 20
# The newest orders of one seller. A mail with more links would be cut off.
MAX_ORDERS = 20
_TOO_MANY = N_("Too many requests from your network. Wait a few minutes, then try again.")
_INVALID = N_("Enter an e-mail address, such as ann@example.com.")


class FindOrdersPage(Struct, frozen=True):
    database: Database
    renderer: Renderer
    guard: FormGuard
    clock: Clock
    requests: TokenBuckets = field(default_factory=lambda: TokenBuckets("find_orders", REQUESTS_PER_S, REQUESTS))

    @property
    def limits(self) -> tuple[TokenBuckets, ...]:
        return (self.requests,)

    async def show(self, request: Request) -> Response:
        return self._page(request, "")

    async def ask(self, request: Request) -> Response:
        email = (self.guard.check(request).get("email") or [""])[0].strip().lower()
        if not is_mail_address(email):
            return self._page(request, email, fault=_INVALID)
        self.requests.require(request.limited_as, message=_TOO_MANY)
        await self.database.run(insert_request, email, visitor_language(request, "en").code, self.clock())
        return self._page(request, email, is_sent=True)

    def _page(self, request: Request, email: str, *, is_sent: bool = False, fault: str | None = None) -> Response:
        token, headers = self.guard.issue(request)
        return self.renderer.page(
            request,
            "find_orders.html",
            status=200 if fault is None else 422,
            headers=headers,
            form_token=token,
            email=email,
            is_sent=is_sent,
            fault=fault,
        )


INSERT_REQUEST = "INSERT INTO order_requests (email, language, created_at) VALUES ($1, $2, $3)"


async def insert_request(connection: Connection, email: str, language: str, now: datetime) -> None:
    await connection.execute(INSERT_REQUEST, email, language, now)


TAKE_REQUESTS = """
WITH old AS (DELETE FROM order_requests WHERE answered_at < $2)
UPDATE order_requests SET answered_at = $1
WHERE id IN (SELECT id FROM order_requests WHERE answered_at IS NULL ORDER BY id LIMIT $3 FOR UPDATE SKIP LOCKED)
RETURNING id, email, language
"""


async def take_requests(tx: Connection, now: datetime, since: datetime, limit: int) -> list[asyncpg.Record]:
    """Answered requests are kept for an hour, to count them, and removed with the next ones."""
    return await tx.fetch(TAKE_REQUESTS, now, since, limit)


COUNT_EARLIER = "SELECT count(*) FROM order_requests WHERE email = $1 AND answered_at >= $2 AND id < $3"


async def count_earlier(connection: Connection, row: asyncpg.Record, since: datetime) -> int:
    """Requests for the same address in the last hour, before this one."""
    count: int = await connection.fetchval(COUNT_EARLIER, row["email"], since, row["id"])
    return count


LIST_BOUGHT = """
SELECT account_id, id, organisation_id, mode, created_at, quantity_grams, merchant FROM (
    SELECT orders.account_id, orders.id, orders.organisation_id, orders.mode, orders.created_at, orders.quantity_grams,
           CASE WHEN accounts.kind = 'client_account' THEN accounts.name ELSE organisations.name END AS merchant,
           row_number() OVER (PARTITION BY orders.organisation_id, orders.mode
                              ORDER BY orders.created_at DESC, orders.id DESC) AS place
    FROM orders JOIN accounts ON accounts.id = orders.account_id
    JOIN organisations ON organisations.id = orders.organisation_id
    WHERE lower(orders.email) = $1 AND orders.offset_link_id IS NOT NULL
      AND orders.status IN ('paid', 'retiring', 'complete', 'cancelled')
) bought WHERE place <= $2 ORDER BY organisation_id, mode, place
"""


async def list_bought_any_account(connection: Connection, email: str, limit: int) -> list[asyncpg.Record]:
    """What was bought at checkouts with this address, by seller and newest first."""
    return await connection.fetch(LIST_BOUGHT, email, limit)


class MailOrderLinks(Struct, frozen=True):
    database: Database
    clock: Clock
    settings: Settings

    async def run_once(self) -> bool:
        """Answer one batch. Whether there was a request."""
        now = self.clock()
        since = now - timedelta(hours=1)
        async with self.database.transaction() as tx:
            rows = await take_requests(tx, now, since, BATCH_ROWS)
            for row in rows:
                if await count_earlier(tx, row, since) < ANSWERS_PER_HOUR:
                    await self._answer(tx, row["email"], row["language"], now)
        return bool(rows)

    async def _answer(self, tx: Connection, email: str, language: str, now: datetime) -> None:
        bought = await list_bought_any_account(tx, email, MAX_ORDERS)
        for _, group in groupby(bought, key=lambda row: (row["organisation_id"], row["mode"])):
            rows = list(group)
            orders = [LinkedOrder(scope_of(row), row["id"]) for row in rows]
            urls = await order_urls(tx, orders, settings=self.settings, now=now)
            message = compose_order_links(self.settings, email, language, rows, [urls[row["id"]] for row in rows])
            await enqueue_customer_mail(tx, _scope_of(rows), email, message)


def _scope_of(rows: Sequence[asyncpg.Record]) -> Scope:
    return scope_of(rows[0])


def compose_order_links(
    settings: Settings, email: str, language: str, rows: Sequence[asyncpg.Record], urls: Sequence[str | None]
) -> EmailMessage:
    wording = wording_in(language)
    _, is_test = wording.translate, rows[0]["mode"] == Mode.TEST
    buttons = [
        button_lines(
            f"{wording.day(row['created_at'])}, {wording.mass(row['quantity_grams'])}, {one_line(row['merchant'])}", url
        )
        for row, url in zip(rows, urls, strict=True)
    ]
    blocks = [
        _("You asked for the pages of your orders. Each has the certificate, the receipt and the state of the order."),
        *buttons,
        _("If you did not ask for it, ignore this mail: nobody else has received these links."),
    ]
    if len(rows) == MAX_ORDERS:
        blocks.insert(-1, _("These are your %(n)s newest orders.", n=str(MAX_ORDERS)))
    questions = _("Questions? Write to %(email)s", email=settings.seller_email) if settings.seller_email else ""
    return compose_mail(
        settings,
        [email],
        _("Your orders"),
        join_blocks(blocks),
        wording=wording,
        is_test=is_test,
        notice=_("This is a test. No money was charged and no credits were retired.") if is_test else None,
        closing=questions,
    )
