"""Mail to the admins of an organisation whose receiver has been failing for an hour, and for a day."""

import email
import email.policy
from email.message import EmailMessage
from pathlib import Path

import msgspec
import pytest

from tests.channels.webhooks.stage import Hook, Stage
from tests.support.receivers import OK, Delivery, Receiver, Reply, reply
from tests.support.world import World
from tonne.platform.settings.settings import Settings

# A day lasts less than a second, and an hour 36 milliseconds.
SCALE = 0.00001


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return msgspec.structs.replace(settings, webhook_time_scale=SCALE, mail_from="Tonne <hooks@tonne.test>")


async def add_admins(stage: Stage, *addresses: str, organisation_id: str = "") -> None:
    for address in addresses:
        await stage.fetch(
            "INSERT INTO organisation_admins (organisation_id, email, created_at) VALUES ($1, $2, now())",
            organisation_id or stage.one.organisation_id,
            address,
        )


async def mails(stage: Stage) -> list[EmailMessage]:
    rows = await stage.fetch("SELECT message FROM mails ORDER BY created_at, id")
    return [parse(row["message"]) for row in rows]


def parse(raw: bytes) -> EmailMessage:
    return email.message_from_bytes(raw, policy=email.policy.default)


def text_of(mail: EmailMessage) -> str:
    body = mail.get_body(("plain",))
    assert body is not None
    return str(body.get_content())


async def until_alerts(stage: Stage, hook: Hook, count: int) -> None:
    async def sent() -> bool:
        return bool((await stage.row(hook))["alerts_sent"] >= count)

    await stage.until(sent)


async def test_after_an_hour_and_after_a_day_of_failure_the_admins_get_one_mail_each(
    stage: Stage, world: World, receiver: Receiver
) -> None:
    await add_admins(stage, "ada@ours.test", "grace@ours.test")
    await add_admins(stage, "eve@theirs.test", organisation_id=world.theirs_test.scope.organisation_id)
    receiver.rule = lambda _: reply(503, b"come back later")
    hook = await stage.register(receiver.url)
    ids = await stage.emit(stage.one, stage.two)
    async with stage.working():
        await until_alerts(stage, hook, 1)
        assert len(await mails(stage)) == 1
        await until_alerts(stage, hook, 2)
        # More failures follow without a third mail, which would be written with the attempt.
        seen = len(receiver.deliveries)
        await receiver.count(seen + 4)
        receiver.rule = lambda _: OK
        await stage.idle()
    first, second = await mails(stage)
    for mail in (first, second):
        assert mail["To"] == "ada@ours.test, grace@ours.test"
        assert mail["From"] == "Tonne <hooks@tonne.test>"
        assert hook.id in mail["Subject"]
        text = text_of(mail)
        assert receiver.url in text
        assert "503" in text
        assert hook.secret not in text
    assert first["Message-ID"] != second["Message-ID"]
    rows = await stage.fetch("SELECT recipients, organisation_id FROM mails")
    assert {(*row["recipients"], row["organisation_id"]) for row in rows} == {
        ("ada@ours.test", "grace@ours.test", stage.one.organisation_id)
    }
    assert {event["event_id"] for event in receiver.events} == set(ids)


async def test_no_mail_is_sent_before_the_hour_is_over(stage: Stage, receiver: Receiver) -> None:
    await add_admins(stage, "ada@ours.test")
    receiver.next(*[reply(500)] * 4)
    hook = await stage.register(receiver.url)
    await stage.emit()
    # At this scale the pauses of four failures take 25 milliseconds, and an hour 3.6 seconds.
    await stage.deliver(stage.change(webhook_time_scale=0.001))
    assert len(await stage.attempts(hook)) == 5
    assert await mails(stage) == []


async def test_a_receiver_that_fails_again_after_a_recovery_triggers_new_mails(
    stage: Stage, receiver: Receiver
) -> None:
    await add_admins(stage, "ada@ours.test")
    hook = await stage.register(receiver.url)
    for rounds in (1, 2):
        receiver.rule = lambda _: reply(500)
        await stage.emit()
        async with stage.working():
            await until_alerts(stage, hook, 1)
            receiver.rule = lambda _: OK
            await stage.idle()
        # On a slow machine the second mail may be due within the same failure.
        assert rounds <= len(await mails(stage)) <= 2 * rounds
        row = await stage.row(hook)
        assert (row["alerts_sent"], row["failing_since"]) == (0, None)


