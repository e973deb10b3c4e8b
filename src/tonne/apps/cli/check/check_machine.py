"""Checks of the settings and of this machine."""

import ipaddress
import os
import resource
import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import click

from tonne.apps.cli.check.check_result import CheckResult
from tonne.apps.cli.operations.processes import check_port_free, open_files_needed, responds
from tonne.platform.http.telemetry import require_telemetry
from tonne.platform.settings.load_settings import CONFIG_VARIABLE, kubernetes_variables, setting_files
from tonne.platform.settings.settings import SETTING_NAMES, Settings, SettingsError

# Below the first, a busy day fills the disk before anybody reads the warning; below the second, PostgreSQL stops soon.
FEW_BYTES, TOO_FEW_BYTES = 5_000_000_000, 500_000_000


def check_machine(settings: Settings, environ: Mapping[str, str]) -> Iterator[CheckResult]:
    yield _settings(settings, environ)
    yield _files(settings, environ)
    yield _public_url(settings)
    yield _proxies(settings)
    yield _port(settings)
    yield _monitoring(settings)
    yield _telemetry(settings, environ)
    yield _data_folder(settings)
    yield _disk(settings)
    yield _descriptors(settings)
    yield _user()


def _settings(settings: Settings, environ: Mapping[str, str]) -> CheckResult:
    if scaled := [name for name in ("webhook_time_scale", "payment_time_scale") if getattr(settings, name) != 1]:
        names = " and ".join(f"TONNE_{name.upper()}" for name in scaled)
        return CheckResult.warning("settings", f"{names} is not 1.", "Remove it: it is for tests, and shortens waits.")
    if ignored := kubernetes_variables(environ):
        return CheckResult.warning(
            "settings",
            f"{len(ignored)} variables that Kubernetes sets for a Service named tonne are ignored: {ignored[0]}, …",
            "Set enableServiceLinks: false in the pod, or give the Service another name.",
        )
    return CheckResult.ok("settings", "valid")


def _files(settings: Settings, environ: Mapping[str, str]) -> CheckResult:
    named = dict(setting_files(environ, SETTING_NAMES))
    if key := settings.webhook_client_key_file or settings.webhook_client_certificate_file:
        named["webhook_client_key_file"] = Path(key)
    if environ.get(CONFIG_VARIABLE):
        named[CONFIG_VARIABLE] = Path(environ[CONFIG_VARIABLE])
    if exposed := [f"{path} ({variable})" for variable, path in named.items() if _others_may_read(path)]:
        return CheckResult.warning(
            "files of settings",
            f"Every user of this machine may read {', '.join(exposed)}.",
            "If it contains a secret, run chmod 600 and chown to the user of Tonne. In a container with one user this "
            "does no harm.",
        )
    return CheckResult.ok("files of settings", f"{len(named)} read" if named else "none used")


def _others_may_read(path: Path) -> bool:
    """Also the folders above must let others in."""
    real = path.resolve()
    folders = all(folder.stat().st_mode & stat.S_IXOTH for folder in real.parents)
    return bool(folders and real.stat().st_mode & stat.S_IROTH)


def _public_url(settings: Settings) -> CheckResult:
    remedy = "Set TONNE_PUBLIC_URL to the https URL at which clients reach you, and put a proxy with TLS in front."
    if not settings.public_url:
        return CheckResult.warning(
            "public URL", f"TONNE_PUBLIC_URL is not set: links in mails lead to {settings.base_url}.", remedy
        )
    parts = urlsplit(settings.public_url)
    if parts.scheme != "https" and not _is_local(parts.hostname or ""):
        return CheckResult.warning(
            "public URL", f"{settings.public_url} is not encrypted: API keys can be read on the way.", remedy
        )
    return CheckResult.ok("public URL", settings.base_url)


def _proxies(settings: Settings) -> CheckResult:
    if settings.public_url.startswith("https:") and not settings.trusted_proxies:
        return CheckResult.warning(
            "proxy",
            "TONNE_TRUSTED_PROXIES is not set, although a proxy must terminate TLS: all clients share one rate limit.",
            "Set it to the addresses from which your proxy connects, such as 127.0.0.1.",
        )
    if not settings.trusted_proxies and not _is_local(settings.host):
        return CheckResult.warning(
            "proxy",
            f"Tonne listens on {settings.host} without TLS and without a proxy in front.",
            "Put a proxy with TLS in front, see deploy/nginx and deploy/haproxy, and set TONNE_TRUSTED_PROXIES.",
        )
    return CheckResult.ok("proxy", f"trusted: {settings.trusted_proxies}" if settings.trusted_proxies else "none")


