"""What the machine of a process may run out of: space in the data folder, and time of its certificates."""

import os
import shutil
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path

from tonne.platform.process.telemetry.instruments import Combine, GaugeFamily, Labels, Metric
from tonne.platform.settings.settings import Settings


class MachineMetrics:
    def __init__(self, settings: Settings, document_expiry: Callable[[], datetime | None]) -> None:
        """`document_expiry` is that of the certificate that this process signs PDFs with, if it has opened it."""
        self._document_expiry = document_expiry
        self._folder = settings.data_path
        self._files = {
            "document": settings.document_certificate_file,
            "client": settings.webhook_client_certificate_file,
        }
        # When each file was changed, and when its first certificate expires.
        self._known: dict[str, tuple[float, float]] = {}

    @property
    def metrics(self) -> tuple[Metric, ...]:
        free = GaugeFamily(
            "tonne_disk_free_ratio",
            "The free part of the disk of the data folder, from 0 to 1.",
            read=self._free,
            combine=Combine.MAX,
        )
        expiry = GaugeFamily(
            "tonne_certificate_expiry_timestamp_seconds",
            "When a certificate expires: document signs PDFs, client identifies Tonne to receivers.",
            "use",
            read=self._expiries,
            combine=Combine.MAX,
        )
        return free, expiry

    def _free(self) -> Iterable[tuple[Labels, float]]:
        try:
            usage = shutil.disk_usage(self._folder)
        except OSError:
            return []
        return [((), usage.free / usage.total)]

    def _expiries(self) -> Iterable[tuple[Labels, float]]:
        found = {use: self._expiry(path) for use, path in self._files.items() if path}
        opened = self._document_expiry()
        if opened is not None:
            # A file that was replaced is read at the next start, and a PKCS#12 file or a module is no file in PEM.
            found["document"] = min(opened.timestamp(), found.get("document", opened.timestamp()))
        return [((use,), at) for use, at in found.items()]

    def _expiry(self, path: str) -> float:
        """0 if the file cannot be read: it must be repaired as soon as one that has expired."""
        try:
            changed = os.stat(path).st_mtime  # noqa: PTH116 - at every scrape
            if self._known.get(path, (0.0, 0.0))[0] != changed:
                self._known[path] = changed, _read_expiry(Path(path)).timestamp()
        except (OSError, ValueError):
            return 0.0
        return self._known[path][1]


def _read_expiry(path: Path) -> datetime:
    from cryptography import x509  # noqa: PLC0415 - most processes have no such file

    return x509.load_pem_x509_certificates(path.read_bytes())[0].not_valid_after_utc
