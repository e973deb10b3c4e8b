"""Time stamps of an authority (RFC 3161), from a server of the tests."""

import asyncio
import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from asn1crypto import core, keys, parser, tsp
from asn1crypto import x509 as asn1_x509
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from pyhanko.pdf_utils.reader import PdfFileReader
from pyhanko.sign.timestamps.dummy_client import DummyTimeStamper

from tests.platform.keys.signing.test_keys import keys_of
from tests.platform.keys.signing.validator import AT, status_of
from tests.support.certificates import RECORD
from tests.support.clock import START
from tonne.platform.db.database import Database
from tonne.platform.keys.signing.errors import SigningUnavailable
from tonne.platform.keys.signing.keys import SignDocuments
from tonne.platform.settings.settings import Settings
from tonne.supply.certificates.pdf import certificate_pdf
from tonne_verify.der import check_der

STAMPED = AT - timedelta(days=1)


def _authority() -> tuple[rsa.RSAPrivateKey, x509.Certificate]:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Time authority of tests")])
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.TIME_STAMPING])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2046, 1, 1, tzinfo=UTC))
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )
    return key, certificate


def _in_ber(data: bytes, levels: int, certificate: bytes) -> bytes:
    """The outer levels with indefinite lengths, as authorities with Bouncy Castle write them."""
    *_, header, content, _ = parser.parse(data)
    if not data[0] & 0x20 or levels == 0 or data == certificate:
        return data
    parts, at = b"", 0
    while at < len(content):
        size = parser.peek(content[at:])
        parts += _in_ber(content[at : at + size], levels - 1, certificate)
        at += size
    return bytes(header[:1]) + b"\x80" + parts + b"\0\0"


@contextmanager
def time_stamp_server(stamper: DummyTimeStamper | None, *, is_ber: bool = False) -> Iterator[str]:
    """Without a stamper it answers with something else."""

    def answer(asked: bytes) -> bytes:
        if stamper is None:
            return b"no time"
        given = stamper.request_tsa_response(tsp.TimeStampReq.load(asked))
        if not is_ber:
            return bytes(given.dump())
        (certificate,) = given["time_stamp_token"]["content"]["certificates"]
        token = _in_ber(given["time_stamp_token"].dump(), 5, certificate.dump())
        # The content in two parts.
        content = given["time_stamp_token"]["content"]["encap_content_info"]["content"].parsed.dump()
        whole, parts = core.OctetString(content).dump(), (content[:9], content[9:])
        assert whole in token
        written = b"\x24\x80" + b"".join(core.OctetString(each).dump() for each in parts) + b"\0\0"
        return bytes(b"\x30\x80" + given["status"].dump() + token.replace(whole, written) + b"\0\0")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answer(asked))

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


async def test_a_signature_carries_a_time_stamp_and_without_one_nothing_is_signed(
    db: Database, settings: Settings
) -> None:
    key, certificate = _authority()
    private = key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    stamper = DummyTimeStamper(
        asn1_x509.Certificate.load(certificate.public_bytes(Encoding.DER)),
        keys.PrivateKeyInfo.load(private),
        fixed_dt=STAMPED,
    )
    signing_keys, drawn = keys_of(db, settings), certificate_pdf(RECORD)
    trusted = (await signing_keys.document()).record.public
    authority = certificate.public_bytes(Encoding.PEM).decode()
    for is_ber in (False, True):
        with time_stamp_server(stamper, is_ber=is_ber) as url:
            signed = await SignDocuments(signing_keys, url).sign(drawn, START)
        status = await asyncio.to_thread(status_of, signed, trusted, authority)
        assert status.bottom_line
        assert status.timestamp_validity is not None
        assert status.timestamp_validity.timestamp == STAMPED
        # tonne-verify demands DER.
        (signature,) = PdfFileReader(io.BytesIO(signed)).embedded_signatures
        check_der(bytes(signature.pkcs7_content))
    with time_stamp_server(None) as url, pytest.raises(SigningUnavailable):
        await SignDocuments(signing_keys, url).sign(drawn, START)
    with pytest.raises(SigningUnavailable):
        await SignDocuments(signing_keys, url).sign(drawn, START)