def _port(settings: Settings) -> CheckResult:
    place = f"{settings.host} port {settings.port}"
    try:
        check_port_free(settings)
    except click.ClickException as error:
        if responds(settings, "/health/live"):
            return CheckResult.ok("port", f"Tonne is running on {place}")
        return CheckResult.error("port", "A port cannot be used.", error.message)
    return CheckResult.ok("port", f"{place} is free")


def _monitoring(settings: Settings) -> CheckResult:
    if not settings.metrics_port and not settings.metrics_token:
        return CheckResult.warning(
            "monitoring",
            "No metrics are served, so no alert can fire.",
            "Set TONNE_METRICS_PORT, and use the rules in deploy/prometheus.",
        )
    return CheckResult.ok("monitoring", "metrics are served")


def _telemetry(settings: Settings, environ: Mapping[str, str]) -> CheckResult:
    name = "telemetry"
    try:
        require_telemetry(settings)
    except SettingsError as error:
        return CheckResult.error(name, "Traces or reports of errors cannot be sent.", str(error))
    endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    if settings.tracing and not any(environ.get(variable) for variable in endpoints):
        return CheckResult.warning(
            name,
            "No collector of traces is set, so they are sent to port 4318 of this machine.",
            f"Set {endpoints[0]} to the URL of your collector.",
        )
    on = {"traces": settings.tracing, "reports of errors": settings.sentry_dsn or settings.error_hook}
    return CheckResult.ok(name, " and ".join(what for what, is_on in on.items() if is_on) or "off")


def _data_folder(settings: Settings) -> CheckResult:
    name, folder = "data folder", settings.data_path
    if not folder.exists():
        nearest = _nearest(folder)
        if not os.access(nearest, os.W_OK | os.X_OK):
            return CheckResult.error(
                name,
                f"{folder} does not exist, and this user may not create it in {nearest}.",
                "Create it for the user of Tonne with mode 700, or set TONNE_DATA_DIR.",
            )
        return CheckResult.ok(name, f"{folder} will be created")
    if not folder.is_dir() or not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        return CheckResult.error(
            name, f"{folder} is not a folder that this user may read and write.", "Run chown, or set TONNE_DATA_DIR."
        )
    if folder.stat().st_mode & 0o077:
        return CheckResult.warning(name, f"Other users may look into {folder}.", f"Run chmod 700 {folder}.")
    return CheckResult.ok(name, str(folder))


def _nearest(folder: Path) -> Path:
    """The nearest folder above that exists."""
    return next(parent for parent in folder.parents if parent.exists())


def _disk(settings: Settings) -> CheckResult:
    folder = settings.data_path if settings.data_path.exists() else _nearest(settings.data_path)
    free = shutil.disk_usage(folder).free
    found = f"{free / 1e9:,.1f} GB free at {folder}"
    if settings.database_url or free >= FEW_BYTES:
        return CheckResult.ok("disk", found)
    remedy = "Free or add space: the embedded database is in this folder and stops when the disk is full."
    return (CheckResult.error if free < TOO_FEW_BYTES else CheckResult.warning)("disk", f"Only {found}.", remedy)


def _descriptors(settings: Settings) -> CheckResult:
    # `tonne api` and `tonne worker` raise the other limit themselves, up to this one.
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = open_files_needed(settings)
    if limit != resource.RLIM_INFINITY and limit < needed:
        return CheckResult.warning(
            "open files",
            f"This process may open {limit:,} files and connections; a busy one needs up to {needed:,}.",
            "Raise the limit: LimitNOFILE=65536 in a systemd unit, --ulimit nofile=65536 for a container.",
        )
    return CheckResult.ok("open files", "unlimited" if limit == resource.RLIM_INFINITY else f"up to {limit:,}")


def _user() -> CheckResult:
    if os.geteuid() == 0:
        return CheckResult.warning("user", "This is root.", "Run Tonne as a user of its own, without a login.")
    return CheckResult.ok("user", f"uid {os.geteuid()}")


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
