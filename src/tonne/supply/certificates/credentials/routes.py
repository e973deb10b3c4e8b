"""Routes of the files of a certificate."""

from tonne.platform.http.lists import ListOut
from tonne.platform.http.route import PDF_FILE, FileType, Parameter, Route, RouteMaker
from tonne.platform.keys.signing.errors import SigningUnavailable
from tonne.selling.orders.errors import OrderNotFound
from tonne.supply.certificates.credentials.endpoints import CertificateEndpoints
from tonne.supply.certificates.credentials.schemas import CredentialOut
from tonne.supply.certificates.credentials.sd_jwt import MEDIA_TYPE
from tonne.supply.certificates.record import CertificateOut
from tonne.supply.stock.errors import CertificateNotAvailable


def certificate_file_routes(endpoints: CertificateEndpoints) -> list[Route]:
    order = RouteMaker("Orders")
    not_found = (OrderNotFound, CertificateNotAvailable)
    number = Parameter(
        "number", "A certificate of the order, also a replaced one. Default: the current one.", {"type": "string"}
    )
    return [
        order(
            "GET /v1/orders/{order_id}/certificate",
            endpoints.certificate,
            PDF_FILE,
            *not_found,
            SigningUnavailable,
            operation_id="downloadCertificate",
            query=(number,),
        ),
        order(
            "GET /v1/orders/{order_id}/certificate.json",
            endpoints.certificate_json,
            CertificateOut,
            *not_found,
            operation_id="getCertificate",
            query=(number,),
        ),
        order(
            "GET /v1/orders/{order_id}/credential.json",
            endpoints.credential,
            CredentialOut,
            *not_found,
            SigningUnavailable,
            operation_id="getCredential",
            query=(number,),
        ),
        order(
            "GET /v1/orders/{order_id}/selective-credential",
            endpoints.sd_jwt,
            FileType((MEDIA_TYPE,)),
            *not_found,
            SigningUnavailable,
            operation_id="getSelectiveCredential",
        ),
        order(
            "GET /v1/orders/{order_id}/certificates",
            endpoints.list_certificates,
            ListOut[CertificateOut],
            OrderNotFound,
            operation_id="listCertificates",
        ),
    ]
