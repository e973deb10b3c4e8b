"""Logs name no person: they cannot be erased."""

import structlog
from structlog.testing import LogCapture

from tests.apps.privacy.scene import EMAIL, NAME, Persons
from tonne.platform.documents.mail.gateway import MailGateway, MailRefused


class RefusingGateway(MailGateway):
    """A mail server that does not know the recipient, and says so as most do."""

    async def send(self, sender: str, recipients: list[str], message: bytes) -> list[str]:  # noqa: ARG002 - refused
        raise MailRefused(f"550 <{recipients[0]}>: user unknown", final=True)

    async def close_idle(self, longer_than_s: float = 0.0) -> None:
        """There are no connections."""


async def test_nothing_logged_of_a_purchase_and_an_erasure_names_the_person(persons: Persons) -> None:
    captured = LogCapture()
    structlog.configure(processors=[captured])
    persons.services.mails.gateway = RefusingGateway()
    address = await persons.shopper.begin(await persons.link(), email=EMAIL, name_on_certificate=NAME)
    await persons.shopper.pay(address)
    await persons.work()
    await persons.execute("UPDATE mails SET held_reason = NULL, next_attempt_at = now() - interval '1 s'")
    await persons.work()
    await persons.erase()
    lines = [str(entry) for entry in captured.entries]
    assert {"mail_refused", "person_erased", "request"} <= {entry["event"] for entry in captured.entries}
    assert [line for line in lines if EMAIL.lower() in line.lower() or NAME in line] == []
    assert await persons.fetchval("SELECT count(*) FROM mails WHERE discarded_at IS NOT NULL") == 2, "never sent again"
