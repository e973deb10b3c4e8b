"""Public certificates, and verifying any certificate by its number or its file.

Their entries in the transparency log are shown: what they state, and the proofs that they are in it.
"""

import hashlib
import re
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

import msgspec

from tonne.channels.public_pages.certificates.pdf_number import find_number, is_pdf
from tonne.channels.public_pages.certificates.verdict import (
    CertificateVerdict,
    FileMatch,
    match_file,
    normal_sha256,
    verdict_on,
)
from tonne.channels.public_pages.errors import CertificateNotFound, SustainabilityPageNotFound
from tonne.channels.public_pages.figures import figure_store
from tonne.channels.public_pages.figures.figure_store import FigurePeriod
from tonne.channels.public_pages.model import PageSection, SustainabilityPage, project_path
from tonne.channels.public_pages.store import find_page, shows_certificates
from tonne.platform.db.database import Connection, Database
from tonne.platform.db.replica import Reads
from tonne.platform.http.limits.rate_limit import TokenBuckets
from tonne.platform.http.limits.turns import in_turn
from tonne.platform.http.lists import Paging, list_response
from tonne.platform.http.route import Request, Response
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import MassUnit, to_grams
from tonne.platform.values.context import Mode
from tonne.platform.values.language import N_
from tonne.platform.values.paging import parse_cursor, parse_limit
from tonne.platform.web.caching import ONE_MINUTE
from tonne.platform.web.render import Renderer, see_other
from tonne.selling.catalogue.snapshot import Catalogues
from tonne.supply.certificates import store
from tonne.supply.certificates.credentials.issue_credential import IssueCredential, RenderCertificate
from tonne.supply.certificates.pdf import qr_code
from tonne.supply.certificates.proofs.read_proofs import find_evidence
from tonne.supply.certificates.record import CertificateLine
from tonne.supply.stock.credit_facts import NO_FACTS
from tonne.supply.stock.lots.registries import what_opens
from tonne.supply.transparency.shown_log import find_shown_entry
from tonne_verify.pack_tables import old_months

MAX_ENTERED = 60
_NOT_IN_NUMBER = re.compile(r"[^A-Za-z0-9-]")
# A certificate has some 100 KB.
MAX_UPLOAD_BYTES = 4 * 1024 * 1024
_NUMBER_MISSING = N_("Enter the number printed on the certificate.")
_FILE_MISSING = N_("The file is empty, or no file was chosen. Choose the PDF of the certificate.")
_NOT_A_PDF = N_("This file isn't a PDF. Choose the PDF of the certificate.")
_NOT_A_HASH = N_("This isn't a SHA-256 hash. A hash has 64 characters, 0–9 and a–f.")
# The account may unpublish its page at any time.
_NOT_KEPT = {"Cache-Control": "no-store", "X-Robots-Tag": "noindex"}
_TOO_MANY = N_("Too many certificate lookups from your network. Wait a minute, then reload the page.")