async def test_an_organisation_without_admins_gets_no_mail(stage: Stage, receiver: Receiver) -> None:
    receiver.rule = lambda _: reply(500)
    hook = await stage.register(receiver.url)
    await stage.emit()
    async with stage.working():
        await until_alerts(stage, hook, 2)
        receiver.rule = lambda _: OK
        await stage.idle()
    assert await mails(stage) == []


async def test_a_parked_account_triggers_a_mail_too(stage: Stage, receiver: Receiver) -> None:
    await add_admins(stage, "ada@ours.test")
    hook = await stage.register(receiver.url)
    poison, _ = await stage.emit(stage.one, stage.two)

    def rule(delivery: Delivery) -> Reply:
        return reply(422) if poison in delivery.event_ids else OK

    receiver.rule = rule
    async with stage.working():

        async def mail_sent() -> bool:
            return any(poison in text_of(mail) for mail in await mails(stage))

        await stage.until(mail_sent)
        receiver.rule = lambda _: OK
        await stage.idle()
    mail = next(mail for mail in await mails(stage) if poison in text_of(mail))
    assert stage.one.account_id in text_of(mail)
    assert hook.id in mail["Subject"]


HOSTILE_ADDRESSES = [
    "ada@ours.test\r\nBcc: victim@elsewhere.test",
    "ada@ours.test\nX-Evil: 1",
    "ada@ours.test, victim@elsewhere.test",
    '"a\\"b"@ours.test',
    "jörg@ours.test",
    "<script>@ours.test",
    "=?utf-8?q?=0D=0ABcc=3A_victim=40elsewhere=2Etest?= <ada@ours.test>",
    "@@@",
]


@pytest.mark.parametrize("address", HOSTILE_ADDRESSES)
async def test_a_hostile_address_adds_no_header_and_stops_no_delivery(
    stage: Stage, receiver: Receiver, address: str
) -> None:
    await add_admins(stage, address, "grace@ours.test")
    receiver.rule = lambda _: reply(500)
    hook = await stage.register(receiver.url)
    await stage.emit()
    async with stage.working(stage.change(webhook_lease_s=0.5)):
        await until_alerts(stage, hook, 1)
        receiver.rule = lambda _: OK
        await stage.idle()
    for row in await stage.fetch("SELECT message FROM mails"):
        head = row["message"].split(b"\r\n\r\n")[0]
        names = {line.split(b":")[0].lower() for line in head.split(b"\r\n") if not line.startswith((b" ", b"\t"))}
        assert names <= {
            b"from", b"to", b"subject", b"message-id", b"date", b"mime-version", b"content-type",
            b"content-transfer-encoding", b"content-language", b"auto-submitted",
        }  # fmt: skip


async def test_a_url_of_maximum_length_fits_into_the_mail(stage: Stage, receiver: Receiver) -> None:
    await add_admins(stage, "ada@ours.test")
    receiver.rule = lambda _: reply(500)
    url = receiver.url + "?" + "x" * (2047 - len(receiver.url))
    hook = await stage.register(url)
    await stage.emit()
    async with stage.working():
        await until_alerts(stage, hook, 1)
        receiver.rule = lambda _: OK
        await stage.idle()
    mail = (await mails(stage))[0]
    assert url in text_of(mail)
    [row] = await stage.fetch("SELECT message FROM mails ORDER BY created_at LIMIT 1")
    assert max(len(line) for line in row["message"].split(b"\r\n")) <= 998


async def test_without_a_mail_server_the_mail_becomes_a_file_that_mail_programs_open(
    stage: Stage, receiver: Receiver, tmp_path: Path
) -> None:
    await add_admins(stage, "ada@ours.test")
    receiver.rule = lambda _: reply(500)
    hook = await stage.register(receiver.url)
    await stage.emit()
    async with stage.working():
        await until_alerts(stage, hook, 1)
        receiver.rule = lambda _: OK
        await stage.idle()
    while await stage.services.mails.run_once():
        pass
    files = sorted((tmp_path / "mail").glob("*.eml"))
    assert [file.read_bytes() for file in files] == await raw_mails(stage)
    assert parse(files[0].read_bytes())["To"] == "ada@ours.test"
    assert await stage.fetch("SELECT FROM mails WHERE sent_at IS NULL") == []


async def raw_mails(stage: Stage) -> list[bytes]:
    return [row["message"] for row in await stage.fetch("SELECT message FROM mails ORDER BY created_at, id")]
