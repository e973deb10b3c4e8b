"""tonne listen"""

import asyncio
import itertools
import time
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import click
import msgspec

from tonne.apps.cli.database import settings_from_environment
from tonne.channels.webhooks.sending.signing import new_secret, signed_headers
from tonne.platform.settings.load_settings import API_KEY_VARIABLE, API_URL_VARIABLE, LISTEN_VARIABLE
from tonne.platform.values.context import to_wire, utc_now

POLL_S = 0.5
PAUSES_S = (1, 2, 5, 10)
_FAILURES = (aiohttp.ClientError, TimeoutError, OSError)


class _EventHead(msgspec.Struct):
    event_id: str
    event_type: str
    account_id: str
    sequence: str


class _Page(msgspec.Struct):
    data: list[msgspec.Raw]


@click.command()
@click.option("--forward-to", "target", required=True, metavar="URL", help="URL of your receiver.")
@click.option("--api-key", envvar=API_KEY_VARIABLE, required=True, show_envvar=True, help="A test API key.")
@click.option(
    "--api-url",
    envvar=API_URL_VARIABLE,
    show_envvar=True,
    help="Base URL of the API, with /v1. [default: that of the settings TONNE_PUBLIC_URL, TONNE_HOST and TONNE_PORT]",
)
@click.option(
    "--secret",
    envvar=LISTEN_VARIABLE,
    show_envvar=True,
    help="Secret to sign with. [default: a new one, which is printed]",
)
@click.option("--brand", help="Name in the signature header. [default: that of the setting TONNE_BRAND]")
def listen(target: str, api_key: str, api_url: str | None, *, secret: str | None, brand: str | None) -> None:
    """Forward test events to a webhook receiver on your machine.

    Your machine needs no public address: the command polls for new events, signs them like real deliveries, sends them
    to URL and prints one line for each. An event that the receiver does not accept is sent again until it does, in
    order.

    Other users of the machine can read the options of a running command. Pass key and secret in the environment.
    """
    settings = settings_from_environment()
    if not api_key.startswith("tonne_test_"):
        raise click.ClickException("Use a test key (tonne_test_...). Live events go only to registered webhooks.")
    if urlsplit(target).scheme not in {"http", "https"}:
        raise click.BadParameter("expected an http or https URL", param_hint="--forward-to")
    api_url = (api_url or f"{settings.base_url}/v1").rstrip("/")
    forwarder = _Forwarder(target, api_key, api_url, secret or new_secret(), brand or settings.brand)
    try:
        asyncio.run(forwarder.run())
    except KeyboardInterrupt:
        click.echo("Stopped.")


class _Forwarder:
    def __init__(self, target: str, api_key: str, api_url: str, secret: str, brand: str) -> None:
        self._target = target
        self._api_url = api_url
        self._authorization = {"Authorization": f"Bearer {api_key}"}
        self._secret = secret
        self._brand = brand

    async def run(self) -> None:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as session:
            account = await self._first(session)
            newest = msgspec.json.decode(await self._get(session, "/events?limit=1"), type=_Page)
            since = msgspec.json.decode(newest.data[0], type=_EventHead).sequence if newest.data else ""
            click.echo(f"Forwarding the test events of {account['organisation_id']} to {self._target}")
            click.echo(f"Signing secret: {self._secret}")
            while True:
                page = await self._next_page(session, since)
                if page:
                    since = await self._forward(session, account["organisation_id"], page)
                else:
                    await asyncio.sleep(POLL_S)

    async def _first(self, session: aiohttp.ClientSession) -> dict[str, Any]:
        """The account of the key. A wrong key or address ends the command."""
        try:
            account: dict[str, Any] = msgspec.json.decode(await self._get(session, "/account"))
        except aiohttp.ClientResponseError as error:
            raise click.ClickException(
                f"The service rejected the key ({error.status}). Check {API_KEY_VARIABLE}."
            ) from error
        except _FAILURES as error:
            raise click.ClickException(f"Cannot connect to {self._api_url}. Is the service running?") from error
        return account

    async def _get(self, session: aiohttp.ClientSession, path: str) -> bytes:
        async with session.get(self._api_url + path, headers=self._authorization) as answer:
            answer.raise_for_status()
            return await answer.read()

    async def _next_page(self, session: aiohttp.ClientSession, since: str) -> list[msgspec.Raw]:
        after = f"&after_sequence={since}" if since else ""
        try:
            page = msgspec.json.decode(await self._get(session, f"/events?order=asc&limit=100{after}"), type=_Page)
        except _FAILURES as error:
            click.echo(f"{_now()}  the service does not respond: {error}", err=True)
            await asyncio.sleep(PAUSES_S[0])
            return []
        return page.data

    async def _forward(self, session: aiohttp.ClientSession, organisation_id: str, page: list[msgspec.Raw]) -> str:
        """Retry until the receiver accepts the events; returns the last sequence."""
        body = b'{"events":[' + b",".join([bytes(event) for event in page]) + b"]}"
        events = [msgspec.json.decode(event, type=_EventHead) for event in page]
        for attempt in itertools.count():
            headers = signed_headers(
                self._brand,
                [self._secret],
                organisation_id,
                body,
                timestamp=int(time.time()),
            )
            try:
                async with session.post(self._target, data=body, headers=headers, allow_redirects=False) as answer:
                    result = str(answer.status)
                    accepted = 200 <= answer.status < 300
            except _FAILURES as error:
                result, accepted = str(error) or type(error).__name__, False
            for event in events:
                click.echo(f"{_now()}  {event.event_type:<16}  {event.event_id}  {event.account_id}  -> {result}")
            if accepted:
                break
            await asyncio.sleep(PAUSES_S[min(attempt, len(PAUSES_S) - 1)])
        return events[-1].sequence


def _now() -> str:
    return to_wire(utc_now())[11:23]
