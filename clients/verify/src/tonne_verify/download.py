"""Downloads for `--online` and the monitor: bounded, over HTTPS or from this machine, without redirects."""

import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tonne_verify.errors import NotFetched, NotProven

TIMEOUT_S = 20.0
MAX_SIZE = 5_000_000
MAX_LINE = 1_000_000
LOOPBACK = {"localhost", "127.0.0.1", "::1"}


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect could lead to another host, or away from HTTPS."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirects)


def check_url(url: str) -> str:
    parts = urllib.parse.urlsplit(url)
    if parts.scheme == "https" and parts.hostname:
        return url
    if parts.scheme == "http" and parts.hostname in LOOPBACK:
        return url
    raise NotProven(f"`{url[:200]}` is not an address that starts with https://.")


def fetch(url: str, limit: int = MAX_SIZE, timeout_s: float = TIMEOUT_S) -> bytes:
    """The body of a response with the status 200. Raises NotFetched."""
    request = urllib.request.Request(  # noqa: S310 - check_url allows only HTTPS, and HTTP to this machine
        check_url(url), headers={"User-Agent": "tonne-verify", "Accept-Encoding": "identity"}
    )
    try:
        with _OPENER.open(request, timeout=timeout_s) as response:
            body: bytes = response.read(limit + 1)
            status = response.status
    except urllib.error.HTTPError as error:
        error.close()
        if error.code in range(300, 400):
            target = error.headers.get("Location")
            sentence = f"{url} redirects to {target}. Use that address if it is the seller's."
            raise NotFetched(sentence, error.code) from None
        raise NotFetched(f"{url} answers with the status {error.code}.", error.code) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise NotFetched(f"{url} cannot be reached ({reason}).") from None
    if status != 200:
        raise NotFetched(f"{url} answers with the status {status}.", status)
    if len(body) > limit:
        raise NotFetched(f"{url} answers with more than {limit} bytes.")
    return body


def read_lines(source: str) -> Iterator[bytes]:
    """The lines of a file, or of what an address answers with, one after the other. Raises NotProven."""
    try:
        if source.startswith(("https://", "http://")):
            request = urllib.request.Request(check_url(source), headers={"User-Agent": "tonne-verify"})  # noqa: S310 - as above
            opened = _OPENER.open(request, timeout=TIMEOUT_S)
        else:
            opened = Path(source).open("rb")  # noqa: SIM115 - closed below
        with opened:
            yield from iter(lambda: opened.readline(MAX_LINE), b"")
    except (OSError, ValueError) as error:
        raise NotFetched(f"{source} cannot be read ({error}).") from None


def fetch_text(url: str, limit: int = MAX_SIZE) -> str:
    try:
        return fetch(url, limit).decode()
    except UnicodeDecodeError:
        raise NotFetched(f"{url} does not answer with text.") from None


def address_of_issuer(did: str) -> str:
    """Where the issuer publishes its keys: `did:web:offsets.example.com` at its well-known address."""
    host = urllib.parse.unquote(did.removeprefix("did:web:"))
    if not did.startswith("did:web:") or not host or set(host) & set("/?#@:\\ ") - {":"}:
        raise NotProven(f"`{did[:100]}` is not an issuer of the form did:web:HOST.")
    scheme = "http" if (urllib.parse.urlsplit(f"//{host}").hostname in LOOPBACK) else "https"
    return f"{scheme}://{host}/.well-known/tonne-issuer.json"
