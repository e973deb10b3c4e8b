"""Test checkouts send mail only to addresses of the organisation. Everything else is held."""

from datetime import timedelta
from typing import Any

import pytest

from tests.channels.checkout.scene import Rows, age, work
from tests.channels.checkout.shopper import Shopper, make_link
from tests.channels.public_pages.certificates import complete_live_order
from tests.support.world import TESTER, World
from tonne.apps.wiring.app import Services
from tonne.channels.checkout.links.model import OffsetLink
from tonne.platform.documents.mail.gateway import MailGateway
from tonne.platform.documents.mail.outbox import Urgency
from tonne.platform.documents.mail.send_outbox import SendMails
from tonne.platform.values.context import utc_now
from tonne.selling.accounts.organisations.change_organisation import add_admin, allow_test_mail, forbid_test_mail

MAILS = "SELECT recipients, sent_at, next_attempt_at, held_reason, urgency FROM mails"


class Postbox(MailGateway):
    """A mail server that accepts everything."""

    def __init__(self) -> None:
        self.recipients: list[str] = []

    async def send(self, sender: str, recipients: list[str], message: bytes) -> list[str]:  # noqa: ARG002 - not looked at
        self.recipients += recipients
        return []

    async def close_idle(self, longer_than_s: float = 0.0) -> None:
        """There are no connections."""


async def buy(services: Services, shopper: Shopper, link: OffsetLink, email: str) -> list[str]:
    """Buy a tonne, wait for the certificate, send all mail; returns who got mail."""
    assert "Thank you" in (await shopper.pay(await shopper.begin(link, amount="1", email=email))).text
    await work(services)
    await age(services, "UPDATE checkouts SET next_mail_at = now() - interval '1 s' WHERE next_mail_at IS NOT NULL")
    while await services.mail_certificates.run_once():
        pass
    postbox = Postbox()
    sender = SendMails(services.database, postbox, services.settings)
    while await sender.run_once():
        pass
    return postbox.recipients


async def change(services: Services, what: Any, world: World, email: str) -> None:
    async with services.database.transaction() as tx:
        await what(tx, world.ours_test.scope.organisation_id, email, by=TESTER.now())


async def test_security_14_a_test_checkout_sends_no_mail_to_strangers(
    services: Services, shopper: Shopper, link: OffsetLink, rows: Rows
) -> None:
    assert await buy(services, shopper, link, "stranger@example.org") == []
    await age(services, "UPDATE mails SET created_at = created_at - interval '30 days'")
    assert not await services.mails.run_once(), "it is never sent"
    mails = await rows(MAILS)
    assert len(mails) == 2, "the receipt and the certificate"
    for mail in mails:
        assert mail["recipients"] == ["stranger@example.org"]
        assert (mail["sent_at"], mail["next_attempt_at"]) == (None, None)
        assert mail["held_reason"] == "test mode: not an address of the organisation"


@pytest.mark.parametrize("grant", [add_admin, allow_test_mail])
async def test_security_14_addresses_of_the_organisation_get_test_mail(
    services: Services, shopper: Shopper, link: OffsetLink, world: World, grant: Any
) -> None:
    await change(services, grant, world, "Ann@example.com")
    assert await buy(services, shopper, link, "ann@EXAMPLE.com") == ["ann@EXAMPLE.com"]


async def test_security_14_a_forbidden_address_gets_no_more_test_mail(
    services: Services, shopper: Shopper, link: OffsetLink, world: World
) -> None:
    await change(services, allow_test_mail, world, "ann@example.com")
    await change(services, forbid_test_mail, world, "ANN@example.com")
    assert await buy(services, shopper, link, "ann@example.com") == []


async def test_security_14_the_addresses_of_another_organisation_do_not_count(
    services: Services, shopper: Shopper, world: World
) -> None:
    await change(services, allow_test_mail, world, "ann@example.com")
    theirs = await make_link(services, world.theirs_test.scope)
    assert await buy(services, shopper, theirs, "ann@example.com") == []


async def test_live_mail_is_never_held(services: Services, world: World, rows: Rows) -> None:
    await complete_live_order(services, world)
    link = await make_link(services, world.ours_live.scope)
    async with services.database.transaction() as tx:
        await tx.execute(
            "INSERT INTO checkouts (account_id, id, organisation_id, mode, offset_link_id, token_hash,"
            " temporary_id_hash, status, requested_quantity_grams, total_cost_minor, currency, email, order_id,"
            " created_at, expires_at, next_mail_at)"
            " SELECT account_id, 'chk', organisation_id, mode, $1, $2, $2, 'ordered', 1, 1, 'EUR',"
            " 'stranger@example.org', order_id, $3, $3, $3 FROM certificates",
            link.id,
            bytes(32),
            utc_now() - timedelta(minutes=1),
        )
    assert await services.mail_certificates.run_once()
    [mail] = await rows(MAILS)
    assert mail["urgency"] == Urgency.BULK
    assert (mail["held_reason"], mail["next_attempt_at"] is None) == (None, False)
