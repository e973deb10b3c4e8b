"""Reads the settings: environment variables (`TONNE_*`) and files that they name, then a TOML file, then defaults."""

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tonne.platform.settings.bank_accounts import parse_bank_accounts
from tonne.platform.settings.currency_limits import parse_limits
from tonne.platform.settings.database_settings import find_fault
from tonne.platform.settings.oidc_settings import find_oidc_fault
from tonne.platform.settings.registry_settings import find_registry_fault
from tonne.platform.settings.retention_settings import parse_tables
from tonne.platform.settings.secret_keys import parse_key, parse_keys
from tonne.platform.settings.settings import (
    SETTING_NAMES,
    SMTP_SCHEMES,
    Settings,
    SettingsError,
    find_document_fault,
    find_witness_fault,
    parse_networks,
)
from tonne.platform.settings.site_settings import find_site_fault
from tonne.platform.settings.telemetry_settings import find_telemetry_fault
from tonne.platform.settings.webhook_settings import find_webhook_fault
from tonne.platform.settings.withdrawal_texts import read_withdrawal_texts
from tonne.platform.values.amounts import DECIMALS, TaxTreatment, parse_amounts
from tonne.platform.values.countries import COUNTRIES, EU_COUNTRIES
from tonne.platform.values.einvoice import parse_endpoint
from tonne.platform.values.iban import is_iban
from tonne.platform.values.tax_ids import country_of_vat, parse_tax_id
from tonne.platform.values.urls import HTTPS, WEB, UrlInvalid, parse_url

