"""Mailing certificates after a checkout."""

import asyncio
import hashlib
import re
from datetime import datetime, timedelta
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

import httpx
import msgspec
import pytest

from tests.channels.checkout.shopper import STOLEN_CARD, Shopper, make_link
from tests.channels.public_pages.certificates import complete_live_order
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.channels.checkout.links.model import OffsetLink
from tonne.channels.checkout.order_pages.certificate_mails import LEASE, MailCertificates
from tonne.channels.checkout.queue import claim_mails, finish_mail
from tonne.platform.db.json_compression import decompress_json
from tonne.platform.values.context import utc_now

HOSTILE = "Ada\r\nBcc: eve@evil.example\r\n\r\nClick here =?utf-8?q?x?= \u202e"
CHECKOUTS = "SELECT id, status, next_mail_at FROM checkouts ORDER BY id"
MINUTE = timedelta(minutes=1)


class Post:
    """The job that mails certificates, with a clock that tests advance."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self.later = timedelta(0)

    def now(self) -> datetime:
        return utc_now() + self.later

    def worker(self) -> MailCertificates:
        return MailCertificates(
            self.services.database, self.now, self.services.settings, self.services.render_certificate
        )

    async def works(self, *, later: timedelta) -> bool:
        """Run the job `later` from now; whether it had work."""
        self.later = later
        return await self.worker().run_once()

    async def complete_orders(self) -> None:
        while await self.services.allocate_orders.run_once() or await self.services.retire_units.run_once():
            pass

    async def sql(self, statement: str, *values: Any) -> list[dict[str, Any]]:
        async with self.services.database.connection() as connection:
            return [dict(row) for row in await connection.fetch(statement, *values)]

    async def rewrite(self, number: str, record: bytes, **changes: str) -> None:
        changed = msgspec.json.encode(msgspec.json.decode(decompress_json(record)) | changes)
        await self.sql("UPDATE certificates SET record = $2 WHERE number = $1", number, changed)

    async def mails(self) -> list[EmailMessage]:
        """The mails with certificates. Receipts are tested in tests/receipts."""
        rows = await self.sql("SELECT message FROM mails ORDER BY created_at")
        mails = [message_from_bytes(row["message"], policy=policy.default) for row in rows]
        return [mail for mail in mails if "Your receipt" not in mail["Subject"]]


@pytest.fixture
def post(services: Services) -> Post:
    return Post(services)


@pytest.fixture
async def paid(shopper: Shopper, link: OffsetLink) -> None:
    """Ann has paid for 1.5 tonnes; nothing is allocated yet."""
    assert "Thank you" in (await shopper.pay(await shopper.begin(link, amount="1.5"))).text


@pytest.fixture
async def complete(paid: None, post: Post) -> None:  # noqa: ARG001 - after that
    await post.complete_orders()


def text_of(mail: EmailMessage) -> str:
    body = mail.get_body(("plain",))
    assert body is not None
    return str(body.get_content()).replace("\r\n", "\n")


def pdf_of(mail: EmailMessage) -> bytes:
    [attached] = mail.iter_attachments()
    assert attached.get_content_type() == "application/pdf"
    pdf: bytes = attached.get_content()
    return pdf


@pytest.mark.usefixtures("complete")
async def test_the_customer_gets_one_mail_with_the_pdf_and_the_verification_link(
    post: Post, browser: httpx.AsyncClient
) -> None:
    assert await post.works(later=MINUTE)
    assert not await post.works(later=timedelta(days=30))
    [mail] = await post.mails()
    [row] = await post.sql("SELECT number FROM certificates")
    number = row["number"]
    assert mail["To"] == "ann@example.com"
    assert mail["Subject"] == "[TEST] Your certificate: 1.5 t retired"
    text = text_of(mail)
    assert text.startswith("This is a test. No money was charged and no credits were retired.")
    assert "for 1.5\xa0t of CO₂ equivalent" in text
    assert "on behalf of Beneficiary" in text
    assert f"http://tonne.test/verify/{number}\n" in text
    path = re.search(r"See your order and its certificate:\nhttp://tonne.test(/o/\S+)\n", text)
    assert path is not None, text
    assert number in (await browser.get(path[1])).text
    [attached] = mail.iter_attachments()
    assert attached.get_filename() == f"certificate-{number}.pdf"
    verdict = await browser.get(f"/verify/{number}", params={"sha256": hashlib.sha256(pdf_of(mail)).hexdigest()})
    assert 'class="verdict test"' in verdict.text
    assert [checkout["next_mail_at"] for checkout in await post.sql(CHECKOUTS)] == [None]


@pytest.mark.usefixtures("paid")
async def test_an_incomplete_order_is_checked_again_a_minute_later(post: Post) -> None:
    assert not await post.works(later=MINUTE)
    await post.complete_orders()
    assert not await post.works(later=MINUTE)
    assert await post.mails() == []
    assert await post.works(later=2 * MINUTE + timedelta(seconds=1))
    assert len(await post.mails()) == 1


@pytest.mark.usefixtures("paid")
async def test_the_pause_grows_with_the_age_of_the_order(post: Post) -> None:
    for age, pause in ((MINUTE, MINUTE), (50 * MINUTE, 5 * MINUTE), (timedelta(days=20), 60 * MINUTE)):
        assert not await post.works(later=age)
        [checkout] = await post.sql(CHECKOUTS)
        [paid_for] = await post.sql("SELECT created_at FROM checkouts")
        looked_at = checkout["next_mail_at"] - pause
        assert timedelta(0) <= looked_at - paid_for["created_at"] - age <= timedelta(minutes=10)


@pytest.mark.usefixtures("complete")
async def test_concurrent_workers_send_one_mail(post: Post) -> None:
    post.later = MINUTE
    worked = await asyncio.gather(*(post.worker().run_once() for _ in range(8)))
    assert sorted(worked) == [False] * 7 + [True]
    assert len(await post.mails()) == 1


@pytest.mark.usefixtures("complete")
async def test_a_worker_with_an_expired_lease_sends_nothing(post: Post) -> None:
    post.later = MINUTE
    async with post.services.database.connection() as connection:
        [frozen] = await claim_mails(connection, post.now(), post.now() + LEASE, 10)
    assert not await post.works(later=MINUTE), "it is still claimed"
    assert await post.works(later=MINUTE + LEASE)
    async with post.services.database.transaction() as tx:
        assert not await finish_mail(tx, frozen.scope, frozen)
    assert len(await post.mails()) == 1


async def test_a_failing_pdf_is_retried_and_does_not_block_the_others(
    shopper: Shopper, link: OffsetLink, post: Post
) -> None:
    for email in ("ann@example.com", "bob@example.com"):
        await shopper.pay(await shopper.begin(link, amount="1", email=email))
    await post.complete_orders()
    certificates = (
        "SELECT number, record FROM certificates JOIN checkouts USING (account_id, order_id) WHERE email = $1"
    )
    [row] = await post.sql(certificates, "ann@example.com")
    await post.rewrite(row["number"], row["record"], issued_at="never")
    assert await post.works(later=MINUTE)
    assert [mail["To"] for mail in await post.mails()] == ["bob@example.com"]
    await post.rewrite(row["number"], row["record"])
    assert await post.works(later=MINUTE + LEASE)
    assert [mail["To"] for mail in await post.mails()] == ["bob@example.com", "ann@example.com"]


async def test_unpaid_checkouts_are_not_touched(shopper: Shopper, link: OffsetLink, post: Post) -> None:
    await shopper.begin(link)
    await shopper.pay(await shopper.begin(link), STOLEN_CARD)
    before = await post.sql(CHECKOUTS)
    assert sorted(checkout["status"] for checkout in before) == ["open", "ordered"]
    assert not await post.works(later=timedelta(days=1))
    assert await post.sql(CHECKOUTS) == before
    assert await post.mails() == []


@pytest.mark.usefixtures("complete")
async def test_hostile_names_stay_on_one_line(post: Post) -> None:
    [row] = await post.sql("SELECT number, record FROM certificates")
    await post.rewrite(row["number"], row["record"], beneficiary=HOSTILE, issuer=HOSTILE)
    assert await post.works(later=MINUTE)
    [mail] = await post.mails()
    assert set(mail.keys()) == {
        *("From", "To", "Subject", "Message-ID", "Date", "MIME-Version", "Content-Type"),
        *("Content-Language", "Auto-Submitted"),
    }
    assert "on behalf of Ada Bcc: eve@evil.example Click here =?utf-8?q?x?=." in text_of(mail)


@pytest.mark.usefixtures("complete")
async def test_an_invalid_mail_address_is_given_up(post: Post) -> None:
    await post.sql("UPDATE checkouts SET email = 'not an address'")
    assert await post.works(later=MINUTE)
    assert not await post.works(later=timedelta(days=1))
    assert await post.mails() == []


async def test_a_live_mail_does_not_mention_test_mode(services: Services, world: World, post: Post) -> None:
    await complete_live_order(services, world)
    link = await make_link(services, world.ours_live.scope)
    await post.sql(
        "INSERT INTO checkouts (account_id, id, organisation_id, mode, offset_link_id, token_hash, temporary_id_hash,"
        " status, requested_quantity_grams, total_cost_minor, currency, email, order_id, created_at, expires_at,"
        " next_mail_at)"
        " SELECT account_id, 'chk', organisation_id, mode, $1, $2, $2, 'ordered', 1, 1, 'EUR', 'ann@example.com',"
        " order_id, issued_at, issued_at, issued_at FROM certificates",
        link.id,
        bytes(32),
    )
    assert await post.works(later=timedelta(0))
    [mail] = await post.mails()
    assert mail["Subject"] == "Your certificate: 2 t retired"
    assert "test" not in text_of(mail).replace("tonne.test", "").lower()
