"""The job that sends the mails of the outbox, with retries, by several lanes."""

import asyncio
import re
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

import asyncpg
import structlog
from msgspec import Struct

from tonne.platform.db.batches import run_leased
from tonne.platform.db.database import Connection, Database
from tonne.platform.db.errors import is_database_unavailable
from tonne.platform.documents.mail.gateway import MailGateway, MailRefused, MailServerAway
from tonne.platform.documents.mail.lanes import Lanes
from tonne.platform.documents.mail.outbox import AWAY, Urgency, without_attachments
from tonne.platform.documents.mail.stored_files import ReadFile, with_files
from tonne.platform.events.notification import Notification
from tonne.platform.process.telemetry import tracing
from tonne.platform.process.telemetry.instruments import Combine, CounterFamily, GaugeFamily, Metric
from tonne.platform.process.telemetry.spans import SpanKind
from tonne.platform.settings.settings import Settings

# Minutes between attempts, almost two days in total. The first pauses get past greylisting, the last past a day of
# downtime. After the last one there is one more attempt.
PAUSES_MIN = (1, 5, 15, 60, 180, 360, 720, 1440)
# The longest time for one mail. A claimed mail is given back unless its lease lasts longer than that.
SEND_S = 90.0
LEASE = timedelta(minutes=3)
# How long a mail may wait if its notification is lost.
POLL_S = 1.0

_log = structlog.get_logger()

# Each urgency by its own search, so that none reads past the mails of another that are not due yet.
CLAIM = """
WITH due AS MATERIALIZED (
    SELECT id, created_at, due_at FROM generate_series(0, $1::int) AS level (urgency) CROSS JOIN LATERAL (
        SELECT id, created_at, next_attempt_at AS due_at FROM mails
        WHERE sent_at IS NULL AND mails.urgency = level.urgency AND next_attempt_at <= statement_timestamp()
        ORDER BY next_attempt_at LIMIT $2 FOR UPDATE SKIP LOCKED
    ) AS found ORDER BY level.urgency, due_at LIMIT $2
)
UPDATE mails SET lease_token = lease_token + 1, next_attempt_at = clock_timestamp() + $3::interval
FROM due WHERE mails.id = due.id AND mails.created_at = due.created_at
RETURNING mails.id, mails.created_at, recipients, message, attempts, lease_token, urgency, due_at
"""


async def claim_mails(connection: Connection, least: Urgency, limit: int) -> list[asyncpg.Record]:
    """Those that are at least so urgent, the most urgent ones first."""
    rows = await connection.fetch(CLAIM, least, limit, LEASE)
    return sorted(rows, key=lambda mail: (mail["urgency"], mail["due_at"]))


# With `created_at`, which is the partition key: otherwise the statements would look in all partitions.
SETTLE_SENT = """
UPDATE mails SET sent_at = clock_timestamp(), attempts = attempts + 1, last_error = NULL,
                 message = coalesce(sent.message, mails.message)
FROM unnest($1::text[], $2::timestamptz[], $3::bigint[], $4::bytea[]) AS sent (id, created_at, token, message)
WHERE mails.id = sent.id AND mails.created_at = sent.created_at AND lease_token = token
RETURNING mails.id
"""


async def _settle_sent(connection: Connection, mails: Sequence[asyncpg.Record]) -> set[str]:
    """Returns the ids of those whose lease was not lost. Another worker sends the others again."""
    # Null for those that stay as they are: they are not stored again.
    messages = [None if (kept := without_attachments(mail["message"])) is mail["message"] else kept for mail in mails]
    return {row["id"] for row in await connection.fetch(SETTLE_SENT, *_keys(mails), messages)}


SETTLE_REFUSED = """
UPDATE mails SET last_error = $4, attempts = attempts + 1, next_attempt_at = clock_timestamp() + $5::interval,
                 recipients = $6
WHERE id = $1 AND created_at = $2 AND lease_token = $3
"""


async def _settle_refused(connection: Connection, mail: asyncpg.Record, refused: MailRefused, left: list[str]) -> bool:
    """Schedule the next attempt for the recipients that are left, or give up. Returns whether it gave up."""
    given_up = _is_given_up(mail, refused)
    pause = None if given_up else timedelta(minutes=PAUSES_MIN[mail["attempts"]])
    key = (mail["id"], mail["created_at"], mail["lease_token"])
    await connection.execute(SETTLE_REFUSED, *key, str(refused)[:500], pause, left)
    return given_up


