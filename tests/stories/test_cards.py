"""Stories of stored cards, with dates: a payer confirms, a payer never does, a declined card is replaced."""

from collections.abc import AsyncIterator

import pytest

from tests.money.cards.card_scene import NO_MONEY, total
from tests.money.cards.payer import PayerScene, parse, payer_scene, text_of
from tests.support.clock import ManualClock
from tests.support.mail_server import Mailbox, mail_server
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.documents.mail.send_outbox import SendMails
from tonne.platform.documents.mail.smtp import SmtpMail

CONFIRMED_CARD = "4000002760003184"


@pytest.fixture
def clock() -> ManualClock:
    """On 1 November 2026, 9 o'clock."""
    return ManualClock()


@pytest.fixture
async def box() -> AsyncIterator[Mailbox]:
    async with mail_server() as box:
        yield box


class Story(PayerScene):
    box: Mailbox

    async def turn_to(self, day: int, hour: int = 9) -> None:
        """Let the worker run once an hour until then, as it would, and deliver the mails."""
        until = ManualClock().turn_to(11, day, hour)
        while self.clock() < until:
            self.clock.advance(hours=1)
            await self.work_everything()

    async def work_everything(self) -> None:
        services = self.services
        jobs = (self.worker, self.mailer, services.allocate_orders, services.retire_units, services.update_card)
        await self.run_jobs(*jobs, SendMails(self.database, SmtpMail(self.box.url), self.settings))

    def subjects(self) -> list[str]:
        return [str(parse(mail.content)["Subject"]) for mail in self.box.mails if isinstance(mail.content, bytes)]


@pytest.fixture
async def story(services: Services, world: World, clock: ManualClock, box: Mailbox) -> AsyncIterator[Story]:
    async with payer_scene(services, world.ours_test, clock) as scene:
        told = Story(services, world.ours_test, clock, scene.http)
        told.box = box
        await told.add_admin()
        yield told


async def test_money_a12_a_payment_is_confirmed_on_the_second_day(story: Story) -> None:
    order = await story.order(CONFIRMED_CARD)
    await story.work_everything()
    assert story.subjects() == ["[TEST] Please confirm a payment of €13.95"]
    assert story.box.recipients == [["ada@ours.test"]]
    await story.turn_to(3)
    assert await story.status(order) == "placed"
    assert len(story.subjects()) == 1, "one mail, not one a day"
    bank = await story.submit(await story.open((await story.links())["Confirm the payment"]))
    assert "Thank you" in (await story.submit(bank, answer="complete")).text
    await story.work_everything()
    assert await story.status(order) == "complete"
    assert len(await story.charges(order)) == 1
    assert await story.taken() == [total(order)]
    await story.turn_to(20)
    assert len(story.subjects()) == 1
    await story.check_invariants()


async def test_money_a12_a_payment_that_nobody_confirms_fails_after_a_week(story: Story) -> None:
    order = await story.order(CONFIRMED_CARD)
    await story.work_everything()
    path = (await story.links())["Confirm the payment"]
    await story.turn_to(8, 8)
    assert await story.status(order) == "placed"
    assert "until November 8, 2026" in (await story.open(path)).text
    await story.turn_to(8, 11)
    assert await story.status(order) == "failed"
    assert (await story.event_types(order))[-1] == "order.failed"
    assert await story.fetchval("SELECT failure_reason FROM orders") == "authentication_required"
    assert story.subjects() == [
        "[TEST] Please confirm a payment of €13.95",
        "[TEST] One order could not be paid",
    ]
    assert len(await story.charges(order)) == 1, "no second charge while the first could succeed"
    assert await story.taken() == []
    assert "This order could not be paid" in (await story.open(path)).text
    await story.check_invariants()


async def test_money_d7_a_declined_card_is_replaced_on_the_next_day_and_all_open_orders_are_paid(story: Story) -> None:
    orders = [await story.order(NO_MONEY)]
    await story.work_everything()
    assert story.subjects() == ["[TEST] Your card was declined for one order"]
    await story.turn_to(1, 15)
    orders += [await story.order_as_the_account_says() for _ in range(4)]
    await story.work_everything()
    assert story.subjects()[1:] == ["[TEST] Your card was declined for 5 orders"]
    *_, last = await story.mails()
    assert "The card has insufficient funds." in text_of(last)
    await story.turn_to(2, 8)
    page = await story.open((await story.links())["Enter another card"])
    assert page.text.count("was declined") == 5
    await story.submit(page, card_number="4242 4242 4242 4242")
    await story.work_everything()
    assert {await story.status(order) for order in orders} == {"complete"}
    assert sum(await story.taken()) == total(orders)
    await story.turn_to(10)
    assert len(story.subjects()) == 2
    await story.check_invariants()
