"""What of a failed request is stored in the request log."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from tonne.platform.http.request_log.mask import MASK, MAX_BODY_BYTES, MAX_RAW_BYTES, mask_request

BODY = {
    "mass": {"amount": "1.5", "unit": "kilos"},
    "bundle_selection": [{"bundle_id": "bun_1", "percentage": 90}, {"bundle_id": "Ada Lovelace"}],
    "beneficiary": {"name": "Ada Lovelace", "kind": "person", "is_public": True},
    "email": "ada@example.com",
    "emial": "ada@example.com",
    "metadata": {"customer": "Ada", "seat": 12, "paid": True, "ada@example.com": None},
    "idempotency_key": "order-of-ada",
    "unit": "ada@example.com",
    "phone": 4915112345678,
}


def test_only_known_values_that_look_harmless_are_kept() -> None:
    masked = mask_request(json.dumps(BODY).encode(), "")
    assert masked.body is not None
    assert json.loads(masked.body) == {
        "mass": {"amount": "1.5", "unit": "kilos"},
        "bundle_selection": [{"bundle_id": "bun_1", "percentage": 90}, {"bundle_id": MASK}],
        "beneficiary": {"name": MASK, "kind": "person", "is_public": True},
        "email": MASK,
        "emial": MASK,
        "metadata": {"customer": MASK, "seat": MASK, "paid": True, MASK: None},
        "idempotency_key": MASK,
        "unit": MASK,
        "phone": MASK,
    }


def test_a_message_does_not_repeat_what_is_masked() -> None:
    body = json.dumps({"Ada Lovelace": 1, "name": "Ada King"}).encode()
    masked = mask_request(body, "Unknown field Ada Lovelace. “Ada King” is no name. Write to ada@example.com, bob@x.y.")
    assert masked.message == f"Unknown field {MASK}. “{MASK}” is no name. Write to {MASK} {MASK}"


def test_what_cannot_be_parsed_or_is_large_is_not_stored() -> None:
    for body in (b"", b"{", b"\xff", b"name=Ada", b"[" * 100_000, b'{"name": NaN}', b" " * MAX_RAW_BYTES + b"{}"):
        assert mask_request(body, "wrong").body is None
    deep = b'{"a":' * 100 + b'"Ada"' + b"}" * 100
    assert "Ada" not in (mask_request(deep, "").body or "")


def test_a_stored_body_has_at_most_4_kib() -> None:
    long = json.dumps({"bundle_ids": [f"bün_{n}" if n % 2 else f"bun_{n}" for n in range(1000)]}).encode()
    body = mask_request(long, "").body
    assert body is not None
    assert body.endswith("…")
    assert len(body.encode()) <= MAX_BODY_BYTES


@settings(max_examples=25)
@given(
    st.recursive(
        st.sampled_from(["Ada Lovelace", "ada@example.com", "x", None, True, 7]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["name", "email", "mass", "unit", "metadata", "ada@example.com"]), inner)
        ),
        max_leaves=10,
    )
)
def test_no_body_stores_a_name_or_an_address(value: object) -> None:
    body = mask_request(json.dumps(value).encode(), "").body
    assert body is not None
    assert "Lovelace" not in body
    assert "@" not in body