# Due since when they were before: how long they have been waiting is the truth.
RELEASE = """
UPDATE mails SET next_attempt_at = due_at, last_error = coalesce($5, last_error)
FROM unnest($1::text[], $2::timestamptz[], $3::bigint[], $4::timestamptz[]) AS given (id, created_at, token, due_at)
WHERE mails.id = given.id AND mails.created_at = given.created_at AND lease_token = token
"""


async def _release(connection: Connection, mails: Sequence[asyncpg.Record], error: str | None = None) -> None:
    """Give claimed mails back, as if they had not been claimed."""
    await connection.execute(RELEASE, *_keys(mails), [mail["due_at"] for mail in mails], error)


def _keys(mails: Sequence[asyncpg.Record]) -> tuple[list[object], ...]:
    return tuple([mail[name] for mail in mails] for name in ("id", "created_at", "lease_token"))


def _is_given_up(mail: asyncpg.Record, refused: MailRefused) -> bool:
    return refused.final or mail["attempts"] >= len(PAUSES_MIN)


def _without_addresses(text: str, recipients: list[str]) -> str:
    """Mail servers repeat the address. Logs must not contain it."""
    for recipient in recipients:
        text = re.sub(re.escape(recipient), "(recipient)", text, flags=re.IGNORECASE)
    return text


class _Answer(Struct, frozen=True):
    mail: asyncpg.Record
    refused: MailRefused | None
    # The recipients that have not got it and may get it later.
    left: list[str]
    seconds: float

    @property
    def is_away(self) -> bool:
        return isinstance(self.refused, MailServerAway)

    @property
    def outcome(self) -> str:
        if self.refused is None:
            return "sent"
        if self.is_away:
            return "away"
        return "failed" if _is_given_up(self.mail, self.refused) else "retried"


