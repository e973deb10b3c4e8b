"""Routes of retirements."""

from tonne.platform.http.errors import RouteNotFound
from tonne.platform.http.lists import LIST_ERRORS, LIST_PARAMETERS, ListOut
from tonne.platform.http.route import Route, RouteMaker
from tonne.selling.orders.errors import OrderNotFound, TransitionInvalid
from tonne.selling.orders.schemas import COMPLETE_EXAMPLE, RETIRING_EXAMPLE, OrderOut
from tonne.supply.retirements.endpoints import RetirementEndpoints
from tonne.supply.retirements.schemas import RenameIn, RetirementOut, SupplyIn, SupplyOut
from tonne.supply.stock.errors import BeneficiaryRetired, CertificateNotValid, SupplyShort


def retirement_routes(endpoints: RetirementEndpoints) -> list[Route]:
    order, helper = RouteMaker("Orders"), RouteMaker("Test helpers")
    helped = "POST /v1/test-helpers/orders/{order_id}"
    refused = (RouteNotFound, OrderNotFound, TransitionInvalid, SupplyShort)
    page = ListOut[RetirementOut]
    return [
        order(
            "PUT /v1/orders/{order_id}/beneficiary",
            endpoints.rename_order,
            OrderOut,
            OrderNotFound,
            TransitionInvalid,
            BeneficiaryRetired,
            CertificateNotValid,
            operation_id="renameOrder",
            body=RenameIn,
        ),
        RouteMaker("Retirements", query=LIST_PARAMETERS)(
            "GET /v1/retirements", endpoints.list_retirements, page, *LIST_ERRORS, operation_id="listRetirements"
        ),
        helper(
            f"{helped}/retire",
            endpoints.retire,
            OrderOut,
            *refused,
            operation_id="retireTestOrder",
            shows=RETIRING_EXAMPLE,
        ),
        helper(
            f"{helped}/complete",
            endpoints.complete,
            OrderOut,
            *refused,
            operation_id="completeTestOrder",
            shows=COMPLETE_EXAMPLE,
        ),
        helper(
            "PUT /v1/test-helpers/supply",
            endpoints.simulate_supply,
            SupplyOut,
            RouteNotFound,
            operation_id="simulateTestSupply",
            body=SupplyIn,
        ),
    ]
