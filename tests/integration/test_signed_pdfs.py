"""Signed PDFs by other programs: pdfsig accepts them, and SoftHSM holds the key."""

import subprocess
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from tests.integration.programs import find_program
from tests.support.authority import running_authority
from tests.support.certificates import RECORD
from tests.support.document_key import DocumentKeyFiles, write_document_key
from tests.support.pdf_a import breaches
from tonne.platform.keys.signing.document_key import KeyUnusable, document_key
from tonne.platform.keys.signing.keys import new_record
from tonne.platform.keys.signing.long_term import add_document_time_stamp, add_validation_data
from tonne.platform.keys.signing.model import KeyPurpose
from tonne.platform.keys.signing.operator_key import load_operator_key
from tonne.platform.keys.signing.sign_pdf import TimeStamps, sign_pdf
from tonne.platform.keys.signing.time_stamps import TimeStampServer
from tonne.platform.settings.settings import Settings
from tonne.supply.certificates.pdf import certificate_pdf

pytestmark = pytest.mark.integration
ISSUED = datetime(2026, 4, 2, 10, 30, 15, tzinfo=UTC)
PIN = "1234"


def _sign(settings: Settings, time_stamps: TimeStamps | None = None) -> bytes:
    loaded = load_operator_key(settings)
    assert loaded is not None
    record = new_record(KeyPurpose.DOCUMENT, loaded.certificate.pem, ISSUED)
    key = document_key(record, loaded.certificate, loaded.sign_raw)
    return sign_pdf(certificate_pdf(RECORD), key, ISSUED, time_stamps)


def _examine(pdf: bytes, folder: Path, *options: str) -> str:
    path = folder / "signed.pdf"
    path.write_bytes(pdf)
    command = [find_program("pdfsig"), *options, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


@pytest.fixture
def files(tmp_path: Path) -> DocumentKeyFiles:
    return write_document_key(tmp_path)


def test_pdfsig_accepts_the_signature_and_detects_a_change(files: DocumentKeyFiles, tmp_path: Path) -> None:
    signed = _sign(msgspec.structs.replace(Settings(), **files))
    said = _examine(signed, tmp_path)
    assert "Signature is Valid" in said
    assert "Total document signed" in said
    assert "ETSI.CAdES.detached" in said
    assert "Signer of tests" in said
    assert "Signature is Valid" not in _examine(signed[:3000] + bytes([signed[3000] ^ 1]) + signed[3001:], tmp_path)


def test_pdfsig_and_qpdf_accept_a_pdf_with_a_time_stamp_and_its_renewals(tmp_path: Path) -> None:
    with running_authority(tmp_path) as authority:
        server = TimeStampServer(authority.time_stamp_url)
        made = add_validation_data(_sign(msgspec.structs.replace(Settings(), **authority.signer), server))
        first = add_document_time_stamp(made, server.of_digest)
        second = add_document_time_stamp(first, server.of_digest)
    for count, each in enumerate((made, first, second), start=1):
        said = _examine(each, tmp_path, "-nocert")
        # It shows time stamps of documents, and does not verify them.
        assert (said.count("Signature #"), said.count("Signature is Valid")) == (count, 1)
        assert _qpdf_accepts(each, tmp_path)


def test_qpdf_finds_no_error_and_the_signed_file_is_pdf_a3(files: DocumentKeyFiles, tmp_path: Path) -> None:
    signed = _sign(msgspec.structs.replace(Settings(), **files))
    assert breaches(signed) == []
    assert _qpdf_accepts(signed, tmp_path)
    assert not _qpdf_accepts(signed.replace(b"startxref", b"startxxxx"), tmp_path)


def _qpdf_accepts(pdf: bytes, folder: Path) -> bool:
    path = folder / "checked.pdf"
    path.write_bytes(pdf)
    command = [find_program("qpdf"), "--check", str(path)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_a_key_in_a_hardware_module_signs_the_same_bytes(
    files: DocumentKeyFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = tmp_path / "tokens"
    tokens.mkdir()
    (tmp_path / "softhsm2.conf").write_text(f"directories.tokendir = {tokens}\n", encoding="utf-8")
    monkeypatch.setenv("SOFTHSM2_CONF", str(tmp_path / "softhsm2.conf"))
    command = [find_program("softhsm2-util"), "--token", "tonne", "--pin", PIN]
    _run(*command, "--init-token", "--free", "--label", "tonne", "--so-pin", "5678")
    _run(*command, "--import", files["document_key_file"], "--label", "documents", "--id", "A1")
    [module] = {path.resolve() for path in Path("/usr/lib").glob("**/libsofthsm2.so")}
    settings = Settings(
        document_pkcs11_module=str(module),
        document_pkcs11_token="tonne",  # noqa: S106 - a label
        document_pkcs11_key="documents",
        document_pkcs11_pin=PIN,
        document_certificate_file=files["document_certificate_file"],
    )
    mistakes = (("pin", "9999"), ("key", "unknown"), ("token", "unknown"))
    for name, value in mistakes:
        with pytest.raises(KeyUnusable, match="Check TONNE_DOCUMENT_PKCS11_TOKEN"):
            load_operator_key(msgspec.structs.replace(settings, **{f"document_pkcs11_{name}": value}))
    signed = _sign(settings)
    assert "Signature is Valid" in _examine(signed, tmp_path)
    assert signed == _sign(msgspec.structs.replace(Settings(), **files))
    with pytest.raises(KeyUnusable, match="has no certificate with the label documents"):
        load_operator_key(msgspec.structs.replace(settings, document_certificate_file=""))


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
