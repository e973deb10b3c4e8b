"""Mails are sent by several lanes, urgent ones first, and a mail server that is away costs no attempts."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import asyncpg
import pytest

from tests.support.clock import ManualClock
from tests.support.mail_server import Mailbox, mail_server
from tests.support.processes import free_port
from tests.support.receivers import listening
from tests.support.samples import parse_samples, total
from tests.support.world import TESTER
from tonne.platform.db.database import Database
from tonne.platform.documents.mail.lanes import FAILED_CONNECTS, PAUSE_S, RESERVED, Lanes
from tonne.platform.documents.mail.outbox import AWAY, Urgency
from tonne.platform.documents.mail.send_outbox import LEASE, SEND_S, SendMails
from tonne.platform.documents.mail.smtp import SmtpMail
from tonne.platform.events.notification import EVERYTHING
from tonne.platform.process.telemetry.metrics_text import render
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import replace, utc_now
from tonne.selling.users.create_user import create_user
from tonne.selling.users.links import send_password_reset
from tonne.selling.users.security_mails import PASSWORD_CHANGED, send_security_mail

LANES = 4
ADD = """
INSERT INTO mails (id, organisation_id, recipients, message, created_at, next_attempt_at, urgency)
SELECT 'mail_' || $1 || i, 'org_a', ARRAY[$1 || i || '@ours.test'], 'Subject: one', clock_timestamp(),
       clock_timestamp(), $3