class SendMails:
    """Runs in a worker. After a crash between sending and recording, at most one mail per lane is sent again."""

    def __init__(
        self,
        database: Database,
        gateway: MailGateway,
        settings: Settings,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self.gateway = gateway
        self._sender = settings.mail_from
        self._monotonic = monotonic
        # Reads the files that mails refer to: the package that stores them sets it.
        self.read_file: ReadFile | None = None
        self._lanes = Lanes(settings.mail_connections, monotonic)
        # Claimed mails without a lane, the most urgent first, and until when they may be begun.
        self._claimed: deque[asyncpg.Record] = deque()
        self._begin_until = 0.0
        self._sending: dict[asyncio.Task[_Answer], asyncpg.Record] = {}
        # Whether the last claim left mails that are due, and whether new ones may be due, which may be more urgent.
        self._are_more_due = False
        self._is_expected = True
        # Set when a mail is done, and by notifications.
        self.wake = asyncio.Event()
        self._outcomes = CounterFamily(
            "tonne_mails_total",
            "Attempts to send a mail: sent, retried, failed for good, lease_lost, away (no connection).",
            "outcome",
        )
        # An alert compares these two: an increase from nothing to one would not be seen.
        for outcome in ("sent", "away"):
            self._outcomes.of(outcome)

    @property
    def metrics(self) -> tuple[Metric, ...]:
        away = GaugeFamily(
            "tonne_mail_server_away",
            "1 while sending pauses because the mail server cannot be reached.",
            read=lambda: [((), float(self._lanes.is_away))],
            combine=Combine.MAX,
        )
        return self._outcomes, away

    def expect(self, _notification: Notification) -> None:
        self._is_expected = True

    async def run_once(self) -> bool:
        """Send due mails until one or more are done, and record those. False when there was none to send."""
        await self.gateway.close_idle()
        if not self._sending:
            self._is_expected = True
        try:
            while not await self._settle():
                await self._fill_lanes()
                if not self._sending:
                    return False
                await self._wait()
        except asyncio.CancelledError:
            for sending in self._sending:
                sending.cancel()
            self._sending.clear()
            raise
        return True

    async def _wait(self) -> None:
        """Until a mail is done, or others may be due."""
        try:
            async with asyncio.timeout(POLL_S):
                await self.wake.wait()
        except TimeoutError:
            self._is_expected = True
        self.wake.clear()

    async def _fill_lanes(self) -> None:
        if self._claimed and self._monotonic() > self._begin_until:
            await self._release_claimed()
        if not self._claimed and self._lanes.free(urgent=False) and (self._is_expected or self._are_more_due):
            self._are_more_due, self._is_expected = await self._claim(Urgency.BULK), False
        elif self._is_expected and self._lanes.free(urgent=True):
            # Only those that overtake the mails which are claimed or being sent.
            self._are_more_due, self._is_expected = True, await self._claim(Urgency.SIGN_IN)
        while self._claimed and self._lanes.free(urgent=_is_urgent(self._claimed[0])):
            mail = self._claimed.popleft()
            self._lanes.begin(urgent=_is_urgent(mail))
            task = asyncio.create_task(self._send(mail))
            self._sending[task] = mail
            task.add_done_callback(lambda _: self.wake.set())

    async def _claim(self, least: Urgency) -> bool:
        """Returns whether there may be more."""
        limit = self._lanes.free(urgent=least is Urgency.SIGN_IN) * self._lanes.per_lane
        now = self._monotonic()
        mails = await self._database.run(claim_mails, least, limit)
        if not self._claimed:
            self._begin_until = now + LEASE.total_seconds() - SEND_S
        self._claimed.extendleft(reversed(mails))
        return len(mails) == limit

    async def _send(self, mail: asyncpg.Record) -> _Answer:
        attributes = {"tonne.mail_id": mail["id"], "tonne.attempt": mail["attempts"] + 1}
        with tracing.span("send mail", SpanKind.CLIENT, attributes) as span:
            started = self._monotonic()
            refused: MailRefused | None = None
            left = list(mail["recipients"])
            try:
                async with asyncio.timeout(SEND_S):
                    message = mail["message"]
                    if self.read_file is not None:
                        message = await with_files(message, self.read_file)
                    left = await self.gateway.send(self._sender, left, message)
                if left:
                    refused = MailRefused(f"{len(left)} recipients were refused for now")
            except MailRefused as error:
                refused = error
            except TimeoutError:
                refused = MailRefused(f"the mail server took longer than {SEND_S:g} s")
            except Exception as error:  # noqa: BLE001 - a mail that breaks the gateway is retried like any other
                _log.exception("mail_gateway_failed", mail_id=mail["id"])
                refused = MailRefused(f"the mail gateway failed: {error!r}")
            answer = _Answer(mail, refused, left, self._monotonic() - started)
            span.set("tonne.outcome", answer.outcome)
            return answer

    async def _settle(self) -> bool:
        """Record what is done. False when nothing is."""
        answers = [task.result() for task in self._sending if task.done()]
        if not answers:
            return False
        self._sending = {task: mail for task, mail in self._sending.items() if not task.done()}
        for answer in answers:
            self._lanes.end(urgent=_is_urgent(answer.mail), seconds=answer.seconds, connected=not answer.is_away)
        await self._record([answer for answer in answers if answer.outcome == "sent"], self._record_sent)
        await self._record([answer for answer in answers if answer.outcome == "away"], self._record_away)
        for answer in answers:
            if answer.outcome in {"retried", "failed"}:
                await self._record([answer], self._record_refused)
        if self._lanes.is_away:
            await self._release_claimed()
        return True

    @staticmethod
    async def _record(answers: Sequence[_Answer], how: Callable[[Sequence[_Answer]], Awaitable[None]]) -> None:
        await run_leased(
            answers, how, failure_event="mail_not_settled", describe=lambda answer: {"mail_id": answer.mail["id"]}
        )

    async def _record_sent(self, answers: Sequence[_Answer]) -> None:
        settled = await self._database.run(_settle_sent, [answer.mail for answer in answers])
        for answer in answers:
            self._outcomes.inc("sent" if answer.mail["id"] in settled else "lease_lost")

    async def _record_away(self, answers: Sequence[_Answer]) -> None:
        reason = f"{AWAY}{answers[0].refused}"[:500]
        await self._database.run(_release, [answer.mail for answer in answers], reason)
        self._outcomes.of("away").inc(len(answers))
        _log.warning("mail_server_away", reason=reason)

    async def _record_refused(self, answers: Sequence[_Answer]) -> None:
        for answer in answers:
            mail, refused = answer.mail, answer.refused
            if refused is None:
                continue
            given_up = await self._database.run(_settle_refused, mail, refused, answer.left)
            self._outcomes.inc(answer.outcome)
            reason = _without_addresses(str(refused), mail["recipients"])
            attempts = mail["attempts"] + 1
            _log.warning("mail_refused", mail_id=mail["id"], attempts=attempts, given_up=given_up, reason=reason)

    async def _release_claimed(self) -> None:
        mails, self._claimed = list(self._claimed), deque()
        if mails:
            await self._database.run(_release, mails)

    async def drain(self) -> None:
        """Wait for the mails that are being sent, and give back those that are only claimed."""
        if self._sending:
            await asyncio.wait(self._sending)
        try:
            await self._settle()
            await self._release_claimed()
        except Exception as error:
            if not is_database_unavailable(error):
                raise
            _log.warning("mails_not_settled", error=repr(error))
        await self.gateway.close_idle(longer_than_s=0)


def _is_urgent(mail: asyncpg.Record) -> bool:
    return bool(mail["urgency"] == Urgency.SIGN_IN)
