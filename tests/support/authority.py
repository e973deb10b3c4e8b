"""A certificate authority with revocation lists, and a time-stamp authority, on a port of this machine."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from asn1crypto import pem, x509
from certomancer.integrations.animator import Animator, AnimatorArchStore
from certomancer.registry import ArchLabel, CertLabel, CertomancerConfig, PKIArchitecture
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from msgspec import Struct
from werkzeug.serving import make_server

from tests.support.document_key import DocumentKeyFiles

_VALID = {"valid-from": "2020-01-01T00:00:00+0000", "valid-to": "2060-01-01T00:00:00+0000"}
_NAME = ArchLabel("tests")


class Authority(Struct, frozen=True):
    """`signer` is issued by it."""

    root: x509.Certificate
    time_stamp_url: str
    signer: DocumentKeyFiles


@contextmanager
def running_authority(folder: Path) -> Iterator[Authority]:
    for name in ("root", "tsa", "signer"):
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (folder / f"{name}.pem").write_bytes(private)
    stores = AnimatorArchStore({})
    server = make_server("127.0.0.1", 0, Animator(stores, with_web_ui=False), threaded=True)
    tests = CertomancerConfig(_config(server.port), key_search_dir=str(folder)).get_pki_arch(_NAME)
    stores.architectures[_NAME] = tests
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.port}/tests/tsa/tsa"
        yield Authority(tests.get_cert(CertLabel("root")), url, _write_signer(tests, folder))
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _write_signer(tests: PKIArchitecture, folder: Path) -> DocumentKeyFiles:
    chain = (tests.get_cert(CertLabel(name)) for name in ("signer", "root"))
    certificates = folder / "chain.pem"
    certificates.write_bytes(b"".join(pem.armor("CERTIFICATE", each.dump()) for each in chain))
    return {"document_key_file": str(folder / "signer.pem"), "document_certificate_file": str(certificates)}


def _config(port: int) -> dict[str, Any]:
    names = ("root", "tsa", "signer")
    lists = {
        "id": "crl_distribution_points",
        "smart-value": {"schema": "crl-dist-url", "params": {"crl-repo-names": ["root"]}},
    }
    stamps = {"id": "extended_key_usage", "critical": True, "value": ["time_stamping"]}
    root = {"subject": "root", "issuer": "root", "validity": _VALID}
    return {
        "external-url-prefix": f"http://127.0.0.1:{port}",
        "keysets": {"keys": {"path-prefix": ".", "keys": {name: {"path": f"{name}.pem"} for name in names}}},
        "pki-architectures": {
            "tests": {
                "keyset": "keys",
                "entity-defaults": {"country-name": "DE"},
                "entities": {
                    "root": {"common-name": "Authority of tests"},
                    "tsa": {"common-name": "Time authority of tests"},
                    "signer": {"common-name": "Signer of tests"},
                },
                "certs": {
                    "root": {**root, "extensions": [_CA, _usage("digital_signature", "key_cert_sign", "crl_sign")]},
                    "tsa": {
                        "issuer": "root",
                        "validity": _VALID,
                        "extensions": [_usage("digital_signature"), stamps, lists],
                    },
                    "signer": {
                        "issuer": "root",
                        "validity": _VALID,
                        "extensions": [_usage("digital_signature", "non_repudiation"), lists],
                    },
                },
                "services": {
                    "crl-repo": {
                        "root": {"for-issuer": "root", "signing-key": "root", "simulated-update-schedule": "P90D"}
                    },
                    "time-stamping": {"tsa": {"signing-key": "tsa", "signing-cert": "tsa", "certs-to-embed": ["root"]}},
                },
            }
        },
    }


_CA = {"id": "basic_constraints", "critical": True, "value": {"ca": True}}


def _usage(*allowed: str) -> dict[str, Any]:
    return {
        "id": "key_usage",
        "critical": True,
        "smart-value": {"schema": "key-usage", "params": list(allowed)},
    }
