"""The time stamp of a signature (RFC 3161): in time, late, and before the signature."""

from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from pyhanko.keys import load_certs_from_pemder_data, load_private_key_from_pemder_data
from pyhanko.sign.timestamps.dummy_client import DummyTimeStamper

from tests.verify.seller import Seller, make_document_key, make_pdf
from tonne_verify.policy import Policy
from tonne_verify.verify_file import verify_file

KEY, CERTIFICATE = make_document_key("Time authority")


def stamper_at(at: datetime) -> Any:
    private = KEY.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    (own,) = load_certs_from_pemder_data(CERTIFICATE.public_bytes(Encoding.DER))
    return DummyTimeStamper(own, load_private_key_from_pemder_data(private, None), fixed_dt=at)


def test_a_time_stamp_must_fit_the_signature(seller: Seller) -> None:
    """The certificate of the seller's tests was cosigned in time, and its file was signed now."""
    prepared, now = make_pdf(seller._attachments()), datetime.now(UTC)
    for hours, code, name, told in (
        (0, 0, "time", "It claims 2026-05-04 10:00 UTC, and was cosigned by 2026-05-04 10:00 UTC."),
        (47, 0, "time", "and was cosigned by"),
        (50, 3, "time", f"Its signature is dated {now:%Y-%m-%d}"),
        (-50, 1, "signature", "already"),
    ):
        pdf = seller.sign_pdf(prepared, stamper=stamper_at(now + timedelta(hours=hours, minutes=1)))
        report = verify_file("certificate.pdf", pdf, seller.issuer(), seller.policy())
        assert report.exit_code == code, (hours, report.lines())
        (sentence,) = (each.sentence for each in report.checks if each.name == name)
        assert told in sentence, hours
        if code != 1:
            order = next(each for each in report.facts if each.startswith("In order: "))
            words = [each.split(" 20")[0] for each in order.removeprefix("In order: ").split(", ")]
            assert words == ["key since", "retired", "logged", "cosigned", "signed", "stamped"]
    # Without a witness, only the authority confirms since when the certificate exists: long after its date.
    pdf = seller.sign_pdf(prepared, stamper=stamper_at(now))
    report = verify_file("certificate.pdf", pdf, seller.issuer(), Policy().accepting_no_witness())
    assert report.exit_code == 3
    assert f"It claims 2026-05-04 10:00 UTC, and is proven since {now:%Y-%m-%d}" in " ".join(report.lines())
