"""Signed notes, checkpoints and cosignatures of witnesses (c2sp.org/signed-note, tlog-checkpoint, tlog-cosignature)."""

import hashlib
import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tonne_verify.base64_strict import decode_base64, encode_base64
from tonne_verify.errors import NotProven

try:
    from cryptography.hazmat.primitives.asymmetric import mldsa
except ImportError:
    mldsa = None  # type: ignore[assignment]

MAX_NOTE_LENGTH = 1_000_000
MAX_SIGNATURES = 100
DASH = "\u2014"


class SignatureType(IntEnum):
    ED25519 = 0x01
    COSIGNATURE = 0x04
    # Also a cosignature. Older versions of `cryptography` cannot verify it.
    ML_DSA_44 = 0x06

    @classmethod
    def of_witnesses(cls) -> "set[SignatureType]":
        return {cls.COSIGNATURE, cls.ML_DSA_44}


KEY_SIZES = {SignatureType.ED25519: 32, SignatureType.COSIGNATURE: 32, SignatureType.ML_DSA_44: 1312}
SIGNATURE_SIZES = {SignatureType.ED25519: 64, SignatureType.COSIGNATURE: 72, SignatureType.ML_DSA_44: 2428}


@dataclass(frozen=True, slots=True)
class VerifierKey:
    """A public key with its name, written `name+id+key` (vkey)."""

    name: str
    kind: SignatureType
    public: bytes

    @classmethod
    def parse(cls, vkey: str) -> Self:
        parts = vkey.split("+", 2)
        if len(parts) != 3:
            raise NotProven(f"`{vkey[:100]}` is not a public key of the form name+id+key.")
        name, key_id, encoded = parts
        material = decode_base64(encoded)
        kind = material[0] if material else 0
        if kind not in set(SignatureType) or len(material) != 1 + KEY_SIZES[SignatureType(kind)]:
            raise NotProven(f"The public key of {name} is of an unknown kind. Ed25519 and ML-DSA-44 are supported.")
        key = cls(check_key_name(name), SignatureType(material[0]), material[1:])
        if key.id.hex() != key_id:
            raise NotProven(f"The public key of {name} does not match its id {key_id}. Copy it again.")
        return key

    @property
    def id(self) -> bytes:
        return hashlib.sha256(self.name.encode() + b"\n" + bytes([self.kind]) + self.public).digest()[:4]

    @property
    def vkey(self) -> str:
        return f"{self.name}+{self.id.hex()}+{encode_base64(bytes([self.kind]) + self.public)}"

    def verify(self, text: str, signature: bytes) -> int | None:
        """The time of a cosignature in seconds since 1970, None for other signatures. Raises NotProven."""
        message, at = text.encode(), None
        if len(signature) != SIGNATURE_SIZES[self.kind]:
            raise NotProven(f"The signature of {self.name} has the wrong length.")
        if self.kind in SignatureType.of_witnesses():
            (at,) = struct.unpack(">Q", signature[:8])
            signature = signature[8:]
            is_ed25519 = self.kind is SignatureType.COSIGNATURE
            message = cosigned_message(text, at) if is_ed25519 else subtree_message(self.name, text, at)
        try:
            if self.kind is SignatureType.ML_DSA_44:
                mldsa.MLDSA44PublicKey.from_public_bytes(self.public).verify(signature, message)
            else:
                Ed25519PublicKey.from_public_bytes(self.public).verify(signature, message)
        except (InvalidSignature, ValueError):
            raise NotProven(f"The signature of {self.name} is wrong: the text was changed, or the key is.") from None
        return at

    @property
    def is_supported(self) -> bool:
        return self.kind is not SignatureType.ML_DSA_44 or mldsa is not None


class NoteKey:
    """A private key that signs notes."""

    def __init__(self, name: str, private_key: Ed25519PrivateKey, kind: SignatureType = SignatureType.ED25519) -> None:
        self._private_key = private_key
        self.public = VerifierKey(check_key_name(name), kind, private_key.public_key().public_bytes_raw())

    @property
    def name(self) -> str:
        return self.public.name

    @property
    def vkey(self) -> str:
        return self.public.vkey

    def sign(self, text: str) -> str:
        """The signature line for a text, with its newline."""
        if self.public.kind is not SignatureType.ED25519:
            raise NotProven(f"The key {self.name} makes cosignatures only.")
        return self._line(self._private_key.sign(text.encode()))

    def cosign(self, text: str, at: int) -> str:
        """The line with which a witness cosigns a checkpoint, at a time in seconds since 1970."""
        if self.public.kind is not SignatureType.COSIGNATURE:
            raise NotProven(f"The key {self.name} does not make cosignatures.")
        return self._line(struct.pack(">Q", at) + self._private_key.sign(cosigned_message(text, at)))

    def _line(self, signature: bytes) -> str:
        return f"{DASH} {self.name} {encode_base64(self.public.id + signature)}\n"


