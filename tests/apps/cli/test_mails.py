"""The outbox from the command line."""

from email.message import EmailMessage

import pytest

from tests.support.command import Operator
from tests.support.world import World
from tonne.platform.db.database import Database
from tonne.selling.accounts.customer_mail import enqueue_customer_mail


@pytest.fixture
async def organisation_id(populated_db: Database, world: World) -> str:
    """One mail to Ann, which is sent, and one to a stranger, which is held."""
    scope = world.ours_test.scope
    async with populated_db.transaction() as tx:
        await tx.execute("INSERT INTO organisation_admins VALUES ($1, 'ann@example.com', now())", scope.organisation_id)
        for email in ("ann@example.com", "stranger@example.org"):
            message = EmailMessage()
            message["To"] = email
            message["Subject"] = f"Grüße an {email}"
            message.set_content("First line.\nA line with \x1b[31mcolour.\n")
            message.add_attachment(b"%PDF", maintype="application", subtype="pdf", filename="certificate.pdf")
            await enqueue_customer_mail(tx, scope, email, message)
    return scope.organisation_id


def test_security_14_held_mails_can_be_looked_at(operator: Operator, organisation_id: str) -> None:
    lines = operator.does("mail", "list").splitlines()
    assert [line.split()[1] for line in lines] == ["state", "held", "waiting"]
    [_, held] = operator.does("mail", "list", "--state", "held", "--org", organisation_id).splitlines()
    assert "stranger@example.org" in held
    assert "Grüße an" in held
    mail_id = held.split()[0]
    shown = operator.does("mail", "show", mail_id)
    assert "test mode: not an address of the organisation" in shown
    assert "certificate.pdf" in shown
    assert "First line.\nA line with \\x1b[31mcolour." in shown
    assert operator.does("mail", "show", mail_id, "--raw").startswith("To: stranger@example.org")
    assert operator.does("mail", "list", "--state", "failed") == "No mails."


def test_unknown_ids_say_where_to_look(operator: Operator) -> None:
    assert "tonne mail list" in operator.is_refused("mail", "show", "mail_gone")
    assert "tonne org list" in operator.is_refused("mail", "list", "--org", "org_gone")


def test_addresses_for_test_mail_are_shown_and_removed(operator: Operator, world: World) -> None:
    organisation_id = world.ours_test.scope.organisation_id
    assert operator.facts("org", "show", organisation_id)["test mail to"] == "admins"
    operator.does("org", "allow-test-mail", organisation_id, "Bob@example.com")
    assert operator.facts("org", "show", organisation_id)["test mail to"] == "admins, bob@example.com"
    operator.does("org", "forbid-test-mail", organisation_id, "bob@Example.com")
    assert "tonne org show" in operator.is_refused("org", "forbid-test-mail", organisation_id, "bob@example.com")
