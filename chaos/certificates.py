"""Certificates for receivers: good ones, and the bad ones that a sender must refuse."""

import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme

# Where receivers listen, by address: the service is told that it may send there.
HOST = "127.0.0.1"
BAD_KINDS = ("expired", "wrong_name", "self_signed", "unknown_authority")


class Certificates:
    def __init__(self, folder: Path) -> None:
        self._authority = trustme.CA()
        self.authority_file = folder / "authority.pem"
        self._authority.cert_pem.write_to_path(str(self.authority_file))

    def context(self, kind: str = "good") -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.use(context, kind)
        return context

    def use(self, context: ssl.SSLContext, kind: str) -> None:
        """Also for a context that is in use: connections made from now on see the new certificate."""
        if kind == "self_signed":
            lonely = trustme.CA()
            _load(context, lonely.private_key_pem.bytes() + lonely.cert_pem.bytes())
            return
        _leaf(self._authority, kind).configure_cert(context)


def _leaf(authority: trustme.CA, kind: str) -> trustme.LeafCert:
    now = datetime.now(UTC)
    match kind:
        case "good":
            return authority.issue_cert(HOST)
        case "expired":
            day = timedelta(days=1)
            return authority.issue_cert(HOST, not_before=now - 3 * day, not_after=now - day)
        case "wrong_name":
            return authority.issue_cert("somebody-else.example")
        case "unknown_authority":
            return trustme.CA().issue_cert(HOST)
        case _:
            raise ValueError(kind)


def _load(context: ssl.SSLContext, pem: bytes) -> None:
    with tempfile.NamedTemporaryFile() as file:
        file.write(pem)
        file.flush()
        context.load_cert_chain(file.name)
