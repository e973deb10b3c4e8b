"""The witnesses of the transparency log: their addresses and public keys."""

from pathlib import Path
from typing import NamedTuple, Protocol

from tonne.platform.values.urls import WEB, UrlInvalid, is_loopback, parse_url
from tonne_verify.errors import NotProven
from tonne_verify.notes import SignatureType, VerifierKey

MAX_WITNESSES = 16
_LOCAL = "localhost"


class WitnessAddress(NamedTuple):
    """`url` is the submission prefix of c2sp.org/tlog-witness, without a trailing slash."""

    url: str
    key: VerifierKey


class _WitnessSettings(Protocol):
    @property
    def log_witnesses(self) -> str: ...
    @property
    def log_witness_ca_file(self) -> str: ...


def parse_witnesses(text: str) -> tuple[WitnessAddress, ...]:
    """`https://witness.example/prefix witness.example/w1+c5f3…+BG0…, …`. Raises ValueError with what is wrong."""
    found = tuple(_parse_witness(part) for part in filter(None, map(str.strip, text.split(","))))
    if len({witness.key.name for witness in found}) < len(found):
        raise ValueError("two witnesses have the same name")
    if len(found) > MAX_WITNESSES:
        raise ValueError(f"there are more than {MAX_WITNESSES} witnesses")
    return found


def _parse_witness(text: str) -> WitnessAddress:
    address, _, vkey = text.partition(" ")
    if not vkey:
        raise ValueError(f"{text[:100]!r} is not an address and a key, separated by a space")
    try:
        url = parse_url(address, WEB)
        key = VerifierKey.parse(vkey.strip())
    except UrlInvalid as error:
        raise ValueError(f"the address {address[:100]!r} cannot be used: {error}") from error
    except NotProven as error:
        raise ValueError(str(error).rstrip(".")) from error
    if "?" in url.rest or "#" in url.rest:
        raise ValueError(f"the address {address} must not have a query or a fragment")
    if url.scheme != "https" and url.host != _LOCAL and not is_loopback(url.host.strip("[]")):
        raise ValueError(f"the address {address} must start with https://")
    if key.kind is not SignatureType.COSIGNATURE:
        raise ValueError(f"the key of {key.name} is not that of a witness: it must be of type 4 (cosignature)")
    return WitnessAddress(str(url).rstrip("/"), key)


def find_witness_fault(settings: _WitnessSettings) -> str | None:
    """What is wrong with the settings, and what to do; None if they are valid."""
    try:
        parse_witnesses(settings.log_witnesses)
    except ValueError as error:
        return (
            f"TONNE_LOG_WITNESSES: {error}. Write the address and the key of each witness with a space between them, "
            "and separate witnesses by commas."
        )
    if settings.log_witness_ca_file and not Path(settings.log_witness_ca_file).is_file():
        return f"TONNE_LOG_WITNESS_CA_FILE: there is no file {settings.log_witness_ca_file}."
    return None
