"""The client certificate that Tonne presents to receivers which ask for one (mutual TLS)."""

import ssl
import time
from pathlib import Path
from typing import Self

import structlog

from tonne.platform.settings.settings import Settings

# How often the files are checked for changes: certificates are renewed while workers run.
CHECK_EVERY_S = 60.0

_log = structlog.get_logger()


class ClientIdentity:
    """Presents no certificate if the settings name no files."""

    def __init__(self, certificate_file: str, key_file: str) -> None:
        self._files = [Path(path) for path in (certificate_file, key_file) if path]
        self._context: ssl.SSLContext | None = None
        self._loaded: list[float] = []
        self._next_check_at = 0.0

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        return cls(settings.webhook_client_certificate_file, settings.webhook_client_key_file)

    def tls_context(self, ca_file: str) -> ssl.SSLContext:
        """Raises OSError, which SSLError is, if the files cannot be read or do not belong together."""
        self._context = ssl.create_default_context(cafile=ca_file or None)
        if self._files:
            self._load(self._context)
        return self._context

    def reload_if_changed(self) -> None:
        """New connections present the new certificate. A half-written file leaves the former one in use."""
        if not self._files or self._context is None or time.monotonic() < self._next_check_at:
            return
        try:
            if self._times() != self._loaded:
                self._load(self._context)
                _log.info("client_certificate_loaded")
        except OSError as error:
            _log.error("client_certificate_unreadable", error=repr(error))
        self._next_check_at = time.monotonic() + CHECK_EVERY_S

    def _load(self, context: ssl.SSLContext) -> None:
        times = self._times()
        # Without a password: OpenSSL would ask for one at the terminal.
        context.load_cert_chain(self._files[0], self._files[-1], password="")
        self._loaded, self._next_check_at = times, time.monotonic() + CHECK_EVERY_S

    def _times(self) -> list[float]:
        return [path.stat().st_mtime for path in self._files]