class CertificatePages:
    def __init__(
        self,
        database: Database,
        renderer: Renderer,
        certificates: RenderCertificate,
        credentials: IssueCredential,
        *,
        catalogues: Catalogues,
        settings: Settings,
    ) -> None:
        self._database = database
        self._renderer = renderer
        self._certificates = certificates
        self._credentials = credentials
        self._catalogues = catalogues
        self._lookups = TokenBuckets("verify", settings.verify_per_minute / 60, settings.verify_burst)

    @property
    def limits(self) -> tuple[TokenBuckets, ...]:
        return (self._lookups,)

    async def show_certificate(self, request: Request) -> Response:
        """A public certificate."""
        found = await self._public(request)
        async with self._database.connection() as connection:
            sustainability = await find_page(connection, found.scope)
            # Not the number of a certificate in a private name: with it, anyone could look the name up.
            replacement = await _find_public(connection, found.replaced_by or "")
            proof = await find_shown_entry(connection, found.scope.mode, found.record.number)
        is_hidden = sustainability is not None and sustainability.is_hidden
        return self._renderer.page(
            request,
            "certificate.html",
            default_language=found.record.language,
            headers={"X-Robots-Tag": "noindex"} if is_hidden else None,
            test_mode=found.record.mode == "test",
            sustainability=sustainability,
            logo_address=_logo_address(found, sustainability),
            qr=qr_code(found.record.verification_url),
            shows_replacement=replacement is not None,
            proof=proof,
            project_paths=await self._project_paths(found.scope.mode),
            **_shown(found),
        )

    async def _project_paths(self, mode: Mode) -> dict[tuple[str, str], str]:
        """The addresses of the pages of all projects, by registry and the registry's id.

        With our id: a slug can be edited, and the page of a certificate stays as it is.
        """
        projects = (await self._catalogues.current(mode)).projects.values()
        return {(each.registry, each.registry_project_id): project_path(mode, each.id) for each in projects}

    async def show_pdf(self, request: Request) -> Response:
        """A public certificate as a PDF.

        Counts towards the rate limit, because rendering a PDF takes time.
        """
        self._count(request)
        record = (await self._public(request)).record
        response = await self._certificates.answer(record)
        response.headers |= _NOT_KEPT
        return response

    async def show_credential(self, request: Request) -> Response:
        """A public certificate as a verifiable credential."""
        found = await self._public(request)
        async with self._database.connection() as connection:
            # The evidence of a replacement has the new number. See `show_certificate`.
            replacement = await _find_public(connection, found.replaced_by or "")
        with_changes = found.replaced_by is None or replacement is not None
        return Response(await self._credentials.issue(found.record, with_changes=with_changes), headers=dict(_NOT_KEPT))

    async def show_verify_form(self, request: Request) -> Response:
        """The form for verifying a certificate.

        With `number` in the query, redirects to the page of that number. With `sha256`, the hash of a file, redirects
        to the certificate for which it was sent out, or that the file claims to be.
        """
        number, sha256 = request.query("number", "sha256")
        if sha256 is not None:
            return await self._verify_file(request, normal_sha256(sha256), number or "")
        if number is None:
            return self._form(request)
        # Drop characters that no number contains, so that the redirect is always a valid path.
        entered = store.normal_number(number) or _NOT_IN_NUMBER.sub("", number)[:MAX_ENTERED]
        if not entered.strip("-"):
            return self._form(request, fault=_NUMBER_MISSING, status=400)
        return see_other(f"/verify/{entered}")

    async def upload(self, request: Request) -> Response:
        """For browsers without JavaScript: hashes the file, and keeps nothing of it."""
        self._count(request)
        file = request.file("file")
        if file is None or not file.content:
            return self._form(request, file_fault=_FILE_MISSING, status=400)
        if not is_pdf(file.content):
            return self._form(request, file_fault=_NOT_A_PDF, status=400)
        number = await in_turn(find_number, file.content) or store.normal_number(
            (request.form().get("number") or [""])[0]
        )
        sha256 = hashlib.sha256(file.content).hexdigest()
        return see_other(f"/verify?{urlencode({'sha256': sha256, 'number': number} if number else {'sha256': sha256})}")

    async def verify(self, request: Request) -> Response:
        """The verdict on a certificate and, with its hash in the query, on a file.

        Malformed numbers are looked up too, so that they get the same answer as unknown ones.
        """
        self._count(request)
        entered, instead_of = request.query("sha256", "instead_of")
        number = store.normal_number(request.path("number"))
        sha256 = normal_sha256(entered or "")
        async with self._database.connection() as connection:
            found = await store.find_by_number_any_account(connection, number)
            if found is None:
                shown = request.path("number")[:MAX_ENTERED]
                return self._form(request, entered=shown, verdict=CertificateVerdict.UNKNOWN_NUMBER, status=404)
            documents = await store.list_documents_any_account(connection, number)
            match = match_file(sha256, documents) if sha256 else None
            if match is FileMatch.ALTERED:
                other = await store.find_number_of_document_any_account(connection, sha256)
                if other is not None:
                    return see_other(f"/verify/{other}?{urlencode({'sha256': sha256, 'instead_of': number})}")
            has_page = found.is_public and await shows_certificates(connection, found.scope)
        return self._renderer.page(
            request,
            "verify_certificate.html",
            default_language=found.record.language,
            test_mode=found.record.mode == "test",
            verdict=verdict_on(found, match),
            match=match,
            documents=documents,
            has_page=has_page,
            shows_replacement=True,
            entered_sha256=(entered or "")[:200],
            hash_is_unreadable=entered is not None and not sha256,
            instead_of=store.normal_number(instead_of or ""),
            **_shown(found),
        )

    async def _verify_file(self, request: Request, sha256: str, claimed: str) -> Response:
        """`claimed` is the number that was found in the file."""
        self._count(request)
        if not sha256:
            return self._form(request, file_fault=_NOT_A_HASH, status=400)
        claimed = store.normal_number(claimed)
        async with self._database.connection() as connection:
            number = await store.find_number_of_document_any_account(connection, sha256)
            if number is None and await store.find_by_number_any_account(connection, claimed) is not None:
                number = claimed
        if number is None:
            return self._form(request, entered=claimed, verdict=CertificateVerdict.UNKNOWN_FILE, status=404)
        other = {"instead_of": claimed} if claimed not in {"", number} else {}
        return see_other(f"/verify/{number}?{urlencode({'sha256': sha256, **other})}")

    def _form(
        self,
        request: Request,
        *,
        entered: str = "",
        fault: str | None = None,
        file_fault: str | None = None,
        verdict: CertificateVerdict | None = None,
        status: int = 200,
    ) -> Response:
        return self._renderer.page(
            request,
            "verify.html",
            status=status,
            entered=entered,
            fault=fault,
            file_fault=file_fault,
            verdict=verdict,
        )

    async def _public(self, request: Request) -> store.StoredCertificate:
        """Only misses count towards the rate limit: many people may share one network address."""
        self._count(request, 0)
        found = await self._database.run(_find_public, store.normal_number(request.path("number")))
        if found is None:
            self._count(request)
            raise CertificateNotFound
        return found

    def _count(self, request: Request, count: int = 1) -> None:
        self._lookups.require(request.limited_as, count, _TOO_MANY)


