"""Customers are told when their certificate is replaced or withdrawn."""

from datetime import timedelta

import pytest

from tests.channels.checkout.scene import Rows
from tests.channels.checkout.shopper import Shopper
from tests.channels.checkout.test_mail_certificates import MINUTE, Post, complete, paid, pdf_of, post, text_of
from tests.support.world import TESTER
from tonne.apps.wiring.app import Services
from tonne.channels.checkout.links.model import OffsetLink
from tonne.channels.checkout.order_pages.certificate_mails import LEASE, MailChangedCertificates
from tonne.platform.keys.signing.keys import SignDocuments
from tonne.platform.values.context import Mode, Scope, utc_now
from tonne.selling.orders.model import Beneficiary
from tonne.selling.orders.queue import lock_order
from tonne.supply.certificates.credentials.issue_credential import RenderCertificate
from tonne.supply.certificates.reissue_certificate import withdraw_certificate
from tonne.supply.retirements.rename_order import rename_order

__all__ = ["complete", "paid", "post"]
ORDER = "SELECT organisation_id, account_id, id FROM orders"


async def rename(services: Services, rows: Rows, name: str) -> None:
    [order] = await rows(ORDER)
    scope = Scope(order["organisation_id"], order["account_id"], Mode.TEST)
    async with services.database.transaction() as tx:
        await rename_order(
            tx,
            scope,
            order["id"],
            Beneficiary(name),
            reason="The name was misspelt",
            settings=services.settings,
            by=TESTER.at(utc_now() - timedelta(seconds=1)),
        )


async def withdraw(services: Services, rows: Rows) -> str:
    [order] = await rows(ORDER)
    scope = Scope(order["organisation_id"], order["account_id"], Mode.TEST)
    async with services.database.transaction() as tx:
        locked = await lock_order(tx, scope, order["id"])
        assert locked is not None
        now = utc_now() - timedelta(seconds=1)
        return await withdraw_certificate(tx, locked, reason="The registry cancelled them.", by=TESTER.at(now))


async def run(services: Services) -> bool:
    return await MailChangedCertificates(
        services.database, utc_now, services.settings, services.render_certificate
    ).run_once()


@pytest.mark.usefixtures("complete")
async def test_the_new_certificate_is_mailed_to_the_customer_who_got_the_old_one(
    post: Post, services: Services, rows: Rows
) -> None:
    await post.works(later=MINUTE)
    await rename(services, rows, "Ada GmbH")
    assert await run(services)
    assert not await run(services), "once"
    _, mail = await post.mails()
    [new] = await rows("SELECT number, replaces FROM certificates WHERE state = 'valid'")
    assert (mail["To"], mail["Subject"]) == ("ann@example.com", f"[TEST] Your new certificate {new['number']}")
    text = text_of(mail)
    assert f"Your certificate {new['replaces']} was replaced. The name was misspelt." in text
    assert "Ada GmbH" in text
    assert "See your order and its certificate:\nhttp://tonne.test/o/" in text
    assert pdf_of(mail).startswith(b"%PDF")


@pytest.mark.usefixtures("complete")
async def test_only_the_last_certificate_is_mailed(post: Post, services: Services, rows: Rows) -> None:
    await post.works(later=MINUTE)
    for name in ("Ada", "Berta", "Clara"):
        await rename(services, rows, name)
    assert await run(services)
    _, mail = await post.mails()
    assert "Clara" in text_of(mail)


@pytest.mark.usefixtures("complete")
async def test_with_time_stamps_a_mail_waits_for_the_proof(post: Post, services: Services, rows: Rows) -> None:
    await post.works(later=MINUTE)
    await rename(services, rows, "Ada GmbH")
    # Nothing is signed, so no authority is asked.
    signing = SignDocuments(services.signing_keys, "http://stamps.invalid")
    stamped = RenderCertificate(services.database, services.issue_credential, signing, utc_now)
    assert await MailChangedCertificates(services.database, utc_now, services.settings, stamped).run_once()
    assert len(await post.mails()) == 1
    later = MailChangedCertificates(
        services.database, lambda: utc_now() + LEASE, services.settings, services.render_certificate
    )
    assert await later.run_once()
    assert len(await post.mails()) == 2


@pytest.mark.usefixtures("complete")
async def test_a_customer_without_a_certificate_gets_the_new_one_as_the_first(
    post: Post, services: Services, rows: Rows
) -> None:
    await rename(services, rows, "Ada GmbH")
    assert await run(services)
    assert await post.mails() == []
    await post.works(later=MINUTE)
    [mail] = await post.mails()
    assert "Your certificate" in mail["Subject"]
    assert "on behalf of Ada GmbH" in text_of(mail)


@pytest.mark.usefixtures("complete")
async def test_a_withdrawal_is_mailed_with_its_reason(post: Post, services: Services, rows: Rows) -> None:
    await post.works(later=MINUTE)
    number = await withdraw(services, rows)
    assert await run(services)
    _, mail = await post.mails()
    assert mail["Subject"] == f"[TEST] Your certificate {number} was withdrawn"
    assert "The registry cancelled them." in text_of(mail)
    assert "See your order:\nhttp://tonne.test/o/" in text_of(mail)
    assert list(mail.iter_attachments()) == []


async def test_the_page_of_the_checkout_shows_what_became_of_the_certificate(
    post: Post, services: Services, rows: Rows, shopper: Shopper, link: OffsetLink
) -> None:
    address = await shopper.begin(link)
    await shopper.pay(address)
    await post.complete_orders()
    await rename(services, rows, "Ada GmbH")
    [new] = await rows("SELECT number FROM certificates WHERE state = 'valid'")
    page = (await shopper.open(address)).text
    assert new["number"] in page
    assert "Ada GmbH" in page
    await withdraw(services, rows)
    page = (await shopper.open(address)).text
    assert f"Certificate {new['number']} was withdrawn." in page
    assert "Open the certificate" not in page
