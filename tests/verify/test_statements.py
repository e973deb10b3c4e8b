"""Canonical JSON, openings, credentials and the issuer file."""

import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tonne_verify.canonical import canonical_json, read_json
from tonne_verify.credentials import check_credential, sign_credential
from tonne_verify.errors import NotProven
from tonne_verify.issuer import Issuer
from tonne_verify.multibase import decode_multibase, decode_multikey, encode_multibase, encode_multikey
from tonne_verify.openings import Opening, names_hash
from tonne_verify.times import parse_time

KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
METHOD = "did:web:offsets.example.com#k1"


def test_canonical_json_sorts_by_utf_16() -> None:
    """The key order and the strings of the examples in RFC 8785."""
    keys = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\u0080", "\u00f6"]
    text = canonical_json(dict.fromkeys(keys, 1)).decode()
    assert list(json.loads(text)) == ["\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]
    assert canonical_json({"b": '\u20ac$\u000f\u000aA\'\u0042"\\"/\x7f', "a": [None, True, -5, {}]}) == (
        b'{"a":[null,true,-5,{}],"b":"\xe2\x82\xac$\\u000f\\nA\'B\\"\\\\\\"/\x7f"}'
    )


@pytest.mark.parametrize("value", [0.1, 1.0, 1 << 53, {"a": float("nan")}, {1: 2}, "\ud800", {"\ud800é": 1}, b"bytes"])
def test_what_has_no_canonical_form(value: Any) -> None:
    with pytest.raises(NotProven):
        canonical_json(value)


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', "[NaN]", "{", b"\xff", "[" * 100_000])
def test_what_is_no_strict_json(text: str | bytes) -> None:
    with pytest.raises(NotProven):
        read_json(text)


def make_opening() -> Opening:
    names = {"beneficiary": "Ada Lovelace"}
    statement = {
        "format": "tonne-statement/1",
        "kind": "certificate.issued",
        "mode": "live",
        "subject": "CERT-1",
        "at": "2026-05-04T10:00:00Z",
        "facts": {"number": "CERT-1", "total_quantity": "1.000"},
        "names": names_hash(names, b"n" * 32),
    }
    return Opening(statement, b"s" * 32, names, b"n" * 32)


def test_an_opening_commits_to_all_its_parts() -> None:
    opening = make_opening()
    opening.check()
    value = opening.to_json()
    assert Opening.from_json({**value, "type": "TransparencyLogEntry", "proof": "…"}) == opening
    for changed in (
        {**value, "salt": "00" * 32},
        {**value, "statement": {**value["statement"], "at": "2026-05-04T10:00:01Z"}},
    ):
        assert Opening.from_json(changed).commitment() != opening.commitment()
    for changed in (
        {**value, "names": {"beneficiary": "Eve"}},
        {**value, "names_salt": "00" * 32},
        {**value, "names_salt": None},
        {**value, "statement": {**value["statement"], "names": None}},
        {**value, "statement": {**value["statement"], "kind": "other"}},
        {**value, "statement": {**value["statement"], "more": 1}},
    ):
        with pytest.raises(NotProven):
            Opening.from_json(changed).check()


def test_the_facts_hold_after_the_names_were_erased() -> None:
    whole = make_opening()
    erased = Opening.from_json({**whole.to_json(), "names": None, "names_salt": None})
    erased.check()
    assert erased.names_erased
    assert not whole.names_erased
    assert erased.commitment() == whole.commitment()


@pytest.mark.parametrize("value", [None, {}, {"statement": {}}, {"statement": {}, "salt": "AB" * 32}])
def test_what_is_no_opening(value: Any) -> None:
    with pytest.raises(NotProven):
        Opening.from_json(value)


def test_a_credential_is_signed_as_a_whole() -> None:
    document = {"@context": ["https://www.w3.org/ns/credentials/v2"], "id": "x", "credentialSubject": {"number": "1"}}
    signed = sign_credential(document, KEY, METHOD, "2026-05-04T10:00:00Z")
    keys = {METHOD: KEY.public_key()}
    assert check_credential(signed, keys).created == parse_time("2026-05-04T10:00:00Z")
    proof = signed["proof"]
    for changed in (
        {**signed, "id": "y"},
        {**signed, "credentialSubject": {"number": "2"}},
        {**signed, "more": None},
        {**signed, "@context": []},
        {**signed, "proof": {**proof, "created": "2026-05-04T10:00:01Z"}},
        {**signed, "proof": {**proof, "verificationMethod": "did:web:evil.example#k1"}},
        {**signed, "proof": {**proof, "cryptosuite": "eddsa-rdfc-2022"}},
        {**signed, "proof": {**proof, "proofPurpose": "authentication"}},
        {**signed, "proof": {**proof, "proofValue": encode_multibase(bytes(64))}},
        {**signed, "proof": {**proof, "proofValue": "z"}},
        {**signed, "proof": None},
        document,
    ):
        with pytest.raises(NotProven):
            check_credential(changed, keys)


def test_multibase_and_multikey() -> None:
    assert encode_multibase(b"\0\0hello") == "z11Cn8eVZg"
    assert decode_multibase("z11Cn8eVZg") == b"\0\0hello"
    text = encode_multikey(KEY.public_key())
    assert text.startswith("z6Mk")
    assert decode_multikey(text).public_bytes_raw() == KEY.public_key().public_bytes_raw()
    for wrong in ("", "m1", "z0", "zII", "z11", "z" * 300):
        with pytest.raises(NotProven):
            decode_multikey(wrong)


def issuer_json() -> dict[str, Any]:
    return {
        "format": "tonne-issuer/1",
        "issuer": "did:web:offsets.example.com",
        "name": "Example Offsets",
        "credential_keys": [
            {"id": METHOD, "public_key_multibase": encode_multikey(KEY.public_key()), "from": None, "until": None}
        ],
        "document_certificates": ["-----BEGIN CERTIFICATE-----"],
        "logs": [],
    }


def test_keys_of_the_issuer_have_a_period() -> None:
    value = issuer_json()
    value["credential_keys"].append(
        {
            **value["credential_keys"][0],
            "id": "old",
            "until": "2026-02-01T00:00:00Z",
            "revoked_from": "2026-01-01T00:00:00Z",
        }
    )
    issuer = Issuer.parse(json.dumps(value))
    assert set(issuer.credential_public_keys()) == {METHOD, "old"}
    period = issuer.credential_key("old").period
    period.check(parse_time("2025-12-31T23:59:59Z"))
    for late, reason in (("2026-01-01T00:00:00Z", "leaked"), ("2026-03-01T00:00:00Z", "leaked")):
        with pytest.raises(NotProven, match=reason):
            period.check(parse_time(late))


@pytest.mark.parametrize(
    "change", [{"format": "x"}, {"issuer": 1}, {"credential_keys": None}, {"logs": [{}]}, {"logs": ["x"]}]
)
def test_a_damaged_issuer_file(change: dict[str, Any]) -> None:
    with pytest.raises(NotProven):
        Issuer.parse(json.dumps({**issuer_json(), **change}))
