"""Public certificates, and checking any certificate by its number."""

import re
from datetime import date, datetime
from typing import Any, Literal

import msgspec

from tonne.base.clock import Clock
from tonne.base.settings import Settings
from tonne.db.pool import Connection, Database
from tonne.http.rate_limit import TokenBuckets
from tonne.http.route import Request, Response
from tonne.retirements.certificate_pdf import qr_code
from tonne.retirements.certificate_record import CertificateLine
from tonne.retirements.certificates import (
    CertificateDocument,
    StoredCertificate,
    find_by_number_any_account,
    list_documents_any_account,
    normal_number,
)
from tonne.retirements.endpoints import pdf_answer
from tonne.retirements.render_certificate import render_certificate
from tonne.sustainability.errors import CertificateNotFound
from tonne.sustainability.store import find_page, shows_certificates
from tonne.web.render import Renderer, see_other

MAX_ENTERED = 60
_NOT_IN_NUMBER = re.compile(r"[^A-Za-z0-9-]")
_BETWEEN_DIGITS = re.compile(r"[\s:]")
_SHA256 = re.compile(r"[0-9a-f]{64}")

PdfMatch = Literal["genuine", "unknown", "unreadable"]


class CertificatePages:
    def __init__(self, database: Database, renderer: Renderer, *, clock: Clock, settings: Settings) -> None:
        self._database = database
        self._renderer = renderer
        self._clock = clock
        self._lookups = TokenBuckets("verify", settings.verify_per_minute / 60, settings.verify_burst)

    async def show_certificate(self, request: Request) -> Response:
        """A public certificate."""
        found = await self._public(request)
        async with self._database.connection() as connection:
            sustainability = await find_page(connection, found.scope)
            # Not the number of a certificate in a private name: with it, anyone could look the name up.
            replacement = await _find_public(connection, found.replaced_by or "")
        return self._renderer.page(
            request,
            "certificate.html",
            test_mode=found.record.mode == "test",
            sustainability=sustainability,
            qr=qr_code(found.record.verification_url),
            shows_replacement=replacement is not None,
            **_shown(found),
        )

    async def show_pdf(self, request: Request) -> Response:
        """A public certificate as a PDF.

        Counts towards the rate limit, because rendering a PDF takes time.
        """
        self._count(request)
        record = (await self._public(request)).record
        response = pdf_answer(record, await render_certificate(self._database, record, self._clock))
        # The account may unpublish its page at any time.
        response.headers |= {"Cache-Control": "no-store", "X-Robots-Tag": "noindex"}
        return response

    async def show_verify_form(self, request: Request) -> Response:
        """The form for checking a certificate.

        With `number` in the query, redirects to the page of that number.
        """
        (number,) = request.query("number")
        if number is None:
            return self._form(request)
        # Drop characters that no number contains, so that the redirect is always a valid path.
        entered = normal_number(number) or _NOT_IN_NUMBER.sub("", number)[:MAX_ENTERED]
        if not entered.strip("-"):
            return self._form(request, fault="Enter the number printed on the certificate.", status=400)
        return see_other(f"/verify/{entered}")

    async def verify(self, request: Request) -> Response:
        """Check a certificate and its PDF.

        Malformed numbers are looked up too, so that they get the same answer as unknown ones.
        """
        self._count(request)
        (sha256,) = request.query("sha256")
        number = normal_number(request.path("number"))
        async with self._database.connection() as connection:
            found = await find_by_number_any_account(connection, number)
            if found is None:
                fault = "We haven't issued a certificate with this number. Compare it with the number on your document."
                return self._form(request, entered=request.path("number")[:MAX_ENTERED], fault=fault, status=404)
            documents = await list_documents_any_account(connection, number)
            has_page = found.is_public and await shows_certificates(connection, found.scope)
        return self._renderer.page(
            request,
            "verify_certificate.html",
            test_mode=found.record.mode == "test",
            documents=documents,
            has_page=has_page,
            shows_replacement=True,
            sha256=(sha256 or "")[:200],
            match=None if sha256 is None else _match(sha256, documents),
            **_shown(found),
        )

    def _form(self, request: Request, *, entered: str = "", fault: str | None = None, status: int = 200) -> Response:
        return self._renderer.page(request, "verify.html", status=status, entered=entered, fault=fault)

    async def _public(self, request: Request) -> StoredCertificate:
        """Only misses count towards the rate limit: many people may share one network address."""
        self._count(request, 0)
        async with self._database.connection() as connection:
            found = await _find_public(connection, normal_number(request.path("number")))
        if found is None:
            self._count(request)
            raise CertificateNotFound
        return found

    def _count(self, request: Request, count: int = 1) -> None:
        message = "Too many certificate lookups from your network. Wait a minute, then reload the page."
        self._lookups.require(request.limited_as, count, message)


async def _find_public(connection: Connection, number: str) -> StoredCertificate | None:
    """None also for a certificate in a private name, and if the account does not publish certificates."""
    found = await find_by_number_any_account(connection, number)
    if found is None or not found.is_public or not await shows_certificates(connection, found.scope):
        return None
    return found


def _match(sha256: str, documents: list[CertificateDocument]) -> PdfMatch:
    digits = _BETWEEN_DIGITS.sub("", sha256).lower()
    if not _SHA256.fullmatch(digits):
        return "unreadable"
    return "genuine" if any(document.sha256 == digits for document in documents) else "unknown"


def _shown(found: StoredCertificate) -> dict[str, Any]:
    """The certificate, with dates that the template can format for the visitor's locale."""
    record = found.record
    return {
        "certificate": found,
        "record": record,
        "issued_on": datetime.fromisoformat(record.issued_at),
        "lines": [_shown_line(line) for line in record.lines],
        "all_in_advance": all(line.in_advance for line in record.lines),
        "has_shared": any(line.shared for line in record.lines),
    }


def _shown_line(line: CertificateLine) -> dict[str, Any]:
    kind = [part for part in (line.project_type, line.country, line.methodology) if part]
    url = line.retirement_url
    link = url if url is not None and url.startswith(("https://", "http://")) else None
    return msgspec.structs.asdict(line) | {
        "kind": kind,
        "retired_on": date.fromisoformat(line.retired_on),
        "assigned_on": None if line.in_advance is None else date.fromisoformat(line.in_advance.assigned_on),
        "link": link,
    }