async def _find_public(connection: Connection, number: str) -> store.StoredCertificate | None:
    """None also for a certificate in a private name, and if the account does not publish certificates."""
    found = await store.find_by_number_any_account(connection, number)
    if found is None or not found.is_public or not await shows_certificates(connection, found.scope):
        return None
    return found


def _logo_address(found: store.StoredCertificate, page: SustainabilityPage | None) -> str | None:
    """The logo that the certificate shows, if it is still that of the account's page."""
    version = None if page is None else page.logo_version
    if page is None or version is None or not (found.record.logo or "").startswith(version):
        return None
    return page.logo_address("")


def _shown(found: store.StoredCertificate) -> dict[str, Any]:
    """The certificate, with dates that the template can format for the visitor's locale."""
    record = found.record
    return {
        "certificate": found,
        "record": record,
        "grams": _grams(record.total_quantity),
        "issued_on": datetime.fromisoformat(record.issued_at),
        "erased_on": None if record.name_erased_on is None else date.fromisoformat(record.name_erased_on),
        "lines": [_shown_line(line, record.issued_at) for line in record.lines],
        "all_in_advance": all(line.in_advance for line in record.lines),
        "has_shared": any(line.shared for line in record.lines),
    }


def _shown_line(line: CertificateLine, issued_at: str) -> dict[str, Any]:
    kind, facts = [part for part in (line.project_type, line.country, line.methodology) if part], line.facts or NO_FACTS
    url = line.retirement_url
    link = url if url is not None and url.startswith(("https://", "http://")) else None
    return msgspec.structs.asdict(line) | {
        "kind": kind,
        "grams": _grams(line.quantity),
        "retired_on": date.fromisoformat(line.retired_on),
        "assigned_on": None if line.in_advance is None else date.fromisoformat(line.in_advance.assigned_on),
        "link": link,
        "opens": None if link is None else what_opens(link),
        "facts": facts,
        "old_ratings": {
            each.url: months for each in facts.ratings or () if (months := old_months(each.as_of, issued_at))
        },
    }


def _grams(tonnes: str) -> int:
    return to_grams(Decimal(tonnes), MassUnit.T)


PER_PAGE = 50
# Anyone may check them, also in a browser on another site.
_HEADERS = {**ONE_MINUTE, "X-Robots-Tag": "noindex", "Access-Control-Allow-Origin": "*"}


class PublishedOpening(msgspec.Struct):
    """A public certificate. `evidence` is that of its credential."""

    number: str
    evidence: list[dict[str, Any]]


class PublishedOpenings:
    def __init__(self, reads: Reads, settings: Settings) -> None:
        self._reads = reads
        self._downloads = TokenBuckets("page_openings", settings.verify_per_minute / 60, settings.verify_burst)

    @property
    def limits(self) -> tuple[TokenBuckets, ...]:
        return (self._downloads,)

    async def openings_json(self, request: Request, page: SustainabilityPage) -> Response:
        """The valid certificates that name nobody in private, newest first. New ones follow within a minute."""
        if PageSection.CERTIFICATES not in page.sections:
            raise SustainabilityPageNotFound
        message = N_("Too many downloads from your network. Wait a minute, then try again.")
        self._downloads.require(request.limited_as, 1, message)
        limit, after = request.query("limit", "after")
        list_name = f"sustainability openings {page.scope.account_id}"
        paging = Paging(PER_PAGE if limit is None else parse_limit(limit), parse_cursor(after, list_name), list_name)

        async def read(tx: Connection) -> tuple[list[PublishedOpening], str | None]:
            found = await figure_store.list_certificates(
                tx, page.scope, FigurePeriod(), paging.start, limit=paging.fetch
            )
            shown, cursor = paging.cut(found, lambda listed: listed[0])
            opened = []
            for place, _ in shown:
                evidence = await find_evidence(tx, page.scope.mode, place.id)
                if evidence is not None:
                    opened.append(PublishedOpening(place.id, evidence.all))
            return opened, cursor

        openings, cursor = await self._reads.read(read)
        response = list_response(openings, cursor)
        response.headers = {**response.headers, **_HEADERS}
        return response
