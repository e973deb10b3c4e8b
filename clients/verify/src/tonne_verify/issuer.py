"""The issuer file: the public keys of an operator, which `/.well-known/tonne-issuer.json` publishes."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self, TypeVar

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from tonne_verify.canonical import read_json
from tonne_verify.errors import NotProven
from tonne_verify.multibase import decode_multikey
from tonne_verify.notes import Note, VerifierKey, check_signatures, open_note, split_note
from tonne_verify.times import parse_time

ISSUER_FORMAT = "tonne-issuer/1"
Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class KeyPeriod:
    """Which signatures of a key count. A key that is no longer used has `until`, one that leaked `revoked_from`."""

    until: datetime | None = None
    revoked_from: datetime | None = None
    # The key was made then.
    since: datetime | None = None

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        times = [value.get(name) for name in ("until", "revoked_from", "from")]
        return cls(*(None if each is None else parse_time(each) for each in times))

    def check(self, at: datetime) -> None:
        """Raises NotProven if a signature with this time does not count."""
        if self.since is not None and at < self.since:
            made_on = f"{self.since:%Y-%m-%d}"
            raise NotProven(f"The signature is dated {at:%Y-%m-%d}, but the key was made on {made_on}.")
        if self.revoked_from is not None and at >= self.revoked_from:
            raise NotProven(f"The key was reported as leaked on {self.revoked_from:%Y-%m-%d}, before this signature.")
        if self.until is not None and at > self.until:
            raise NotProven(f"The key was retired on {self.until:%Y-%m-%d}, before this signature.")


@dataclass(frozen=True, slots=True)
class CredentialKey:
    id: str
    public_key: Ed25519PublicKey
    period: KeyPeriod


@dataclass(frozen=True, slots=True)
class DocumentCertificate:
    pem: str
    period: KeyPeriod


@dataclass(frozen=True, slots=True)
class IssuerLog:
    """Keys that leaked are not among `keys`. `final` is the text of the last checkpoint of a closed log."""

    mode: str
    origin: str
    url: str
    keys: tuple[VerifierKey, ...]
    witnesses: tuple[VerifierKey, ...]
    closed: str | None
    final: str | None = None
    # Where the seller discloses retirements.
    retirements: str | None = None

    def open_checkpoint(self, note: str, witnesses: Iterable[VerifierKey] = ()) -> Note:
        """Raises NotProven unless the log has signed it, or it is the last one of the closed log.

        The signatures of these witnesses are verified, too. Their keys count before those that the issuer names.
        """
        keys = [*self.keys, *self.witnesses, *witnesses]
        if split_note(note)[0] == self.final:
            # Its key may have leaked since.
            return check_signatures(note, keys)
        opened = open_note(note, keys)
        if not opened.is_signed_by(self.keys):
            raise NotProven(f"The checkpoint is not signed by the log {self.origin}.")
        return opened


@dataclass(frozen=True, slots=True)
class Issuer:
    id: str
    name: str
    credential_keys: tuple[CredentialKey, ...]
    document_certificates: tuple[DocumentCertificate, ...]
    logs: tuple[IssuerLog, ...]
    # Keys that this program cannot read, in words. They sign nothing that counts.
    ignored: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: bytes | str) -> Self:
        value = read_json(text)
        if not isinstance(value, dict) or value.get("format") != ISSUER_FORMAT:
            raise NotProven(
                f"This is not an issuer file of the format {ISSUER_FORMAT}. Download it from"
                " https://HOST/.well-known/tonne-issuer.json, where HOST is the seller's."
            )
        ignored: list[str] = []
        try:
            return cls(
                _text(value, "issuer"),
                _text(value, "name"),
                _readable(value["credential_keys"], _credential_key, ignored),
                _readable(value["document_certificates"], _certificate, ignored),
                tuple(_log(each, ignored) for each in value["logs"]),
                tuple(ignored),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise NotProven(f"The issuer file is incomplete or damaged ({error}). Download it again.") from None

    def credential_public_keys(self) -> dict[str, Ed25519PublicKey]:
        return {key.id: key.public_key for key in self.credential_keys}

    def credential_key(self, key_id: str) -> CredentialKey:
        for key in self.credential_keys:
            if key.id == key_id:
                return key
        raise NotProven(f"The issuer file does not list the key {key_id}.")

    def log(self, origin: str) -> IssuerLog:
        for log in self.logs:
            if log.origin == origin:
                return log
        raise NotProven(f"The issuer file does not list a log with the origin {origin}.")


def _readable(values: Iterable[Any], read: Callable[[Any], Key], ignored: list[str]) -> tuple[Key, ...]:
    """One odd key does not make the others unreadable."""
    found = []
    for each in values:
        try:
            found.append(read(each))
        except NotProven as error:
            ignored.append(str(error))
    return tuple(found)


def _credential_key(value: dict[str, Any]) -> CredentialKey:
    public_key = decode_multikey(_text(value, "public_key_multibase"))
    return CredentialKey(_text(value, "id"), public_key, KeyPeriod.from_json(value))


def _certificate(value: str | dict[str, Any]) -> DocumentCertificate:
    """A PEM text, or an object with `certificate` and the period of the key."""
    if isinstance(value, str):
        return DocumentCertificate(_pem(value), KeyPeriod())
    return DocumentCertificate(_pem(_text(value, "certificate")), KeyPeriod.from_json(value))


def _pem(text: str) -> str:
    try:
        x509.load_pem_x509_certificate(text.encode())
    except ValueError:
        raise NotProven("A document certificate is not one in PEM.") from None
    return text


def _log(value: dict[str, Any], ignored: list[str]) -> IssuerLog:
    return IssuerLog(
        _text(value, "mode"),
        _text(value, "origin"),
        _text(value, "url"),
        _readable(value["keys"], VerifierKey.parse, ignored),
        _readable(value.get("witnesses", ()), VerifierKey.parse, ignored),
        value.get("closed"),
        value.get("final"),
        value.get("retirements"),
    )


def _text(value: dict[str, Any], key: str) -> str:
    found = value[key]
    if not isinstance(found, str):
        raise NotProven(f"`{key}` in the issuer file is not a text. Download the file again.")
    return found
