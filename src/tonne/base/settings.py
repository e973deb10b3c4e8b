"""Settings: environment variables (`TONNE_*`) and files that they name, then a TOML file, then defaults.

`tonne.example.toml` explains each.
"""

import ipaddress
import re
import tomllib
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from tonne.base.bank_accounts import parse_bank_accounts
from tonne.base.countries import COUNTRIES
from tonne.base.currency_limits import parse_limits
from tonne.base.database_settings import find_fault
from tonne.base.environment import CONFIG_VARIABLE, VariableInvalid, read_variables
from tonne.base.iban import is_iban
from tonne.base.money import parse_amounts
from tonne.base.secret_keys import parse_key, parse_keys
from tonne.base.tax import TaxTerms, TaxTreatment
from tonne.base.tax_ids import parse_tax_id
from tonne.base.urls import WEB, UrlInvalid, parse_url

YEAR_S = 31_536_000
# Live invoices are not issued in this name: it is not the seller's own.
DEFAULT_SELLER_NAME = "Tonne"
SMTP_SCHEMES = ("smtp", "smtps")
# A request must be able to take its whole timeout and still be settled before its lease expires.
LEASE_PER_TIMEOUT = 1.5
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_CONTACT = re.compile(r"mailto:[^@\s:]+@[^@\s:]+|https://[!-~]+", re.ASCII)


