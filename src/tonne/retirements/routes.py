"""Routes of certificates, retirements and test helpers."""

from tonne.http.errors import RouteNotFound
from tonne.http.lists import LIST_ERRORS, LIST_PARAMETERS, ListOut
from tonne.http.route import Access, Route
from tonne.orders.errors import OrderNotFound, TransitionInvalid
from tonne.orders.schemas import OrderOut
from tonne.retirements.certificate_record import CertificateRecord
from tonne.retirements.endpoints import RetirementEndpoints
from tonne.retirements.errors import CertificateNotAvailable, SupplyShort
from tonne.retirements.schemas import RetirementOut

HELPERS = "Test helpers"


def retirement_routes(endpoints: RetirementEndpoints) -> list[Route]:
    return [
        Route(
            method="GET",
            path="/v1/orders/{order_id}/certificate",
            endpoint=endpoints.certificate,
            access=Access.API_KEY,
            summary="The certificate of a complete order, as a PDF",
            tag="Orders",
            answers={200: None},
            errors=(OrderNotFound, CertificateNotAvailable),
        ),
        Route(
            method="GET",
            path="/v1/orders/{order_id}/certificate.json",
            endpoint=endpoints.certificate_json,
            access=Access.API_KEY,
            summary="The facts of that certificate",
            tag="Orders",
            answers={200: CertificateRecord},
            errors=(OrderNotFound, CertificateNotAvailable),
        ),
        Route(
            method="GET",
            path="/v1/retirements",
            endpoint=endpoints.list_retirements,
            access=Access.API_KEY,
            summary="List the retirements of your organisation",
            tag="Retirements",
            query=LIST_PARAMETERS,
            answers={200: ListOut[RetirementOut]},
            errors=LIST_ERRORS,
        ),
        Route(
            method="POST",
            path="/v1/test-helpers/orders/{order_id}/retire",
            endpoint=endpoints.retire,
            access=Access.API_KEY,
            summary="Retire the credits of a paid order",
            tag=HELPERS,
            answers={200: OrderOut},
            errors=(RouteNotFound, OrderNotFound, TransitionInvalid, SupplyShort),
        ),
        Route(
            method="POST",
            path="/v1/test-helpers/orders/{order_id}/complete",
            endpoint=endpoints.complete,
            access=Access.API_KEY,
            summary="Complete a paid order",
            tag=HELPERS,
            answers={200: OrderOut},
            errors=(RouteNotFound, OrderNotFound, TransitionInvalid, SupplyShort),
        ),
    ]
