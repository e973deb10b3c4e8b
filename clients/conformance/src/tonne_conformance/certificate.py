"""A certificate authority of the suite's own, and the certificate of its receiver."""

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID_FOR = timedelta(days=365)


@dataclass(frozen=True)
class CertificateFiles:
    """`chain` has the certificate and its authority. `authority` is None if others have issued it."""

    chain: Path
    key: Path
    authority: Path | None = None


def make_certificate(folder: Path, host: str) -> CertificateFiles:
    """A certificate for this host. The authority in the folder is kept, because the service was told to trust it."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    authority, authority_key = _authority(folder)
    key = ec.generate_private_key(ec.SECP256R1())
    issued = (
        _builder(host, authority.subject, key)
        .add_extension(x509.SubjectAlternativeName([_name_of(host)]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()),
            critical=False,
        )
        .sign(authority_key, hashes.SHA256())
    )
    files = CertificateFiles(folder / "receiver.pem", folder / "receiver.key", folder / "authority.pem")
    files.chain.write_bytes(_pem(issued) + _pem(authority))
    _write_key(files.key, key)
    return files


def _authority(folder: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    certificate_file, key_file = folder / "authority.pem", folder / "authority.key"
    if certificate_file.exists() and key_file.exists():
        known = x509.load_pem_x509_certificate(certificate_file.read_bytes())
        known_key = serialization.load_pem_private_key(key_file.read_bytes(), None)
        if known.not_valid_after_utc > datetime.now(UTC) and isinstance(known_key, ec.EllipticCurvePrivateKey):
            return known, known_key
    key = ec.generate_private_key(ec.SECP256R1())
    name = "tonne-conformance"
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    made = (
        _builder(name, _subject(name), key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    certificate_file.write_bytes(_pem(made))
    _write_key(key_file, key)
    return made, key


def _builder(name: str, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_subject(name))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # Clocks of two machines differ a little.
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + VALID_FOR)
    )


def _subject(name: str) -> x509.Name:
    # A common name has at most 64 characters.
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])


def _name_of(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    path.touch(mode=0o600)
    path.chmod(0o600)
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
