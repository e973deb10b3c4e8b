"""The settings and their defaults. `tonne.example.toml` explains each, `load_settings.py` reads and validates them."""

import ipaddress
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Protocol

import msgspec

from tonne.platform.settings.currency_limits import limit_minor
from tonne.platform.values.amounts import TaxTerms, TaxTreatment, minimum_charge, parse_amounts
from tonne.platform.values.urls import WEB, UrlInvalid, is_loopback, parse_url
from tonne_verify.errors import NotProven
from tonne_verify.notes import SignatureType, VerifierKey

MAX_WITNESSES = 16
_LOCAL = "localhost"
_TaxNote = Annotated[str, msgspec.Meta(max_length=500)]


class WitnessAddress(NamedTuple):
    """`url` is the submission prefix of c2sp.org/tlog-witness, without a trailing slash."""

    url: str
    key: VerifierKey


class _WitnessSettings(Protocol):
    @property
    def log_witnesses(self) -> str: ...
    @property
    def log_witness_ca_file(self) -> str: ...


def parse_witnesses(text: str) -> tuple[WitnessAddress, ...]:
    """`https://witness.example/prefix witness.example/w1+c5f3…+BG0…, …`. Raises ValueError with what is wrong."""
    found = tuple(_parse_witness(part) for part in filter(None, map(str.strip, text.split(","))))
    if len({witness.key.name for witness in found}) < len(found):
        raise ValueError("two witnesses have the same name")
    if len(found) > MAX_WITNESSES:
        raise ValueError(f"there are more than {MAX_WITNESSES} witnesses")
    return found


def _parse_witness(text: str) -> WitnessAddress:
    address, _, vkey = text.partition(" ")
    if not vkey:
        raise ValueError(f"{text[:100]!r} is not an address and a key, separated by a space")
    try:
        url = parse_url(address, WEB)
        key = VerifierKey.parse(vkey.strip())
    except UrlInvalid as error:
        raise ValueError(f"the address {address[:100]!r} cannot be used: {error}") from error
    except NotProven as error:
        raise ValueError(str(error).rstrip(".")) from error
    if "?" in url.rest or "#" in url.rest:
        raise ValueError(f"the address {address} must not have a query or a fragment")
    if url.scheme != "https" and url.host != _LOCAL and not is_loopback(url.host.strip("[]")):
        raise ValueError(f"the address {address} must start with https://")
    if key.kind not in SignatureType.of_witnesses():
        raise ValueError(f"the key of {key.name} is not that of a witness: it must be of type 4 or 6 (cosignature)")
    return WitnessAddress(str(url).rstrip("/"), key)


def find_witness_fault(settings: _WitnessSettings) -> str | None:
    """What is wrong with the settings, and what to do; None if they are valid."""
    try:
        parse_witnesses(settings.log_witnesses)
    except ValueError as error:
        return (
            f"TONNE_LOG_WITNESSES: {error}. Write the address and the key of each witness with a space between them, "
            "and separate witnesses by commas."
        )
    if settings.log_witness_ca_file and not Path(settings.log_witness_ca_file).is_file():
        return f"TONNE_LOG_WITNESS_CA_FILE: there is no file {settings.log_witness_ca_file}."
    return None


