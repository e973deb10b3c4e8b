"""tonne demo, and the demo data that `tonne serve --demo` creates"""

import contextlib
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path

import click
import msgspec

from tonne.apps.cli.database import ACTOR, settings_from_environment
from tonne.apps.cli.demo.customers import (
    GOOD_CARD,
    first_day,
    has_other_orders_any_account,
    list_customers_any_account,
    open_customers,
    simulated_card,
)
from tonne.apps.cli.demo.story import ADMIN
from tonne.channels.checkout.links.schemas import OffsetLinkIn
from tonne.channels.checkout.links.settings import create_account_link
from tonne.channels.public_pages.change_page import PageChange, change_page
from tonne.money.cards.stored_cards.stored_cards import store_card
from tonne.platform.db.database import Connection
from tonne.platform.http.authenticator import hash_key
from tonne.platform.keys.secret_box import SecretBox
from tonne.platform.process.private_files import create_private_folder, write_private_file
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import MassUnit
from tonne.platform.values.context import Mode, Scope, new_id, replace, set_time, utc_now
from tonne.platform.values.urls import is_loopback
from tonne.selling.accounts import store
from tonne.selling.accounts.change_account import open_account
from tonne.selling.accounts.keys import store as key_store
from tonne.selling.accounts.keys.api_keys import issue_key
from tonne.selling.accounts.model import Account, AccountKind, Organisation, PaymentMethod
from tonne.selling.accounts.organisations.change_organisation import (
    DEFAULT_FEE_RATE,
    add_admin,
    open_organisation,
    set_address,
)
from tonne.selling.catalogue.demo import priced_demo_files
from tonne.selling.catalogue.store import load_catalogue
from tonne.selling.estimates.record_estimate import record_estimate
from tonne.selling.users.create_user import create_user, grant_role
from tonne.selling.users.model import Role, User
from tonne.selling.users.passwords import Passwords
from tonne.selling.users.second_factor.second_factor import new_totp_secret
from tonne.selling.users.store import find_role, find_user_by_email, set_password_hash, set_totp
from tonne.supply.stock.lots.import_lots import import_files

NAME = "Demo organisation"
DEMO_FILE = "demo.json"
CURRENCY = "EUR"
CLIENT = "Demo client"
ADDRESS = "1 Harbour Street\n1000 Sample Town"
OPERATOR = "operator@example.com"
_EMISSIONS = (
    ("1.105697", MassUnit.T, "Flight Berlin to Lisbon and back, economy"),
    ("184.2", MassUnit.KG, "Parcel deliveries of one week"),
    ("1040", MassUnit.T, "Yearly footprint of a small factory"),
    ("61200", MassUnit.G, "Video calls of a team in one month"),
    ("2.5", MassUnit.T, "Three days of a conference, 40 people"),
)


class DemoMode(msgspec.Struct):
    api_key: str
    account_id: str
    client_account_id: str
    estimate_ids: list[str]
    bundle_ids: list[str]


class DemoSignIn(msgspec.Struct):
    email: str
    password: str


class DemoOperator(DemoSignIn):
    # For an authenticator app: operators need a second factor.
    totp_secret: str


class Demo(msgspec.Struct):
    base_url: str
    organisation_id: str
    test: DemoMode
    live: DemoMode
    # Both in test mode.
    offset_link_id: str
    sustainability_slug: str
    sign_in: DemoSignIn
    operator: DemoOperator


# Makes the history of the customers, whose accounts are named.
Play = Callable[[Mapping[str, Scope]], Awaitable[None]]


async def ensure_demo(connection: Connection, settings: Settings, play: Play | None = None) -> Demo | None:
    """Create the demo in an empty database, or find the existing one. None if the database has other organisations.

    With `play`, a new demo gets customers and their history before its users. One without users is unfinished.
    """
    path = settings.data_path / DEMO_FILE
    if play is not None and (customers := await _begin_history(connection)):
        await play(customers)
    async with _locked(connection) as organisations:
        demo = await _known(connection, path)
        if not organisations:
            demo = await _equip(connection, settings, await _seed(connection))
        elif demo is None:
            ours = next((found for found in organisations if found.name == NAME), None)
            demo = None if ours is None else await _equip(connection, settings, ours.id)
    if demo is not None:
        demo.base_url = f"{settings.base_url}/v1"
        # Private, because it contains keys.
        create_private_folder(path.parent)
        write_private_file(path, msgspec.json.format(msgspec.json.encode(demo), indent=2))
    return demo


