"""The published test vectors, checked against our code and against OpenSSL."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tonne.channels.webhooks.sending.signing import new_secret, sign, signature_header

_FILE = Path(__file__).parents[3] / "docs" / "signing-vectors.json"
DOCUMENT = json.loads(_FILE.read_text(encoding="utf-8"))
VECTORS: list[dict[str, Any]] = DOCUMENT["vectors"]
by_name = pytest.mark.parametrize("vector", VECTORS, ids=[vector["name"] for vector in VECTORS])


def openssl(secret: str, timestamp: int, body: bytes) -> str:
    done = subprocess.run(
        ["openssl", "dgst", "-sha256", "-hmac", secret, "-hex"],
        input=f"{timestamp}.".encode() + body,
        capture_output=True,
        check=True,
        timeout=30,
    )
    return done.stdout.decode().split()[-1]


def test_the_vectors_cover_a_body_that_is_not_ascii() -> None:
    assert len(VECTORS) >= 3
    assert any(not vector["body"].isascii() for vector in VECTORS)


@by_name
def test_our_headers_are_those_of_the_vectors(vector: dict[str, Any]) -> None:
    body, signed = vector["body"].encode(), (vector["organisation"], vector["timestamp"])
    assert signature_header([vector["secret"]], *signed, body) == vector["header"]
    both = [vector["secret"], vector["previous_secret"]]
    assert signature_header(both, *signed, body) == vector["header_during_rotation"]


@by_name
def test_openssl_computes_the_same_signatures(vector: dict[str, Any]) -> None:
    body, timestamp = vector["body"].encode(), vector["timestamp"]
    signatures = [openssl(vector[name], timestamp, body) for name in ("secret", "previous_secret")]
    assert re.findall(r"v1=([^,]+)", vector["header"]) == signatures[:1]
    assert re.findall(r"v1=([^,]+)", vector["header_during_rotation"]) == signatures


@by_name
def test_the_vectors_have_the_form_of_the_specification(vector: dict[str, Any]) -> None:
    head = f"timestamp={vector['timestamp']},organisation={vector['organisation']}"
    signature = "v1=[0-9a-f]{64}"
    assert re.fullmatch(f"{re.escape(head)},{signature}", vector["header"])
    assert re.fullmatch(f"{re.escape(head)},{signature},{signature}", vector["header_during_rotation"])


def test_a_secret_is_a_prefix_and_256_random_bits_and_openssl_agrees_with_it() -> None:
    made = {new_secret() for _ in range(200)}
    assert len(made) == 200
    assert all(re.fullmatch(r"whsec_[A-Za-z0-9+/]{43}=", secret) for secret in made)
    secret = made.pop()
    assert sign(secret, 1, b"\x00\xff body") == openssl(secret, 1, b"\x00\xff body")