class SettingsError(Exception):
    """A setting is invalid. The message says which and what to do."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    host: str = "127.0.0.1"
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)] = 8080
    metrics_port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0
    metrics_host: str = "127.0.0.1"
    metrics_token: str = ""
    data_dir: str = "./var"
    database_url: str = ""
    database_direct_url: str = ""
    database_pooling: Literal["session", "transaction"] = "session"
    database_replica_url: str = ""
    database_replica_lag_s: Annotated[float, msgspec.Meta(gt=0, le=3600)] = 10.0
    public_url: str = ""
    brand: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z][A-Za-z0-9-]{0,39}\Z")] = "Service"
    api_processes: Annotated[int, msgspec.Meta(ge=1, le=64)] = 1
    database_connections: Annotated[int, msgspec.Meta(ge=2, le=500)] = 16
    statement_timeout_s: Annotated[float, msgspec.Meta(gt=0, le=600)] = 10.0
    lock_timeout_s: Annotated[float, msgspec.Meta(gt=0, le=600)] = 2.0
    database_connect_s: Annotated[float, msgspec.Meta(gt=0, le=600)] = 3.0
    database_acquire_s: Annotated[float, msgspec.Meta(gt=0, le=600)] = 3.0
    drain_s: Annotated[float, msgspec.Meta(ge=0, le=600)] = 0.0
    rate_limit_per_second: Annotated[float, msgspec.Meta(gt=0, le=1e9)] = 100.0
    rate_limit_burst: Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)] = 200
    failed_auth_per_minute: Annotated[float, msgspec.Meta(gt=0, le=1e9)] = 30.0
    failed_auth_burst: Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)] = 30
    failed_lookup_per_minute: Annotated[float, msgspec.Meta(gt=0, le=1e9)] = 30.0
    failed_lookup_burst: Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)] = 30
    checkouts_per_minute: Annotated[float, msgspec.Meta(gt=0, le=1e9)] = 30.0
    checkouts_burst: Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)] = 30
    offset_pages_per_minute: Annotated[float, msgspec.Meta(gt=0, le=1e9)] = 120.0
    offset_pages_burst: Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)] = 120
    verify_per_minute: Annotated[float, msgspec.Meta(gt=0, le=1e9)] = 60.0
    verify_burst: Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)] = 60
    trusted_proxies: str = ""
    catalogue_refresh_s: Annotated[float, msgspec.Meta(ge=0, le=60)] = 1.0
    key_refresh_s: Annotated[float, msgspec.Meta(ge=0, le=5)] = 2.0
    pricing_retry_s: Annotated[float, msgspec.Meta(gt=0, le=YEAR_S)] = 30.0
    pricing_give_up_s: Annotated[float, msgspec.Meta(gt=0, le=YEAR_S)] = 86_400.0
    rate_max_age_days: Annotated[int, msgspec.Meta(ge=1, le=36_500)] = 31
    rate_change_factor: Annotated[float, msgspec.Meta(gt=1, le=1e6)] = 2.0
    minimum_order: Annotated[str, msgspec.Meta(max_length=2000)] = ""
    worker_poll_s: Annotated[float, msgspec.Meta(gt=0, le=60)] = 1.0
    secret_key: str = ""
    secret_keys_old: str = ""
    webhook_allow_private: str = ""
    webhook_ports: Annotated[str, msgspec.Meta(pattern=r"^(\*|[0-9]{1,5}( *, *[0-9]{1,5})*)\Z")] = "443,8443"
    webhook_ca_file: str = ""
    webhook_timeout_s: Annotated[float, msgspec.Meta(gt=0, le=30)] = 30.0
    webhook_lease_s: Annotated[float, msgspec.Meta(gt=0, le=600)] = 45.0
    webhook_concurrency: Annotated[int, msgspec.Meta(ge=1, le=5000)] = 256
    webhook_time_scale: Annotated[float, msgspec.Meta(gt=0, le=1)] = 1.0
    webhook_attempts_days: Annotated[int, msgspec.Meta(ge=1, le=36_500)] = 30
    payment_time_scale: Annotated[float, msgspec.Meta(gt=0, le=1)] = 1.0
    card_confirm_days: Annotated[int, msgspec.Meta(ge=1, le=60)] = 7
    stripe_secret_key: str = ""
    stripe_webhook_secret: str = ""
    stripe_api_base: str = ""
    refund_approval_above: Annotated[str, msgspec.Meta(max_length=1000)] = ""
    seller_name: Annotated[str, msgspec.Meta(min_length=1, max_length=200)] = DEFAULT_SELLER_NAME
    seller_address: Annotated[str, msgspec.Meta(max_length=1000)] = ""
    seller_tax_id: Annotated[str, msgspec.Meta(max_length=100)] = ""
    seller_vat_id: Annotated[str, msgspec.Meta(max_length=50)] = ""
    seller_registration: Annotated[str, msgspec.Meta(max_length=100)] = ""
    seller_street: Annotated[str, msgspec.Meta(max_length=200)] = ""
    seller_postcode: Annotated[str, msgspec.Meta(max_length=20)] = ""
    seller_city: Annotated[str, msgspec.Meta(max_length=100)] = ""
    seller_country: Annotated[str, msgspec.Meta(max_length=2)] = ""
    seller_email: Annotated[str, msgspec.Meta(max_length=254)] = ""
    bank_account_holder: Annotated[str, msgspec.Meta(max_length=200)] = ""
    bank_iban: Annotated[str, msgspec.Meta(max_length=50)] = ""
    bank_bic: Annotated[str, msgspec.Meta(max_length=20)] = ""
    bank_name: Annotated[str, msgspec.Meta(max_length=200)] = ""
    bank_accounts: Annotated[str, msgspec.Meta(max_length=2000)] = ""
    return_approval_above: Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)] = 1000
    invoice_due_days: Annotated[int, msgspec.Meta(ge=0, le=365)] = 30
    invoice_reminder_days: Annotated[int, msgspec.Meta(ge=1, le=365)] = 3
    invoice_cancel_days: Annotated[int, msgspec.Meta(ge=1, le=3650)] = 14
    tax_treatment: Literal["none", "standard", "reverse_charge", "exempt", "outside_scope"] = "none"
    tax_rate: Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,3}(\.[0-9]{1,3})?\Z")] = "0"
    tax_note_reverse_charge: Annotated[str, msgspec.Meta(max_length=500)] = (
        "Reverse charge: the recipient of the supply is liable for the tax."
    )
    tax_note_exempt: Annotated[str, msgspec.Meta(max_length=500)] = "Exempt from tax."
    tax_note_outside_scope: Annotated[str, msgspec.Meta(max_length=500)] = "Outside the scope of tax."
    hold_link_percent: Annotated[int, msgspec.Meta(ge=1, le=100)] = 5
    hold_client_percent: Annotated[int, msgspec.Meta(ge=1, le=100)] = 5
    hold_organisation_percent: Annotated[int, msgspec.Meta(ge=1, le=100)] = 5
    pool_wait_days: Annotated[int, msgspec.Meta(ge=0, le=3650)] = 30
    retirement_days: Annotated[int, msgspec.Meta(ge=1, le=365)] = 7
    registry_pages: Annotated[str, msgspec.Meta(max_length=10_000)] = ""
    smtp_url: str = ""
    mail_from: str = "Tonne <tonne@localhost>"
    security_contact: Annotated[str, msgspec.Meta(max_length=1000)] = ""
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @property
    def base_url(self) -> str:
        """The URL at which clients reach this service, without /v1 and without a trailing slash."""
        host = f"[{self.local_host}]" if ":" in self.local_host else self.local_host
        return _public(self.public_url) if self.public_url else f"http://{host}:{self.port}"

    @property
    def local_host(self) -> str:
        """The address at which programs on this machine reach the service."""
        return "127.0.0.1" if self.host in {"0.0.0.0", "::"} else self.host  # noqa: S104 - compared, not bound

    @property
    def data_path(self) -> Path:
        return Path(self.data_dir).expanduser().resolve()

    @property
    def security_contacts(self) -> tuple[str, ...]:
        """As URIs: an e-mail address becomes a mailto URI."""
        contacts = [part.strip() for part in self.security_contact.split(",") if part.strip()]
        return tuple(f"mailto:{contact}" if "@" in contact and ":" not in contact else contact for contact in contacts)

    @property
    def seller_tax(self) -> TaxTerms:
        """How orders are taxed unless their organisation has a treatment of its own."""
        treatment = TaxTreatment(self.tax_treatment)
        is_taxed = treatment is TaxTreatment.STANDARD
        return TaxTerms(treatment, Fraction(self.tax_rate) / 100 if is_taxed else Fraction(0))

    @property
    def minimum_orders(self) -> dict[str, int]:
        """The smallest total cost of an order in minor units, by currency."""
        return parse_amounts(self.minimum_order)

    @property
    def proxy_networks(self) -> tuple[Network, ...]:
        return parse_networks(self.trusted_proxies)

    @property
    def retirement_pages(self) -> tuple["RegistryPage", ...]:
        return parse_registry_pages(self.registry_pages)


SETTING_NAMES = tuple(field.name for field in msgspec.structs.fields(Settings))


class RegistryPage(NamedTuple):
    """The beginning of the addresses at which a registry publishes retirements."""

    registry: str
    prefix: str


def parse_registry_pages(text: str) -> tuple[RegistryPage, ...]:
    """`Mine=https://registry.example/, Other=https://…`; raises ValueError if a part is something else."""
    found = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        registry, _, prefix = (side.strip() for side in part.partition("="))
        if not registry or not prefix.startswith("https://"):
            raise ValueError(part)
        try:
            found.append(RegistryPage(registry, str(parse_url(prefix, WEB))))
        except UrlInvalid as error:
            raise ValueError(part) from error
    return tuple(found)


def load_settings(environ: Mapping[str, str]) -> Settings:
    """Read the file named in `TONNE_CONFIG`, if any, then the environment. Raises SettingsError."""
    values = _read_file(environ[CONFIG_VARIABLE]) if environ.get(CONFIG_VARIABLE) else {}
    try:
        values |= read_variables(environ, SETTING_NAMES)
    except VariableInvalid as error:
        raise SettingsError(str(error)) from error
    try:
        settings = msgspec.convert(values, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise SettingsError(f"A setting is invalid: {error}. See tonne.example.toml.") from error
    _validate(settings)
    return settings


def parse_networks(text: str) -> tuple[Network, ...]:
    """`10.0.0.0/8, 192.0.2.7`; raises ValueError when a part is not a network."""
    return tuple(ipaddress.ip_network(part.strip()) for part in text.split(",") if part.strip())


def _read_file(path: str) -> dict[str, Any]:
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"The file {path} in {CONFIG_VARIABLE} cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"The settings file {path} is not valid TOML: {error}.") from error


def _validate(settings: Settings) -> None:
    _validate_secret_keys(settings)
    _validate_webhooks(settings)
    _validate_money(settings)
    _validate_tax(settings)
    _validate_contacts(settings)
    _validate_metrics(settings)
    _validate_refunds(settings)
    if settings.public_url and not _is_url(settings.public_url, WEB):
        raise SettingsError("TONNE_PUBLIC_URL must be an http or https URL such as https://offsets.example.com.")
    urls = (settings.database_url, settings.database_direct_url, settings.database_replica_url)
    if fault := find_fault(*urls, pooling=settings.database_pooling):
        raise SettingsError(fault)
    # The message does not repeat the value: it contains a password.
    if settings.smtp_url and not _is_url(settings.smtp_url, SMTP_SCHEMES, credentials=True):
        raise SettingsError("TONNE_SMTP_URL must be a URL that starts with smtp:// or smtps://.")
    try:
        _ = settings.data_path
    except RuntimeError as error:
        raise SettingsError(f"TONNE_DATA_DIR cannot be used: {error}") from error
    for name, text in (
        ("TONNE_TRUSTED_PROXIES", settings.trusted_proxies),
        ("TONNE_WEBHOOK_ALLOW_PRIVATE", settings.webhook_allow_private),
    ):
        try:
            parse_networks(text)
        except ValueError as error:
            raise SettingsError(f"{name} must be a comma-separated list of networks: {error}.") from error
    # Again not repeated: it is a secret.
    if re.match(r"[srp]k_test_", settings.stripe_secret_key):
        raise SettingsError(
            "TONNE_STRIPE_SECRET_KEY is a key of Stripe's test mode: its test cards would pay for live orders. Set a "
            "live key (sk_live_ or rk_live_). Tonne's own test mode needs no key."
        )
    if settings.stripe_secret_key and not re.fullmatch(r"[sr]k_live_[A-Za-z0-9_]{1,250}", settings.stripe_secret_key):
        raise SettingsError(
            "TONNE_STRIPE_SECRET_KEY must be a live secret or restricted key, which starts with sk_live_ or rk_live_."
        )
    if settings.stripe_api_base and not _is_url(settings.stripe_api_base, WEB):
        raise SettingsError("TONNE_STRIPE_API_BASE must be an http or https URL, or empty for Stripe's own.")
    try:
        _ = settings.retirement_pages
    except ValueError as error:
        raise SettingsError(
            f"TONNE_REGISTRY_PAGES: {error} is not a registry and its address. Write NAME=https://registry.example/, "
            "separated by commas."
        ) from error
    if settings.invoice_cancel_days < settings.invoice_reminder_days:
        raise SettingsError("TONNE_INVOICE_CANCEL_DAYS must not be less than TONNE_INVOICE_REMINDER_DAYS.")


def _validate_money(settings: Settings) -> None:
    if settings.bank_iban and not is_iban(settings.bank_iban):
        raise SettingsError(
            "TONNE_BANK_IBAN is not a valid IBAN: its check digits are wrong. Check it for typing errors."
        )
    name = "TONNE_BANK_ACCOUNTS"
    try:
        parse_bank_accounts(settings.bank_accounts)
        name = "TONNE_MINIMUM_ORDER"
        parse_amounts(settings.minimum_order)
    except ValueError as error:
        raise SettingsError(f"{name} is not valid: {error}.") from error


def _validate_tax(settings: Settings) -> None:
    country = settings.seller_country
    if country and country not in COUNTRIES:
        raise SettingsError("TONNE_SELLER_COUNTRY must be an ISO 3166 code of two capital letters, such as DE.")
    if settings.seller_vat_id:
        try:
            parse_tax_id(settings.seller_vat_id, country or None)
        except ValueError as error:
            raise SettingsError(f"TONNE_SELLER_VAT_ID: {error}") from error
    if settings.seller_tax.treatment is TaxTreatment.STANDARD and not 0 < settings.seller_tax.rate <= 1:
        raise SettingsError("TONNE_TAX_RATE must be above 0 and at most 100: the tax treatment is standard.")


def _validate_secret_keys(settings: Settings) -> None:
    """The messages do not repeat the keys."""
    form = "32 bytes in base64, as printed by `openssl rand -base64 32`"
    try:
        _ = settings.secret_key and parse_key(settings.secret_key)
    except ValueError as error:
        raise SettingsError(f"TONNE_SECRET_KEY must be {form}.") from error
    try:
        parse_keys(settings.secret_keys_old)
    except ValueError as error:
        raise SettingsError(f"TONNE_SECRET_KEYS_OLD must be keys separated by commas, each {form}.") from error


def _validate_metrics(settings: Settings) -> None:
    if settings.metrics_port == settings.port:
        raise SettingsError("TONNE_METRICS_PORT must differ from TONNE_PORT: choose a free port, such as 9464.")
    # Not repeated: it is a secret.
    if settings.metrics_token and not re.fullmatch(r"[!-~]{16,250}", settings.metrics_token):
        raise SettingsError(
            "TONNE_METRICS_TOKEN must be 16 to 250 printable characters without spaces, such as those printed by "
            "`openssl rand -hex 32`."
        )


def _validate_refunds(settings: Settings) -> None:
    try:
        parse_limits(settings.refund_approval_above)
    except ValueError as error:
        raise SettingsError(
            "TONNE_REFUND_APPROVAL_ABOVE must be one amount, such as 500, or one per currency, such as EUR 500, JPY "
            f"80000: {error}."
        ) from error


def _validate_webhooks(settings: Settings) -> None:
    if settings.webhook_lease_s < LEASE_PER_TIMEOUT * settings.webhook_timeout_s - 1e-9:
        raise SettingsError(
            f"TONNE_WEBHOOK_LEASE_S ({settings.webhook_lease_s:g}) must be at least {LEASE_PER_TIMEOUT:g} times "
            f"TONNE_WEBHOOK_TIMEOUT_S ({settings.webhook_timeout_s:g}): otherwise a second worker sends the same "
            "request while the first still waits for the response."
        )
    if settings.webhook_ca_file and not Path(settings.webhook_ca_file).is_file():
        raise SettingsError(f"TONNE_WEBHOOK_CA_FILE: there is no file {settings.webhook_ca_file}.")


def _validate_contacts(settings: Settings) -> None:
    for contact in settings.security_contacts:
        if not _CONTACT.fullmatch(contact):
            raise SettingsError(
                f"TONNE_SECURITY_CONTACT: {contact!r} is neither an e-mail address nor an https URL. Separate several "
                "by commas."
            )


def _is_url(text: str, schemes: Sequence[str], *, credentials: bool = False) -> bool:
    try:
        url = parse_url(text, schemes, credentials=credentials)
    except UrlInvalid:
        return False
    return "?" not in url.rest and "#" not in url.rest


@cache
def _public(url: str) -> str:
    return str(parse_url(url, WEB)).rstrip("/")
