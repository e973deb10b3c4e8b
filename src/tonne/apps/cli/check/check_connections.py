"""Checks of what Tonne connects to: database, mail server, card gateway, proxy, witnesses; and of the key that signs
PDFs.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import click
from cryptography import x509

from tonne.apps.cli.check.check_log import check_log
from tonne.apps.cli.check.check_result import CheckResult
from tonne.apps.cli.database import open_database, plain_failures, with_connection
from tonne.apps.wiring.sealed import ALL_SEALED
from tonne.channels.webhooks.sending.egress_proxy import EgressProxy, ProxyUnusable
from tonne.money.cards.gateways.stripe_key import StripeKeyRejected, StripeNotReached, check_stripe_key
from tonne.platform.db.database import Connection, connect
from tonne.platform.db.queues import read_hold
from tonne.platform.db.schema.migrate import MigrationError, require_compatible
from tonne.platform.db.server.clock_drift import MAX_DRIFT_S, measure_drift
from tonne.platform.db.server.hosts import hosts_of
from tonne.platform.db.server.server_facts import OLDEST_VERSION, ServerFacts, read_server_facts
from tonne.platform.db.session_settings import RoleSettingsMissing, require_role_settings
from tonne.platform.documents.mail.gateway import MailRefused
from tonne.platform.documents.mail.smtp import SmtpMail
from tonne.platform.keys.check_secret_key import compare_secret_key
from tonne.platform.keys.signing.document_key import KeyUnusable
from tonne.platform.keys.signing.key_store import find_current_key, find_key_by_public
from tonne.platform.keys.signing.model import KeyPurpose
from tonne.platform.keys.signing.operator_key import load_operator_key
from tonne.platform.settings.settings import Settings, SettingsError
from tonne.platform.values.context import utc_now

NAME = "document key"
EXPIRES_SOON = timedelta(days=30)
_OWN = (
    "To be trusted by PDF readers, set TONNE_DOCUMENT_KEY_FILE or TONNE_DOCUMENT_PKCS11_MODULE to a key with a "
    "certificate of a certificate authority."
)


async def check_document_key(connection: Connection, settings: Settings) -> CheckResult:
    """It changes nothing: a missing key is created by the first signature."""
    try:
        loaded = load_operator_key(settings)
    except KeyUnusable as error:
        return CheckResult.error(NAME, "It cannot be used: no PDF can be signed.", str(error))
    stored = await find_current_key(connection, KeyPurpose.DOCUMENT)
    if loaded is not None:
        known = await find_key_by_public(connection, loaded.certificate.pem)
        if known is not None and known.revoked_from is not None:
            return CheckResult.error(NAME, f"The key {known.id} was revoked.", "Set another key and certificate.")
        return _expiry(loaded.certificate.own, f"your own, {loaded.certificate.name}")
    if stored is None:
        return CheckResult.ok(NAME, f"none yet: the first PDF creates a self-signed one. {_OWN}")
    if stored.sealed is None:
        remedy = (
            "Set TONNE_DOCUMENT_KEY_FILE or TONNE_DOCUMENT_PKCS11_MODULE, or run `tonne signing-keys rotate document`."
        )
        return CheckResult.error(NAME, f"The settings do not name the current key {stored.record.id}.", remedy)
    certificate = x509.load_pem_x509_certificate(stored.record.public.encode())
    return _expiry(certificate, f"Tonne's own with a self-signed certificate. {_OWN}")


def _expiry(certificate: x509.Certificate, found: str) -> CheckResult:
    end, now = certificate.not_valid_after_utc, utc_now()
    remedy = "Get a new certificate and set it, see docs/signing.md. What was signed before stays valid."
    if end <= now:
        return CheckResult.error(NAME, f"Its certificate expired on {end:%Y-%m-%d}.", remedy)
    if end - now <= EXPIRES_SOON:
        return CheckResult.warning(NAME, f"Its certificate expires on {end:%Y-%m-%d}.", remedy)
    return CheckResult.ok(NAME, found)


SMTP_TIMEOUT_S = 10.0
LOCAL = {"localhost", "127.0.0.1", "::1"}
# Connections of a process beside its pool: notifications, readiness, metrics.
OTHER_CONNECTIONS = 3
DEFAULT_SENDER = "tonne@localhost"


def check_connections(settings: Settings) -> list[CheckResult]:
    outside = [asyncio.run(each(settings)) for each in (_mail, _cards, _proxy)]
    return [*_check_database(settings), *outside, *asyncio.run(check_log(settings))]


def _check_database(settings: Settings) -> list[CheckResult]:
    if not settings.database_url and not (settings.data_path / "postgres" / "data" / "PG_VERSION").exists():
        return [CheckResult.ok("database", "the embedded database will be created at the first start")]

    async def collect(connection: Connection) -> list[CheckResult]:
        return [result async for result in _examine(connection, settings)]

    try:
        with plain_failures(), open_database(settings) as url:
            results = asyncio.run(with_connection(url, collect))
            if settings.database_pooling == "transaction":
                results.append(asyncio.run(_pooler(settings)))
    except click.ClickException as error:
        return [CheckResult.error("database", "It cannot be used.", error.message)]
    return [*results, _replica(settings)] if settings.database_replica_url else results


def _replica(settings: Settings) -> CheckResult:
    """Not an error in any case: without a replica the primary is read."""
    name, remedy = "database replica", "Check TONNE_DATABASE_REPLICA_URL; meanwhile the primary is read."
    try:
        with plain_failures():
            facts = asyncio.run(with_connection(settings.database_replica_url, read_server_facts))
    except click.ClickException as error:
        return CheckResult.warning(name, f"It cannot be used: {error.message}", remedy)
    if not facts.is_replica:
        return CheckResult.warning(name, "It is a primary, not a replica.", remedy)
    return CheckResult.ok(name, f"PostgreSQL {facts.version}")


async def _pooler(settings: Settings) -> CheckResult:
    """The commands connect to PostgreSQL itself, so the way through PgBouncer is tried apart."""
    pooled = await connect(settings.database_url, settings)
    try:
        await require_role_settings(pooled, settings)
    except RoleSettingsMissing as error:
        return CheckResult.error("PgBouncer", "The database role has no time limits.", str(error))
    finally:
        await pooled.close()
    return CheckResult.ok("PgBouncer", "accepts connections, and the role has time limits")


async def _examine(connection: Connection, settings: Settings) -> AsyncIterator[CheckResult]:
    facts = await read_server_facts(connection)
    for result in _server(facts, settings):
        yield result
    yield await _clock(connection)
    try:
        await require_compatible(connection)
    except MigrationError as error:
        yield CheckResult.error("schema", "The schema does not match this release.", str(error))
        return
    yield CheckResult.ok("schema", "matches this release")
    yield await _secret_key(connection, settings)
    yield await check_document_key(connection, settings)
    yield await _hold(connection)


def _server(facts: ServerFacts, settings: Settings) -> Iterator[CheckResult]:
    if facts.version < OLDEST_VERSION:
        remedy = f"Use PostgreSQL {OLDEST_VERSION} or newer."
        yield CheckResult.error("database", f"It is PostgreSQL {facts.version}.", remedy)
    elif facts.is_replica:
        remedy = "Let TONNE_DATABASE_URL lead to the primary; with several hosts, add target_session_attrs=read-write."
        yield CheckResult.error("database", "It is a replica, which accepts no orders.", remedy)
    elif facts.encoding != "UTF8":
        remedy = "Create the database again with ENCODING 'UTF8'."
        yield CheckResult.error("database", f"Its encoding is {facts.encoding}: many names cannot be stored.", remedy)
    else:
        kind = "your own" if settings.database_url else "embedded"
        yield CheckResult.ok("database", f"{kind}, PostgreSQL {facts.version}")
    if settings.database_url:
        yield _encryption(facts, settings.database_url)
    yield _connections(facts, settings)


def _encryption(facts: ServerFacts, url: str) -> CheckResult:
    name = "database TLS"
    if all(host in LOCAL or host.startswith("/") for host, _ in hosts_of(url)):
        return CheckResult.ok(name, "not needed: the database is on this machine")
    remedy = "Add sslmode=verify-full to TONNE_DATABASE_URL, and sslrootcert for a certificate authority of your own."
    if not facts.is_encrypted:
        return CheckResult.warning(
            name, "The connection is not encrypted: the network sees passwords and data.", remedy
        )
    mode = parse_qs(urlsplit(url).query).get("sslmode", ["prefer"])[-1]
    if mode not in {"verify-full", "verify-ca"}:
        found = "The connection is encrypted, but the server's certificate is not verified."
        return CheckResult.warning(name, found, remedy)
    return CheckResult.ok(name, f"encrypted, {mode}")


def _connections(facts: ServerFacts, settings: Settings) -> CheckResult:
    processes = settings.api_processes + 1
    needed = processes * (settings.database_connections + OTHER_CONNECTIONS)
    found = f"up to {needed} for {settings.api_processes} api and 1 worker process, of {facts.connections}"
    if needed > facts.connections:
        remedy = "Raise max_connections of the database, or lower TONNE_DATABASE_CONNECTIONS."
        return CheckResult.warning("database connections", f"{found}: some would be refused.", remedy)
    return CheckResult.ok("database connections", found)


async def _clock(connection: Connection) -> CheckResult:
    drift_s = await measure_drift(connection)
    if abs(drift_s) > MAX_DRIFT_S:
        side = "ahead of" if drift_s > 0 else "behind"
        found = f"This machine is {abs(drift_s):,.1f} s {side} the database."
        return CheckResult.warning("clock", found, "Synchronise the clocks of all machines (NTP).")
    return CheckResult.ok("clock", "the same as the database's")


async def _secret_key(connection: Connection, settings: Settings) -> CheckResult:
    try:
        box = await compare_secret_key(connection, settings, ALL_SEALED)
    except SettingsError as error:
        return CheckResult.error("secret key", "It is missing, or not the key of this database.", str(error))
    return CheckResult.ok("secret key", "will be created at the first start" if box is None else box.key_id)


async def _hold(connection: Connection) -> CheckResult:
    hold = await read_hold(connection)
    if hold is None:
        return CheckResult.ok("hold", "the service is not held")
    found = f"The service is held by {hold.held_by}: {hold.reason} It answers reads only."
    remedy = "Run `tonne resume`: it shows what would be sent, and asks before it ends the hold."
    return CheckResult.warning("hold", found, remedy)


async def _mail(settings: Settings) -> CheckResult:
    if not settings.smtp_url:
        return CheckResult.warning(
            "mail",
            "No mail server is set: mails are only written to files in the data folder.",
            "Set TONNE_SMTP_URL and TONNE_MAIL_FROM.",
        )
    try:
        await SmtpMail(settings.smtp_url, SMTP_TIMEOUT_S).check()
    except MailRefused as error:
        remedy = "Check TONNE_SMTP_URL: host, port, user and password, and smtps:// for TLS from the start."
        return CheckResult.error("mail", f"The mail server cannot be used: {error}.", remedy)
    if DEFAULT_SENDER in settings.mail_from:
        found = f"The sender is {settings.mail_from}, which mail servers reject."
        return CheckResult.warning("mail", found, "Set TONNE_MAIL_FROM to an address of your own domain.")
    return CheckResult.ok("mail", f"the server accepts connections, sender {settings.mail_from}")


async def _proxy(settings: Settings) -> CheckResult:
    proxy = EgressProxy.from_settings(settings)
    if proxy is None:
        return CheckResult.ok("egress proxy", "not used: requests to webhook receivers go out directly")
    place = f"{proxy.url.host}:{proxy.url.port}"
    try:
        await proxy.check()
    except ProxyUnusable as error:
        remedy = "Check TONNE_EGRESS_PROXY and the firewall. Until then no event reaches a receiver; none is lost."
        return CheckResult.error("egress proxy", f"The proxy at {place} cannot be reached: {error}.", remedy)
    return CheckResult.ok("egress proxy", f"{place} accepts connections")


async def _cards(settings: Settings) -> CheckResult:
    if not settings.stripe_secret_key:
        return CheckResult.ok("cards", "only in test mode: TONNE_STRIPE_SECRET_KEY is not set")
    try:
        await check_stripe_key(settings.stripe_secret_key, settings.stripe_api_base)
    except StripeKeyRejected as error:
        return CheckResult.error("cards", f"{error}.", "Set TONNE_STRIPE_SECRET_KEY to a live key from the dashboard.")
    except StripeNotReached as error:
        return CheckResult.warning("cards", f"Stripe cannot be reached: {error}.", "Check the way to the internet.")
    if not settings.stripe_webhook_secret:
        return CheckResult.warning(
            "cards",
            "TONNE_STRIPE_WEBHOOK_SECRET is not set: Tonne learns late of payments, refunds and disputes.",
            "Add an endpoint in Stripe's dashboard, see docs/cards.md, and set its secret.",
        )
    return CheckResult.ok("cards", "Stripe accepts the live key")
