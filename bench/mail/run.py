"""How many mails leave per second, against a mail server whose every step takes 30 ms."""

from collections.abc import Set as AbstractSet

from bench.environment import Environment, open_environment
from bench.mail.slow_server import slow_server
from bench.pace import QUICK_MAIL, MailPace
from bench.report import Goal, Report, Result
from tonne.platform.documents.mail.outbox import Urgency, enqueue
from tonne.platform.documents.mail.send_mail import Attachment, compose_mail
from tonne.platform.settings.settings import Settings

LANES = {"mail_8": 8, "mail_24": 24}
NAMES = tuple(LANES)
STEP_S = 0.03
# MAIL, RCPT, DATA and the message.
STEPS = 4
GOAL = Goal(reach=0.8)
CPU_LIMIT_MS = 1.0
# With the headers and in base64, a mail of 20 KB.
PDF = bytes(range(256)) * 54
LEFT = "SELECT count(*) > $1 FROM mails WHERE sent_at IS NULL AND next_attempt_at IS NOT NULL"


async def run(names: AbstractSet[str], report: Report, *, quick: bool) -> None:
    pace = QUICK_MAIL if quick else MailPace()
    async with open_environment() as environment:
        for name in NAMES:
            if name in names:
                report.add(*await _measure(environment, name, pace))


async def _measure(environment: Environment, name: str, pace: MailPace) -> list[Result]:
    """One worker. The mails that open the connections do not count."""
    lanes = LANES[name]
    warm_up, mails = pace.warm_up_each * lanes, pace.mails_each * lanes
    with slow_server(STEP_S) as url:
        async with environment.worker(smtp_url=url, mail_connections=lanes) as worker:
            await _enqueue(environment, warm_up + mails)
            started = await environment.wait_while(LEFT, mails)
            before_s = await worker.cpu_s()
            took_s = await environment.wait_while(LEFT, 0) - started
            cpu_ms = (await worker.cpu_s() - before_s) / mails * 1e3
    return [
        Result(name, mails / took_s, "mails/s", lanes / (STEPS * STEP_S), GOAL),
        Result(f"{name}_cpu", cpu_ms, "ms/mail", CPU_LIMIT_MS),
    ]


async def _enqueue(environment: Environment, count: int) -> None:
    async with environment.connection() as connection, connection.transaction():
        for number in range(count):
            to = [f"buyer-{number}@example.com"]
            attachment = Attachment("invoice.pdf", PDF)
            mail = compose_mail(Settings(), to, "Your invoice", "Thank you.\n", attachments=[attachment])
            await enqueue(connection, "org_bench", to, mail, urgency=Urgency.BULK)