async def _begin_history(connection: Connection) -> dict[str, Scope]:
    """The accounts of the customers, if the database is empty or their history is unfinished."""
    async with _locked(connection) as organisations:
        if not organisations:
            set_time(datetime.combine(first_day() - timedelta(days=1), time(9), UTC))
            try:
                await open_customers(connection, await _seed(connection))
            finally:
                set_time(None)
        elif NAME not in {found.name for found in organisations} or await find_user_by_email(connection, ADMIN):
            return {}
        if await has_other_orders_any_account(connection):
            raise click.ClickException(
                "The history of the demo is unfinished, and the database has orders of its own. Use an empty database."
            )
        return await list_customers_any_account(connection)


@contextlib.asynccontextmanager
async def _locked(connection: Connection) -> AsyncIterator[list[Organisation]]:
    """All organisations, in a transaction that processes which start at the same time cannot share."""
    async with connection.transaction():
        # The first one needs longer than a lock may usually take.
        await connection.execute(
            "SET LOCAL lock_timeout = '1min'; SELECT pg_advisory_xact_lock(hashtext('tonne demo'))"
        )
        yield await store.list_organisations_any_account(connection)


def warn_if_reachable(settings: Settings) -> None:
    """The demo has public pages and no TLS: it is meant for one machine."""
    if settings.host == "localhost" or is_loopback(settings.host):
        return
    click.echo(
        f"Warning: other machines can reach the demo, because TONNE_HOST is {settings.host}. Anyone can use its public "
        "pages, and API keys are sent without encryption. For more than a trial, run `tonne serve` without --demo, "
        "behind a proxy with TLS.",
        err=True,
    )


@click.command("demo")
def print_again() -> None:
    """Print the demo's sign-ins, API key, links and first request.

    They are printed when `tonne serve --demo` starts, and stored in demo.json in the data folder.
    """
    settings = settings_from_environment()
    try:
        demo = msgspec.json.decode((settings.data_path / DEMO_FILE).read_bytes(), type=Demo)
    except (OSError, msgspec.MsgspecError) as error:
        message = f"There is no demo in {settings.data_path}. Start one with `tonne serve --demo`."
        raise click.ClickException(message) from error
    click.echo("\n".join(_describe(settings, demo)))


def print_demo(settings: Settings, demo: Demo | None) -> None:
    """Prints everything at once, so that no log line comes in between."""
    running = f"Tonne is running at {settings.base_url}"
    click.echo("\n".join(["", running, "", *_describe(settings, demo), "", "Press Ctrl-C to stop.", ""]))


def _describe(settings: Settings, demo: Demo | None) -> list[str]:
    lines = [
        f"  API            {settings.base_url}/v1",
        f"  Documentation  {settings.base_url}/docs/",
    ]
    if demo is not None:
        address = f"{settings.base_url}/v1/orders/by-estimate"
        body = f'{{"estimate_id": "{demo.test.estimate_ids[0]}", "idempotency_key": "my-first-order"}}'
        lines += [
            f"  Dashboard      {settings.base_url}/dashboard",
            f"  Sign in as     {demo.sign_in.email} with the password {demo.sign_in.password}",
            f"  Or operator    {demo.operator.email} with the password {demo.operator.password}",
            f"                 and the code printed by `tonne user code {demo.operator.email}`",
            f"  Test API key   {demo.test.api_key}",
            f"  Offset link    {settings.base_url}/offset/{demo.offset_link_id}",
            f"  Public page    {settings.base_url}/sustainability/test/{demo.sustainability_slug}",
            f"  For scripts    {settings.data_path / DEMO_FILE}",
            "",
            "Place an order:",
            "",
            f"  curl {address} \\",
            f"    -H 'Authorization: Bearer {demo.test.api_key}' \\",
            "    -H 'Content-Type: application/json' \\",
            f"    -d '{body}'",
        ]
    return lines


async def _known(connection: Connection, path: Path) -> Demo | None:
    """The content of demo.json, if its keys are valid in this database."""
    try:
        demo = msgspec.json.decode(path.read_bytes(), type=Demo)  # noqa: ASYNC240 - nothing else runs yet
    except (OSError, msgspec.MsgspecError):
        return None
    for keys in (demo.test, demo.live):
        if await key_store.find_valid_key(connection, hash_key(keys.api_key.encode()), utc_now()) is None:
            return None
    return demo