@dataclass(frozen=True, slots=True)
class NoteSignature:
    """A verified signature. `at` is the time of a cosignature."""

    key: VerifierKey
    at: int | None


@dataclass(frozen=True, slots=True)
class Note:
    text: str
    signatures: tuple[NoteSignature, ...]

    def is_signed_by(self, keys: Iterable[VerifierKey]) -> bool:
        wanted = set(keys)
        return any(each.key in wanted for each in self.signatures)


def open_note(note: str, keys: Iterable[VerifierKey]) -> Note:
    """Verifies a note. Raises NotProven if a signature of a given key is wrong, or none is there."""
    opened = check_signatures(note, keys)
    if not opened.signatures:
        raise NotProven("None of the known keys has signed it.")
    return opened


def check_signatures(note: str, keys: Iterable[VerifierKey]) -> Note:
    """Like `open_note`, for a note whose text is known: it may have no signature of these keys."""
    text, lines = split_note(note)
    known = {(key.name, key.id): key for key in keys}
    verified: dict[VerifierKey, NoteSignature] = {}
    for line in lines:
        name, signature = _parse_signature(line)
        key = known.get((name, signature[:4]))
        if key is not None and key not in verified and key.is_supported:
            at = key.verify(text, signature[4:])
            # A cosignature without a time does not say that the tree was the newest.
            if at != 0:
                verified[key] = NoteSignature(key, at)
    return Note(text, tuple(verified.values()))


def split_note(note: str) -> tuple[str, list[str]]:
    """The text of a note and its signature lines, which are not verified."""
    if len(note) > MAX_NOTE_LENGTH or not note.endswith("\n") or re.search(r"[\x00-\x09\x0b-\x1f]", note):
        raise NotProven("This is not a signed note.")
    text, gap, signatures = note.rpartition("\n\n")
    lines = signatures.splitlines() if "\r" not in signatures else []
    if not gap or not 1 <= len(lines) <= MAX_SIGNATURES:
        raise NotProven("This is not a signed note.")
    return text + "\n", lines


def _parse_signature(line: str) -> tuple[str, bytes]:
    parts = line.split(" ")
    if len(parts) != 3 or parts[0] != DASH:
        raise NotProven(f"`{line[:80]}` is not a signature line.")
    signature = decode_base64(parts[2])
    if len(signature) < 5:
        raise NotProven(f"The signature of {parts[1][:80]} is too short.")
    return check_key_name(parts[1]), signature


def check_key_name(name: str) -> str:
    if not name or "+" in name or any(each.isspace() for each in name):
        raise NotProven(f"`{name[:80]}` is not the name of a key.")
    return name


def cosigned_message(text: str, at: int) -> bytes:
    if not 0 <= at < 1 << 63:
        raise NotProven("The time of a cosignature is out of range.")
    return f"cosignature/v1\ntime {at}\n{text}".encode()


def subtree_message(cosigner: str, text: str, at: int) -> bytes:
    """What an ML-DSA-44 key signs of a checkpoint, with its own name."""
    if not 0 <= at < 1 << 63:
        raise NotProven("The time of a cosignature is out of range.")
    checkpoint = Checkpoint.parse(text)
    name, origin = cosigner.encode(), checkpoint.origin.encode()
    if len(name) > 255 or len(origin) > 255:
        raise NotProven("The name of the witness or of the log is too long.")
    return (
        b"subtree/v1\n\0"
        + bytes([len(name)])
        + name
        + struct.pack(">Q", at)
        + bytes([len(origin)])
        + origin
        + struct.pack(">QQ", 0, checkpoint.size)
        + checkpoint.root
    )


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The head of a log: how many entries its tree has, and the root."""

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        lines = (self.origin, str(self.size), encode_base64(self.root), *self.extensions)
        return "".join(f"{line}\n" for line in lines)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads the text of a note. The caller has verified its signature."""
        lines = text.split("\n")
        if len(lines) < 4 or lines.pop() or not all(lines) or not re.fullmatch(r"0|[1-9][0-9]{0,18}", lines[1]):
            raise NotProven("This is not the checkpoint of a log.")
        checkpoint = cls(lines[0], int(lines[1]), decode_base64(lines[2]), tuple(lines[3:]))
        if len(checkpoint.root) != 32:
            raise NotProven("The root hash of the checkpoint does not have 32 bytes.")
        return checkpoint