FROM generate_series(1, $2::int) AS i
"""


async def add(db: Database, name: str, count: int, urgency: Urgency) -> None:
    async with db.connection() as connection:
        await connection.execute(ADD, name, count, urgency)


async def rows(db: Database) -> list[asyncpg.Record]:
    async with db.connection() as connection:
        return await connection.fetch(
            "SELECT attempts, last_error, sent_at IS NOT NULL AS sent, next_attempt_at <= clock_timestamp() AS due "
            "FROM mails ORDER BY id"
        )


async def count(db: Database, condition: str) -> int:
    async with db.connection() as connection:
        return int(await connection.fetchval(f"SELECT count(*) FROM mails WHERE {condition}"))  # noqa: S608 - of this file


@pytest.fixture
async def box() -> AsyncIterator[Mailbox]:
    async with mail_server() as box:
        yield box


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def mails(db: Database, settings: Settings, box: Mailbox, clock: ManualClock) -> SendMails:
    return sender(db, settings, box.url, clock)


def sender(db: Database, settings: Settings, url: str, clock: ManualClock) -> SendMails:
    return SendMails(db, SmtpMail(url), replace(settings, mail_connections=LANES), clock.monotonic)


@asynccontextmanager
async def working(mails: SendMails) -> AsyncIterator[asyncio.Task[None]]:
    """As the loop of the worker runs the job."""

    async def run() -> None:
        while True:
            if not await mails.run_once():
                await asyncio.sleep(0.01)

    task = asyncio.create_task(run())
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await mails.drain()


async def until(box: Mailbox, received: int) -> None:
    while len(box.mails) < received:  # noqa: ASYNC110 - as soon as it is so
        await asyncio.sleep(0.005)


async def test_a_sign_in_mail_overtakes_ten_thousand_invoices(db: Database, mails: SendMails, box: Mailbox) -> None:
    await add(db, "invoice", 10_000, Urgency.BULK)
    async with working(mails):
        await until(box, 20)
        await add(db, "login", 1, Urgency.SIGN_IN)
        # Invoices that were received while the sign-in mail was being added did not overtake it.
        before = len(box.mails)
        mails.expect(EVERYTHING)
        mails.wake.set()
        async with asyncio.timeout(60):
            while ["login1@ours.test"] not in box.recipients:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0)
        earlier = box.recipients.index(["login1@ours.test"]) - before
    assert earlier < 5 * LANES
    assert await count(db, "sent_at IS NULL") > 9_000


async def test_a_sign_in_mail_needs_no_notification(db: Database, mails: SendMails, box: Mailbox) -> None:
    """A notification may be lost. The lanes that are left to sign-in mails are free although all others wait."""
    box.slow = frozenset(f"invoice{number}@ours.test" for number in range(1, 101))
    box.release.clear()
    await add(db, "invoice", 100, Urgency.BULK)
    async with working(mails):
        await box.holding.wait()
        await add(db, "login", 3, Urgency.SIGN_IN)
        async with asyncio.timeout(10):
            await until(box, 3)
        assert sorted(box.recipients) == [[f"login{number}@ours.test"] for number in (1, 2, 3)]
        box.release.set()


async def test_a_crash_after_data_repeats_at_most_one_mail_per_lane(
    db: Database, settings: Settings, mails: SendMails, box: Mailbox, clock: ManualClock
) -> None:
    await add(db, "mail", 40, Urgency.NORMAL)
    async with working(mails) as worker:
        await until(box, 10)
        box.takes_held = True
        box.release.clear()
        box.holding.clear()
        await box.holding.wait()
        await asyncio.sleep(0.1)
        worker.cancel()
        with suppress(asyncio.CancelledError):
            await worker
    unsettled = len(box.mails) - await count(db, "sent_at IS NOT NULL")
    assert 0 < unsettled <= LANES
    box.release.set()
    async with db.connection() as connection:
        await connection.execute("UPDATE mails SET next_attempt_at = clock_timestamp() WHERE sent_at IS NULL")
    other = sender(db, settings, box.url, clock)
    while await other.run_once():
        pass
    received = Counter(recipient for [recipient] in box.recipients)
    assert len(received) == 40
    assert received.total() - 40 == unsettled
    await other.drain()


async def test_while_the_server_is_away_no_attempt_is_used(
    db: Database, settings: Settings, clock: ManualClock
) -> None:
    port = free_port()
    mails = sender(db, settings, f"smtp://localhost:{port}", clock)
    await add(db, "mail", 20, Urgency.NORMAL)
    while await mails.run_once():
        pass
    assert {(row["attempts"], row["due"]) for row in await rows(db)} == {(0, True)}
    errors = [row["last_error"] for row in await rows(db) if row["last_error"] is not None]
    assert errors
    assert all(error.startswith(AWAY) for error in errors)
    assert _away(mails) == 1
    clock.advance(seconds=PAUSE_S)
    # One tries, and then all pause again.
    assert [await mails.run_once() for _ in range(2)] == [True, False]
    clock.advance(days=3)
    async with mail_server(port=port) as box:
        while await mails.run_once():
            pass
        assert len(box.mails) == 20
    assert {(row["attempts"], row["sent"], row["last_error"]) for row in await rows(db)} == {(1, True, None)}
    assert _away(mails) == 0


def _away(mails: SendMails) -> float:
    samples = parse_samples(render(metric.snapshot() for metric in mails.metrics).decode())
    return total(samples, "tonne_mail_server_away")


async def test_a_server_that_allows_fewer_connections_gets_all_mails(
    db: Database, settings: Settings, box: Mailbox, clock: ManualClock
) -> None:
    """It is not asked for another connection all the time."""
    asked = 0

    async def first_two(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        if asked > 2:
            writer.write(b"421 too many connections\r\n")
            writer.close()
            return
        there, back = await asyncio.open_connection("127.0.0.1", box.port)
        await asyncio.gather(_copy(reader, back), _copy(there, writer))

    async with listening(first_two) as port:
        mails = sender(db, settings, f"smtp://127.0.0.1:{port}", clock)
        await add(db, "login", 50, Urgency.SIGN_IN)
        while await mails.run_once():
            pass
        assert len(box.mails) == 50
        assert asked <= LANES
        await mails.drain()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
    writer.close()


async def test_claimed_mails_that_their_lease_may_not_cover_are_given_back(
    db: Database, mails: SendMails, box: Mailbox, clock: ManualClock
) -> None:
    box.release.clear()
    await add(db, "mail", 8, Urgency.NORMAL)
    running = asyncio.create_task(mails.run_once())
    await box.holding.wait()
    assert await count(db, "next_attempt_at > clock_timestamp()") == 8
    clock.advance(seconds=LEASE.total_seconds() - SEND_S + 1)
    box.release.set()
    await running
    while await mails.run_once():
        pass
    assert len(box.mails) == 8
    # The others were claimed again.
    begun = LANES - RESERVED
    assert await count(db, "lease_token > 1") == 8 - begun
    await mails.drain()


async def test_a_worker_that_stops_finishes_its_mails_and_gives_back_the_others(
    db: Database, mails: SendMails, box: Mailbox
) -> None:
    await add(db, "mail", 8, Urgency.NORMAL)
    assert await mails.run_once()
    await mails.drain()
    sent = await count(db, "sent_at IS NOT NULL")
    assert len(box.mails) == sent < 8
    assert await count(db, "sent_at IS NULL AND next_attempt_at <= clock_timestamp()") == 8 - sent


async def test_mails_about_signing_in_are_urgent(db: Database, settings: Settings) -> None:
    async with db.transaction() as tx:
        user = await create_user(tx, "ada@ours.test", "Ada", password_hash=None, by=TESTER.now())
        await send_security_mail(tx, settings, user, PASSWORD_CHANGED)
        await send_password_reset(tx, settings, "ada@ours.test", actor_name="ada", now=utc_now())
    assert (await count(db, "urgency = 0"), await count(db, "true")) == (2, 2)


@pytest.mark.parametrize("connections", range(1, 51))
def test_lanes_are_left_to_urgent_mails_if_there_are_enough(connections: int) -> None:
    lanes = Lanes(connections)
    reserved = RESERVED if connections >= 4 else 0
    assert (lanes.free(urgent=True), lanes.free(urgent=False)) == (connections, connections - reserved)
    for _ in range(connections - reserved):
        lanes.begin(urgent=False)
    assert (lanes.free(urgent=True), lanes.free(urgent=False)) == (reserved, 0)
    # As long as the server is quick, a lane is free in a moment.
    lanes.end(urgent=False, seconds=0.1, connected=True)
    assert lanes.free(urgent=False) == reserved + 1
    lanes.begin(urgent=False)
    lanes.end(urgent=False, seconds=5, connected=True)
    assert lanes.free(urgent=False) == 1


def test_three_failed_connects_pause_all_lanes_until_one_has_a_connection() -> None:
    clock = ManualClock()
    lanes = Lanes(8, clock.monotonic)
    for failed in range(1, FAILED_CONNECTS + 1):
        lanes.begin(urgent=True)
        lanes.end(urgent=True, seconds=1, connected=False)
        assert lanes.is_away == (failed == FAILED_CONNECTS)
    assert lanes.free(urgent=True) == 0
    clock.advance(seconds=PAUSE_S)
    assert lanes.free(urgent=True) == 1
    lanes.begin(urgent=True)
    lanes.end(urgent=True, seconds=1, connected=False)
    assert (lanes.is_away, lanes.free(urgent=True)) == (True, 0)
    clock.advance(seconds=PAUSE_S)
    assert lanes.free(urgent=True) == 1
    lanes.begin(urgent=True)
    lanes.end(urgent=True, seconds=1, connected=True)
    assert (lanes.is_away, lanes.free(urgent=True)) == (False, 8)