YEAR_S = 31_536_000
# Live invoices are not issued in this name: it is not the seller's own.
DEFAULT_SELLER_NAME = "Tonne"
SMTP_SCHEMES = ("smtp", "smtps")
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class SettingsError(Exception):
    """A setting is invalid. The message says which and what to do."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    host: str = "127.0.0.1"
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)] = 8080
    metrics_port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0
    metrics_host: str = "127.0.0.1"
    metrics_token: str = ""
    worker_health_port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0
    worker_stuck_s: Annotated[float, msgspec.Meta(gt=0, le=86_400)] = 900.0
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
    drain_s: Annotated[float, msgspec.Meta(ge=0, le=600)] = 5.0
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
    document_key_file: str = ""
    document_certificate_file: str = ""
    document_key_password: str = ""
    document_pkcs11_module: str = ""
    document_pkcs11_token: Annotated[str, msgspec.Meta(max_length=100)] = ""
    document_pkcs11_key: Annotated[str, msgspec.Meta(max_length=200)] = ""
    document_pkcs11_pin: str = ""
    document_time_stamp_url: Annotated[str, msgspec.Meta(max_length=2048)] = ""
    webhook_allow_private: str = ""
    webhook_ports: Annotated[str, msgspec.Meta(pattern=r"^(\*|[0-9]{1,5}( *, *[0-9]{1,5})*)\Z")] = "*"
    webhook_ca_file: str = ""
    webhook_client_certificate_file: str = ""
    webhook_client_key_file: str = ""
    egress_proxy: Annotated[str, msgspec.Meta(max_length=2048)] = ""
    webhook_timeout_s: Annotated[float, msgspec.Meta(gt=0, le=30)] = 30.0
    webhook_lease_s: Annotated[float, msgspec.Meta(gt=0, le=600)] = 45.0
    webhook_concurrency: Annotated[int, msgspec.Meta(ge=1, le=5000)] = 256
    webhook_time_scale: Annotated[float, msgspec.Meta(gt=0, le=1)] = 1.0
    webhook_attempts_days: Annotated[int, msgspec.Meta(ge=0, le=36_500)] = 30
    events_days: Annotated[int, msgspec.Meta(ge=0, le=36_500)] = 0
    mails_days: Annotated[int, msgspec.Meta(ge=0, le=36_500)] = 400
    document_retention_years: Annotated[int, msgspec.Meta(ge=1, le=100)] = 10
    archive_tables: Annotated[str, msgspec.Meta(max_length=200)] = "events"
    archive_dir: str = ""
    log_head_folder: str = ""
    request_log: bool = True
    payment_time_scale: Annotated[float, msgspec.Meta(gt=0, le=1)] = 1.0
    card_confirm_days: Annotated[int, msgspec.Meta(ge=1, le=60)] = 7
    stripe_secret_key: str = ""
    stripe_webhook_secret: str = ""
    stripe_api_base: str = ""
    refund_approval_above: Annotated[str, msgspec.Meta(max_length=1000)] = ""
    payment_tolerance: Annotated[str, msgspec.Meta(max_length=1000)] = ""
    approvals_by: Literal["browser", "token"] = "browser"
    seller_name: Annotated[str, msgspec.Meta(min_length=1, max_length=200)] = DEFAULT_SELLER_NAME
    seller_address: Annotated[str, msgspec.Meta(max_length=1000)] = ""
    seller_tax_id: Annotated[str, msgspec.Meta(max_length=100)] = ""
    seller_vat_id: Annotated[str, msgspec.Meta(max_length=50)] = ""
    seller_registration: Annotated[str, msgspec.Meta(max_length=100)] = ""
    tax_representative_name: Annotated[str, msgspec.Meta(max_length=200)] = ""
    tax_representative_address: Annotated[str, msgspec.Meta(max_length=1000)] = ""
    tax_representative_vat_id: Annotated[str, msgspec.Meta(max_length=50)] = ""
    seller_street: Annotated[str, msgspec.Meta(max_length=200)] = ""
    seller_postcode: Annotated[str, msgspec.Meta(max_length=20)] = ""
    seller_city: Annotated[str, msgspec.Meta(max_length=100)] = ""
    seller_country: Annotated[str, msgspec.Meta(max_length=2)] = ""
    seller_email: Annotated[str, msgspec.Meta(max_length=254)] = ""
    seller_endpoint: Annotated[str, msgspec.Meta(max_length=105)] = ""
    seller_contact_name: Annotated[str, msgspec.Meta(max_length=100)] = ""
    seller_phone: Annotated[str, msgspec.Meta(max_length=50)] = ""
    einvoice_network: Literal["mail", "folder"] = "mail"
    einvoice_folder: str = ""
    withdrawal_consent: bool = True
    withdrawal_texts: Annotated[str, msgspec.Meta(max_length=1000)] = ""
    bank_account_holder: Annotated[str, msgspec.Meta(max_length=200)] = ""
    bank_iban: Annotated[str, msgspec.Meta(max_length=50)] = ""
    bank_bic: Annotated[str, msgspec.Meta(max_length=20)] = ""
    bank_name: Annotated[str, msgspec.Meta(max_length=200)] = ""
    bank_accounts: Annotated[str, msgspec.Meta(max_length=2000)] = ""
    return_approval_above: Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)] = 1000
    bank_refund_minimum: Annotated[str, msgspec.Meta(max_length=1000)] = "EUR 1.00"
    invoice_due_days: Annotated[int, msgspec.Meta(ge=0, le=365)] = 30
    invoice_reminder_days: Annotated[int, msgspec.Meta(ge=1, le=365)] = 3
    invoice_cancel_days: Annotated[int, msgspec.Meta(ge=1, le=3650)] = 14
    tax_treatment: Literal["none", "standard", "reverse_charge", "exempt", "outside_scope"] = "none"
    tax_rate: Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,3}(\.[0-9]{1,3})?\Z")] = "0"
    seller_language: Literal["en", "de", "fr", "es", "it", "nl"] = "en"
    home_currency: Annotated[str, msgspec.Meta(max_length=3)] = ""
    vat_register: Literal["vies", "by_hand"] = "vies"
    vies_url: Annotated[str, msgspec.Meta(max_length=2048)] = "https://ec.europa.eu/taxation_customs/vies/rest-api"
    vat_check_max_age_days: Annotated[int, msgspec.Meta(ge=1, le=90)] = 30
    cash_accounting: bool = False
    tax_by_country: Literal["off", "consumers"] = "off"
    tax_point: Literal["invoice", "payment", "supply"] = "invoice"
    simplified_invoice_up_to: Annotated[str, msgspec.Meta(max_length=1000)] = "EUR 100"
    small_card_orders: Literal["fulfil_first", "collect_first", "refuse"] = "fulfil_first"
    card_collect_below: Annotated[str, msgspec.Meta(max_length=1000)] = ""
    card_collect_at: Annotated[str, msgspec.Meta(max_length=1000)] = ""
    tax_note_exempt_en: _TaxNote = ""
    tax_note_exempt_de: _TaxNote = ""
    tax_note_exempt_fr: _TaxNote = ""
    tax_note_exempt_es: _TaxNote = ""
    tax_note_exempt_it: _TaxNote = ""
    tax_note_exempt_nl: _TaxNote = ""
    tax_note_outside_scope_en: _TaxNote = ""
    tax_note_outside_scope_de: _TaxNote = ""
    tax_note_outside_scope_fr: _TaxNote = ""
    tax_note_outside_scope_es: _TaxNote = ""
    tax_note_outside_scope_it: _TaxNote = ""
    tax_note_outside_scope_nl: _TaxNote = ""
    hold_organisation_percent: Annotated[int, msgspec.Meta(ge=1, le=100)] = 50
    hold_anonymous_percent: Annotated[int, msgspec.Meta(ge=0, le=100)] = 20
    hold_anonymous_tonnes: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 10
    hold_small_percent: Annotated[int, msgspec.Meta(ge=0, le=99)] = 25
    pool_wait_days: Annotated[int, msgspec.Meta(ge=0, le=3650)] = 30
    registry_batch_s: Annotated[int, msgspec.Meta(ge=0, le=3600)] = 60
    retirement_days: Annotated[int, msgspec.Meta(ge=1, le=365)] = 7
    registry_pages: Annotated[str, msgspec.Meta(max_length=10_000)] = ""
    registry_timeout_s: Annotated[float, msgspec.Meta(gt=0, le=50)] = 20.0
    isometric_organisation_id: Annotated[str, msgspec.Meta(max_length=50)] = ""
    isometric_client_secret: Annotated[str, msgspec.Meta(max_length=1000)] = ""
    isometric_access_token: Annotated[str, msgspec.Meta(max_length=10_000)] = ""
    isometric_api_base: Annotated[str, msgspec.Meta(max_length=2048)] = "https://api.isometric.com/registry/v0"
    puro_account_number: Annotated[str, msgspec.Meta(max_length=50)] = ""
    puro_api_key: Annotated[str, msgspec.Meta(max_length=1000)] = ""
    puro_api_secret: Annotated[str, msgspec.Meta(max_length=1000)] = ""
    puro_api_base: Annotated[str, msgspec.Meta(max_length=2048)] = ""
    puro_unit_price: Annotated[str, msgspec.Meta(max_length=20)] = ""
    puro_contact_email: Annotated[str, msgspec.Meta(max_length=200)] = ""
    log_witnesses: Annotated[str, msgspec.Meta(max_length=10_000)] = ""
    log_witness_ca_file: str = ""
    log_discloses: Annotated[str, msgspec.Meta(max_length=1000)] = ""
    smtp_url: str = ""
    mail_from: str = "Tonne <tonne@localhost>"
    mail_connections: Annotated[int, msgspec.Meta(ge=1, le=50)] = 8
    security_contact: Annotated[str, msgspec.Meta(max_length=1000)] = ""
    terms_url: Annotated[str, msgspec.Meta(max_length=2048)] = ""
    privacy_url: Annotated[str, msgspec.Meta(max_length=2048)] = ""
    imprint_url: Annotated[str, msgspec.Meta(max_length=2048)] = ""
    refunds_url: Annotated[str, msgspec.Meta(max_length=2048)] = ""
    contact_url: Annotated[str, msgspec.Meta(max_length=2048)] = ""
    logo_file: str = ""
    oidc_issuer: Annotated[str, msgspec.Meta(max_length=500)] = ""
    oidc_client_id: Annotated[str, msgspec.Meta(max_length=500)] = ""
    oidc_client_secret: Annotated[str, msgspec.Meta(max_length=1000)] = ""
    oidc_name: Annotated[str, msgspec.Meta(min_length=1, max_length=50)] = "single sign-on"
    oidc_email_domains: Annotated[str, msgspec.Meta(max_length=2000)] = ""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    tracing: bool = False
    tracing_trusted_callers: str = ""
    sentry_dsn: str = ""
    error_hook: str = ""

    @property
    def base_url(self) -> str:
        """The URL at which clients reach this service, without /v1 and without a trailing slash."""
        if self.public_url:
            return _public(self.public_url)
        # A name, because browsers make no passkeys for an address.
        host = "localhost" if self.local_host == "127.0.0.1" else self.local_host
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    @property
    def local_host(self) -> str:
        """The address at which programs on this machine reach the service."""
        return "127.0.0.1" if self.host in {"0.0.0.0", "::"} else self.host  # noqa: S104 - compared, not bound

    @property
    def data_path(self) -> Path:
        return Path(self.data_dir).expanduser().resolve()

    @property
    def archive_path(self) -> Path:
        return Path(self.archive_dir).expanduser().resolve() if self.archive_dir else self.data_path / "archive"

    @property
    def log_head_path(self) -> Path:
        """The folder of the last signed checkpoints, which no restore of the database may touch."""
        return (
            Path(self.log_head_folder).expanduser().resolve() if self.log_head_folder else self.data_path / "log-heads"
        )

    @property
    def security_contacts(self) -> tuple[str, ...]:
        """As URIs: an e-mail address becomes a mailto URI."""
        contacts = [part.strip() for part in self.security_contact.split(",") if part.strip()]
        return tuple(f"mailto:{contact}" if "@" in contact and ":" not in contact else contact for contact in contacts)

    @property
    def oidc_domains(self) -> tuple[str, ...]:
        return tuple(part.strip().lower() for part in self.oidc_email_domains.split(",") if part.strip())

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

    def collect_below_minor(self, currency: str) -> int:
        """Orders below it get no card payment of their own. A card cannot be charged less than the minimum."""
        least = minimum_charge(currency)
        return max(limit_minor(self.card_collect_below, currency) or least, least)

    def collect_at_minor(self, currency: str) -> int:
        """At this sum the card is charged for collected orders at once."""
        least = minimum_charge(currency)
        return max(limit_minor(self.card_collect_at, currency) or 10 * least, least)

    @property
    def proxy_networks(self) -> tuple[Network, ...]:
        return parse_networks(self.trusted_proxies)

    @property
    def witnesses(self) -> tuple[WitnessAddress, ...]:
        """Those who are asked to cosign the checkpoints of the transparency log."""
        return parse_witnesses(self.log_witnesses)

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


def parse_networks(text: str) -> tuple[Network, ...]:
    """`10.0.0.0/8, 192.0.2.7`; raises ValueError when a part is not a network."""
    return tuple(ipaddress.ip_network(part.strip()) for part in text.split(",") if part.strip())


@cache
def _public(url: str) -> str:
    return str(parse_url(url, WEB)).rstrip("/")


def find_document_fault(settings: Settings) -> str | None:
    """What is wrong with the settings, and what to do; None if they are valid. Keys are opened later."""
    for name, path in (
        ("TONNE_DOCUMENT_KEY_FILE", settings.document_key_file),
        ("TONNE_DOCUMENT_CERTIFICATE_FILE", settings.document_certificate_file),
        ("TONNE_DOCUMENT_PKCS11_MODULE", settings.document_pkcs11_module),
    ):
        if path and not Path(path).is_file():
            return f"{name}: there is no file {path}."
    if settings.document_key_file and settings.document_pkcs11_module:
        return "TONNE_DOCUMENT_KEY_FILE and TONNE_DOCUMENT_PKCS11_MODULE exclude each other: set one of them."
    if settings.document_certificate_file and not (settings.document_key_file or settings.document_pkcs11_module):
        return "TONNE_DOCUMENT_CERTIFICATE_FILE needs TONNE_DOCUMENT_KEY_FILE or TONNE_DOCUMENT_PKCS11_MODULE."
    if settings.document_pkcs11_module and not (settings.document_pkcs11_token and settings.document_pkcs11_key):
        return "TONNE_DOCUMENT_PKCS11_MODULE needs TONNE_DOCUMENT_PKCS11_TOKEN and TONNE_DOCUMENT_PKCS11_KEY."
    if settings.document_time_stamp_url:
        try:
            parse_url(settings.document_time_stamp_url, WEB)
        except UrlInvalid as error:
            return f"TONNE_DOCUMENT_TIME_STAMP_URL must be an http or https URL: {error}."
    return None