PREFIX, FILE_SUFFIX = "TONNE_", "_FILE"
CONFIG_VARIABLE = "TONNE_CONFIG"
DATABASE_URL_VARIABLE = "TONNE_DATABASE_URL"
# Used by commands that call the API. They are not settings of the service.
API_KEY_VARIABLE, API_URL_VARIABLE = "TONNE_API_KEY", "TONNE_API_URL"
LISTEN_VARIABLE = "TONNE_LISTEN_SECRET"
_NOT_SETTINGS = {CONFIG_VARIABLE, API_KEY_VARIABLE, API_URL_VARIABLE, LISTEN_VARIABLE}
# More than any setting needs. A variable that names a device or a log must not fill the memory.
MAX_FILE_BYTES = 100_000
# Kubernetes sets these in every container of a namespace that has a Service named `tonne` or `tonne-…`.
_SERVICE_VARIABLE = re.compile(
    r"TONNE_([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)
_SERVICE_ADDRESS_VARIABLE = re.compile(r"TONNE_([A-Z0-9_]+_)?PORT")
_SERVICE_ADDRESS = re.compile(r"(tcp|udp|sctp)://[^/]+")


class VariableInvalid(Exception):
    """The message names the variable and says what to do. It never repeats a value."""


def read_variables(environ: Mapping[str, str], settings: Iterable[str]) -> dict[str, str]:
    """The values of the settings in the environment and in the files that it names. Raises VariableInvalid."""
    setting_of = {variable_of(name): name for name in settings}
    values = {}
    for variable, text in environ.items():
        if not variable.startswith(PREFIX) or variable in _NOT_SETTINGS or _is_from_kubernetes(variable, text):
            continue
        if variable in setting_of:
            values[setting_of[variable]] = text
            continue
        without_suffix = variable.removesuffix(FILE_SUFFIX)
        if without_suffix == variable or without_suffix not in setting_of:
            raise VariableInvalid(f"{variable} is not a setting of Tonne: see tonne.example.toml for the list.")
        if without_suffix in environ and not _is_from_kubernetes(without_suffix, environ[without_suffix]):
            raise VariableInvalid(f"Both {without_suffix} and {variable} are set: remove one of them.")
        values[setting_of[without_suffix]] = _read(variable, text)
    return values


def variable_of(setting: str) -> str:
    return f"{PREFIX}{setting.upper()}"


def setting_files(environ: Mapping[str, str], settings: Iterable[str]) -> Iterator[tuple[str, Path]]:
    """The variables that name the file of a setting, with that file."""
    variables = {variable_of(name) for name in settings}
    for variable, text in environ.items():
        if variable not in variables and variable.removesuffix(FILE_SUFFIX) in variables:
            yield variable, Path(text)


def with_settings(environ: Mapping[str, str], **settings: str) -> dict[str, str]:
    """The environment of a process that uses these settings, however they were given to its parent."""
    values = {variable_of(name): text for name, text in settings.items()}
    files = {variable + FILE_SUFFIX for variable in values}
    return {name: text for name, text in environ.items() if name not in files} | values


def kubernetes_variables(environ: Mapping[str, str]) -> list[str]:
    """The variables that Kubernetes sets for a Service of our name. They are not settings and are ignored."""
    return sorted(name for name, text in environ.items() if _is_from_kubernetes(name, text))


def _is_from_kubernetes(variable: str, text: str) -> bool:
    if _SERVICE_VARIABLE.fullmatch(variable):
        return True
    # TONNE_PORT is also a setting: only its value tells the two apart.
    return bool(_SERVICE_ADDRESS_VARIABLE.fullmatch(variable) and _SERVICE_ADDRESS.fullmatch(text))


def _read(variable: str, path: str) -> str:
    """Without the line break at the end, which editors and `openssl rand` add."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise VariableInvalid(
            f"The file {path!r} in {variable} cannot be read: {reason}. Check the path, and that the user of Tonne may "
            "read the file."
        ) from error
    if len(content) > MAX_FILE_BYTES:
        raise VariableInvalid(f"The file {path!r} in {variable} is too large: a setting has at most 100 KB.")
    try:
        text = content.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise VariableInvalid(
            f"The file {path!r} in {variable} is not UTF-8 text: write the value as you would in the variable."
        ) from error
    if not text:
        raise VariableInvalid(f"The file {path!r} in {variable} is empty: write the value into it.")
    return text


_CONTACT = re.compile(r"mailto:[^@\s:]+@[^@\s:]+|https://[!-~]+", re.ASCII)
_KEY_FORM = "32 bytes in base64, as printed by `openssl rand -base64 32`"
_LIMITS = "one amount, such as 500, or one per currency, such as EUR 500, JPY 80000: {}."
_PAGES = "{} is not a registry and its address. Write NAME=https://registry.example/, separated by commas."
_NETWORKS = "must be a comma-separated list of networks: {}."
# Settings that must be readable, and the message if one is not. Messages about keys do not repeat them.


def _check_representative(settings: Settings) -> None:
    given = (settings.tax_representative_name, settings.tax_representative_address, settings.tax_representative_vat_id)
    if any(given):
        if not all(part.strip(" ;\n") for part in given):
            raise ValueError("set the name, the address and the VAT number of the tax representative, or none of them")
        country_of_vat("".join(settings.tax_representative_vat_id.split()))


_PARSED: tuple[tuple[str, Callable[[Settings], object]], ...] = (
    (f"TONNE_SECRET_KEY must be {_KEY_FORM}.", lambda settings: settings.secret_key and parse_key(settings.secret_key)),
    (
        f"TONNE_SECRET_KEYS_OLD must be keys separated by commas, each {_KEY_FORM}.",
        lambda settings: parse_keys(settings.secret_keys_old),
    ),
    ("TONNE_BANK_ACCOUNTS is not valid: {}.", lambda settings: parse_bank_accounts(settings.bank_accounts)),
    ("TONNE_MINIMUM_ORDER is not valid: {}.", lambda settings: parse_amounts(settings.minimum_order)),
    (f"TONNE_BANK_REFUND_MINIMUM must be {_LIMITS}", lambda settings: parse_limits(settings.bank_refund_minimum)),
    (f"TONNE_PAYMENT_TOLERANCE must be {_LIMITS}", lambda settings: parse_limits(settings.payment_tolerance)),
    (
        f"TONNE_SIMPLIFIED_INVOICE_UP_TO must be {_LIMITS}",
        lambda settings: parse_limits(settings.simplified_invoice_up_to),
    ),
    (f"TONNE_CARD_COLLECT_BELOW must be {_LIMITS}", lambda settings: parse_limits(settings.card_collect_below)),
    (f"TONNE_CARD_COLLECT_AT must be {_LIMITS}", lambda settings: parse_limits(settings.card_collect_at)),
    (f"TONNE_REFUND_APPROVAL_ABOVE must be {_LIMITS}", lambda settings: parse_limits(settings.refund_approval_above)),
    (
        "TONNE_SELLER_VAT_ID: {}",
        lambda settings: (
            settings.seller_vat_id and parse_tax_id(settings.seller_vat_id, settings.seller_country or None)
        ),
    ),
    ("TONNE_TAX_REPRESENTATIVE_VAT_ID: {}", _check_representative),
    (
        "TONNE_SELLER_ENDPOINT: {}",
        lambda settings: settings.seller_endpoint and parse_endpoint(settings.seller_endpoint),
    ),
    ("TONNE_DATA_DIR cannot be used: {}.", lambda settings: settings.data_path),
    ("TONNE_ARCHIVE_DIR cannot be used: {}.", lambda settings: settings.archive_path),
    ("TONNE_LOG_HEAD_FOLDER cannot be used: {}.", lambda settings: settings.log_head_path),
    ("TONNE_ARCHIVE_TABLES: {}.", lambda settings: parse_tables(settings.archive_tables)),
    ("TONNE_WITHDRAWAL_TEXTS: {}.", lambda settings: read_withdrawal_texts(settings.withdrawal_texts)),
    (f"TONNE_TRUSTED_PROXIES {_NETWORKS}", lambda settings: parse_networks(settings.trusted_proxies)),
    (f"TONNE_WEBHOOK_ALLOW_PRIVATE {_NETWORKS}", lambda settings: parse_networks(settings.webhook_allow_private)),
    (f"TONNE_TRACING_TRUSTED_CALLERS {_NETWORKS}", lambda settings: parse_networks(settings.tracing_trusted_callers)),
    (f"TONNE_REGISTRY_PAGES: {_PAGES}", lambda settings: settings.retirement_pages),
)


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


def _read_file(path: str) -> dict[str, Any]:
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"The file {path} in {CONFIG_VARIABLE} cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"The settings file {path} is not valid TOML: {error}.") from error


def _validate(settings: Settings) -> None:
    _validate_money(settings)
    _validate_tax(settings)
    _validate_contacts(settings)
    _validate_metrics(settings)
    if settings.public_url and not _is_url(settings.public_url, WEB):
        raise SettingsError("TONNE_PUBLIC_URL must be an http or https URL such as https://offsets.example.com.")
    urls = (settings.database_url, settings.database_direct_url, settings.database_replica_url)
    fault = find_fault(*urls, pooling=settings.database_pooling)
    fault = fault or find_oidc_fault(settings) or find_site_fault(settings) or find_webhook_fault(settings)
    fault = fault or find_witness_fault(settings) or find_document_fault(settings) or find_registry_fault(settings)
    if fault := fault or find_telemetry_fault(settings.sentry_dsn, settings.error_hook):
        raise SettingsError(fault)
    # The message does not repeat the value: it contains a password.
    if settings.smtp_url and not _is_url(settings.smtp_url, SMTP_SCHEMES, credentials=True):
        raise SettingsError("TONNE_SMTP_URL must be a URL that starts with smtp:// or smtps://.")
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
    if settings.invoice_cancel_days < settings.invoice_reminder_days:
        raise SettingsError("TONNE_INVOICE_CANCEL_DAYS must not be less than TONNE_INVOICE_REMINDER_DAYS.")
    _parse_all(settings)


def _parse_all(settings: Settings) -> None:
    for message, parse in _PARSED:
        try:
            parse(settings)
        except (RuntimeError, ValueError) as error:
            raise SettingsError(message.format(error)) from error


def _validate_money(settings: Settings) -> None:
    if settings.bank_iban and not is_iban(settings.bank_iban):
        raise SettingsError(
            "TONNE_BANK_IBAN is not a valid IBAN: its check digits are wrong. Check it for typing errors."
        )


def _validate_tax(settings: Settings) -> None:
    country = settings.seller_country
    if country and country not in COUNTRIES:
        raise SettingsError("TONNE_SELLER_COUNTRY must be an ISO 3166 code of two capital letters, such as DE.")
    if settings.seller_tax.treatment is TaxTreatment.STANDARD and not 0 < settings.seller_tax.rate <= 1:
        raise SettingsError("TONNE_TAX_RATE must be above 0 and at most 100: the tax treatment is standard.")
    if settings.tax_by_country != "off" and (
        settings.seller_tax.treatment is not TaxTreatment.STANDARD or country not in EU_COUNTRIES
    ):
        raise SettingsError(
            "TONNE_TAX_BY_COUNTRY needs TONNE_TAX_TREATMENT=standard and a TONNE_SELLER_COUNTRY of the EU."
        )
    if settings.home_currency and settings.home_currency not in DECIMALS:
        raise SettingsError("TONNE_HOME_CURRENCY must be an ISO 4217 code of three capital letters, such as EUR.")
    if settings.einvoice_network == "folder" and not Path(settings.einvoice_folder or ".missing").is_dir():
        raise SettingsError("TONNE_EINVOICE_FOLDER must be an existing folder: einvoice_network is folder.")
    if not _is_url(settings.vies_url, HTTPS):
        raise SettingsError("TONNE_VIES_URL must be an https URL.")


def _validate_metrics(settings: Settings) -> None:
    if settings.metrics_port == settings.port:
        raise SettingsError("TONNE_METRICS_PORT must differ from TONNE_PORT: choose a free port, such as 9464.")
    if settings.worker_health_port and settings.worker_health_port in {settings.port, settings.metrics_port}:
        raise SettingsError("TONNE_WORKER_HEALTH_PORT must differ from TONNE_PORT and TONNE_METRICS_PORT.")
    # Not repeated: it is a secret.
    if settings.metrics_token and not re.fullmatch(r"[!-~]{16,250}", settings.metrics_token):
        raise SettingsError(
            "TONNE_METRICS_TOKEN must be 16 to 250 printable characters without spaces, such as those printed by "
            "`openssl rand -hex 32`."
        )


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