async def _seed(tx: Connection) -> str:
    """The id of the organisation."""
    organisation = await open_organisation(tx, NAME, DEFAULT_FEE_RATE, by=ACTOR.unbound.now())
    await set_address(tx, organisation.id, ADDRESS, by=ACTOR.unbound.now())
    own_ids = {mode: new_id("acc") for mode in Mode}
    for mode in Mode:
        files = priced_demo_files(mode, utc_now())
        await import_files(tx, mode, files, currency=CURRENCY, by=ACTOR.unbound.now(), is_demo=True)
        for kind, name in ((AccountKind.ACCOUNT, "Demo account"), (AccountKind.CLIENT_ACCOUNT, CLIENT)):
            is_own = kind is AccountKind.ACCOUNT
            scope = Scope(organisation.id, own_ids[mode] if is_own else new_id("acc"), mode)
            # In test mode, one account pays by a simulated card and the other by invoice, to show both.
            by_card = mode is Mode.TEST and is_own
            method = PaymentMethod.CARD if by_card else PaymentMethod.INVOICE
            account = Account(scope, kind, name, CURRENCY, name, method, utc_now())
            if is_own:
                other = next(each for each in Mode if each is not mode)
                account = replace(account, sibling_id=own_ids[other])
            await open_account(tx, account, actor=ACTOR.unbound)
            if by_card:
                await store_card(tx, scope, simulated_card(GOOD_CARD), by=ACTOR.unbound.now())
    return organisation.id


async def _equip(tx: Connection, settings: Settings, organisation_id: str) -> Demo:
    """Create keys and estimates. Only hashes of keys are stored, so a lost demo.json means new keys."""
    await add_admin(tx, organisation_id, ADMIN, by=ACTOR.unbound.now())
    accounts = await store.list_accounts(tx, organisation_id)
    modes: dict[Mode, DemoMode] = {}
    for mode in Mode:
        account = next(a.scope for a in accounts if a.scope.mode is mode and a.kind is AccountKind.ACCOUNT)
        client = next(a.scope for a in accounts if a.scope.mode is mode and a.name == CLIENT)
        catalogue = await load_catalogue(tx, mode, "")
        bundles = catalogue.bundles.values() if catalogue else ()
        modes[mode] = DemoMode(
            api_key=(await issue_key(tx, account, "Demo key", by=ACTOR.unbound.now()))[1],
            account_id=account.account_id,
            client_account_id=client.account_id,
            estimate_ids=[
                (await record_estimate(tx, account, Decimal(amount), unit, description, now=utc_now())).id
                for amount, unit, description in _EMISSIONS
            ],
            bundle_ids=[bundle.id for bundle in bundles if bundle.enabled],
        )
    scope = Scope(organisation_id, modes[Mode.TEST].account_id, Mode.TEST)
    return Demo(
        base_url="",
        organisation_id=organisation_id,
        test=modes[Mode.TEST],
        live=modes[Mode.LIVE],
        offset_link_id=await _open_link(tx, scope, settings),
        sustainability_slug=await _open_page(tx, scope),
        sign_in=await _create_owner(tx, organisation_id),
        operator=await _create_operator(tx, SecretBox.from_settings(settings)),
    )


async def _create_owner(tx: Connection, organisation_id: str) -> DemoSignIn:
    user, password = await _create_user(tx, ADMIN, "Demo owner", is_operator=False)
    if await find_role(tx, organisation_id, user.id) is None:
        await grant_role(tx, organisation_id, user.id, Role.OWNER, by=ACTOR.unbound.now())
    return DemoSignIn(ADMIN, password)


async def _create_operator(tx: Connection, box: SecretBox) -> DemoOperator:
    user, password = await _create_user(tx, OPERATOR, "Demo operator", is_operator=True)
    secret = new_totp_secret()
    await set_totp(tx, user.id, box.seal(secret, user.id), enabled=True, step=0)
    return DemoOperator(OPERATOR, password, secret)


async def _create_user(tx: Connection, email: str, name: str, *, is_operator: bool) -> tuple[User, str]:
    """A user with a random password, or a new password if the user exists: only its hash is stored."""
    password = "-".join(secrets.token_hex(2) for _ in range(4))
    password_hash = await Passwords().hash(password, email)
    found = await find_user_by_email(tx, email)
    if found is not None:
        await set_password_hash(tx, found[0].id, password_hash)
        return found[0], password
    user = await create_user(
        tx,
        email,
        name,
        password_hash=password_hash,
        is_operator=is_operator,
        may_approve=is_operator,
        is_demo=True,
        by=ACTOR.unbound.now(),
    )
    return user, password


async def _open_link(tx: Connection, scope: Scope, settings: Settings) -> str:
    body = OffsetLinkIn(
        title="Retire credits for your trip",
        message="This link belongs to the demo. Try it with the test card 4242 4242 4242 4242.",
        preset_quantity="1.5",
    )
    link, _ = await create_account_link(tx, scope, body, settings=settings, by=ACTOR.unbound.now())
    return link.id


async def _open_page(tx: Connection, scope: Scope) -> str:
    change = PageChange(
        enabled=True, title="Retired by our demo", description="This page counts every order of the demo."
    )
    return (await change_page(tx, scope, change, by=ACTOR.unbound.now())).slug
