"""TLS certificates for receivers: valid ones, and invalid ones that a client must reject."""

import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme

NAMES = ("127.0.0.1", "localhost", "hooks.example.com")
INVALID = ("expired", "wrong_name", "self_signed", "unknown_authority")


class Authority:
    """A certificate authority. The service trusts it through `ca_file`."""

    def __init__(self, folder: Path) -> None:
        self._ca = trustme.CA()
        self.ca_file = folder / "authority.pem"
        self._ca.cert_pem.write_to_path(str(self.ca_file))

    def write_certificate(self, path: Path) -> None:
        """Write a valid certificate with its key, for a server in another process."""
        self._ca.issue_cert(*NAMES).private_key_and_cert_chain_pem.write_to_path(str(path))

    def write_client_certificate(self, path: Path, name: str) -> None:
        """Write a certificate with its key for a client of this name."""
        self._ca.issue_cert("client.example.com", common_name=name).private_key_and_cert_chain_pem.write_to_path(
            str(path)
        )

    def context(self, kind: str = "good") -> ssl.SSLContext:
        """The server side of a certificate of this kind: `good`, or one of INVALID."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.load(context, kind)
        return context

    def load(self, context: ssl.SSLContext, kind: str) -> None:
        """Load another certificate, also into a context in use: new connections see it."""
        if kind == "self_signed":
            root = trustme.CA()
            with tempfile.NamedTemporaryFile() as file:
                file.write(root.private_key_pem.bytes() + root.cert_pem.bytes())
                file.flush()
                context.load_cert_chain(file.name)
            return
        self._issue(kind).configure_cert(context)

    def _issue(self, kind: str) -> trustme.LeafCert:
        now, day = datetime.now(UTC), timedelta(days=1)
        match kind:
            case "good":
                return self._ca.issue_cert(*NAMES)
            case "expired":
                return self._ca.issue_cert(*NAMES, not_before=now - 3 * day, not_after=now - day)
            case "wrong_name":
                return self._ca.issue_cert("elsewhere.example.com")
            case "unknown_authority":
                return trustme.CA().issue_cert(*NAMES)
            case _:
                raise ValueError(kind)
