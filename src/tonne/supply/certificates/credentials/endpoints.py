"""Endpoints for the files of a certificate."""

from tonne.platform.db.database import Database
from tonne.platform.http.lists import list_response
from tonne.platform.http.route import Request, Response, json_response
from tonne.platform.values.context import Clock
from tonne.selling.orders import store as order_store
from tonne.selling.orders.errors import OrderNotFound
from tonne.supply.certificates.credentials.issue_credential import IssueCredential, RenderCertificate
from tonne.supply.certificates.credentials.sd_jwt import MEDIA_TYPE
from tonne.supply.certificates.record import CertificateState
from tonne.supply.certificates.store import StoredCertificate, list_of_order, normal_number
from tonne.supply.stock.errors import CertificateNotAvailable


class CertificateEndpoints:
    def __init__(
        self, database: Database, certificates: RenderCertificate, credentials: IssueCredential, clock: Clock
    ) -> None:
        self._database = database
        self._certificates = certificates
        self._credentials = credentials
        self._clock = clock

    async def certificate(self, request: Request) -> Response:
        """Download the certificate of a complete order as a PDF.

        It states what was retired, with serial numbers, and a code to verify it.
        """
        return await self._certificates.answer((await self._find(request, *request.query("number"))).record)

    async def certificate_json(self, request: Request) -> Response:
        """Read the certificate of a complete order as JSON.

        It has the contents of the PDF, which never change, and the state of the certificate.
        """
        return json_response((await self._find(request, *request.query("number"))).out)

    async def credential(self, request: Request) -> Response:
        """Read the certificate of a complete order as a verifiable credential.

        The credential states what was retired and for whom, signed by the seller: anyone can verify it without this
        service, with the keys at `/.well-known/did.json`. `evidence` proves that the retirements and the certificate
        are in the seller's public log; it is missing until the log covers them, within a minute.
        `credentialStatus` names the lists that say whether the certificate was replaced or withdrawn.
        """
        return Response(await self._credentials.issue((await self._find(request, *request.query("number"))).record))

    async def sd_jwt(self, request: Request) -> Response:
        """Read a valid certificate as an SD-JWT VC, whose holder can withhold the name.

        Without its disclosures, it shows the retirements and their proofs.
        """
        found = await self._find(request)
        if found.state is not CertificateState.VALID:
            raise CertificateNotAvailable("The certificate of the order was withdrawn.")
        token = await self._credentials.issue_sd_jwt(found.record, self._clock())
        name = f'attachment; filename="certificate-{found.record.number}.sd-jwt"'
        return Response(token, media_type=MEDIA_TYPE.encode(), headers={"content-disposition": name})

    async def list_certificates(self, request: Request) -> Response:
        """List the certificates of an order.

        The first is the current one. The others were replaced, the latest first. The list is empty until the order is
        complete.
        """
        return list_response([each.out for each in await self._list(request)], None)

    async def _find(self, request: Request, number: str | None = None) -> StoredCertificate:
        found = await self._list(request)
        if not found:
            raise CertificateNotAvailable
        if number is None:
            return found[0]
        requested = normal_number(number)
        for each in found:
            if each.record.number == requested:
                return each
        raise CertificateNotAvailable("The order has no certificate with this number.", field="number")

    async def _list(self, request: Request) -> list[StoredCertificate]:
        async with self._database.connection() as connection:
            found = await list_of_order(connection, request.scope, request.path("order_id"))
            if not found and await order_store.find_by_id(connection, request.scope, request.path("order_id")) is None:
                raise OrderNotFound
        return found
