"""Multibase (base58btc) and multikey: how credentials write signatures and public keys."""

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from tonne_verify.errors import NotProven

ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
ED25519_PUBLIC = b"\xed\x01"
# Decoding costs the square of the length.
MAX_LENGTH = 200


def encode_multibase(value: bytes) -> str:
    number, digits = int.from_bytes(value), ""
    while number:
        number, digit = divmod(number, 58)
        digits = ALPHABET[digit] + digits
    return "z" + "1" * (len(value) - len(value.lstrip(b"\0"))) + digits


def decode_multibase(text: str) -> bytes:
    if not text.startswith("z") or len(text) > MAX_LENGTH or not set(text) <= set(ALPHABET):
        raise NotProven(f"`{text[:80]}` is not a value in base58btc, which starts with z.")
    digits = text[1:]
    number = 0
    for digit in digits:
        number = number * 58 + ALPHABET.index(digit)
    zeros = len(digits) - len(digits.lstrip("1"))
    return b"\0" * zeros + number.to_bytes((number.bit_length() + 7) // 8)


def encode_multikey(key: Ed25519PublicKey) -> str:
    """A public key such as `z6Mk…`."""
    return encode_multibase(ED25519_PUBLIC + key.public_bytes_raw())


def decode_multikey(text: str) -> Ed25519PublicKey:
    value = decode_multibase(text)
    if not value.startswith(ED25519_PUBLIC) or len(value) != 34:
        raise NotProven(f"`{text[:80]}` is not a public key of the kind Ed25519, which starts with z6Mk.")
    return Ed25519PublicKey.from_public_bytes(value[2:])
