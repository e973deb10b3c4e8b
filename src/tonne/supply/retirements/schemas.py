"""Response bodies of retirements."""

from decimal import Decimal
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from tonne.platform.http.json_body import JsonNumber
from tonne.platform.values.context import Timestamp
from tonne.selling.catalogue.schemas import Country, ProjectId, ProjectName, Registry, RegistryProjectId, Tonnes
from tonne.selling.orders.model import BeneficiaryIn
from tonne.selling.orders.schemas import OrderId
from tonne.supply.stock.schemas import Day, RetirementUrl

# The reason for a changed name, on the certificate.
MAX_REASON = 500
DEFAULT_REASON = "The name was corrected."
Beneficiary = Annotated[str, Meta(examples=["Acme Ltd"])]


class RetirementShareOut(msgspec.Struct):
    """The share of one of your orders in a retirement."""

    order_id: OrderId
    account_id: Annotated[
        str, Meta(description="The account of the order.", examples=["acc_06gtv1alff3htg9thvlvj59t20"])
    ]
    beneficiary: Annotated[Beneficiary, Meta(description="On whose behalf the share is retired.")]
    quantity: Annotated[Tonnes, Meta(description="Tonnes that belong to the order.", examples=["0.25"])]


class RetirementOut(msgspec.Struct):
    """Credits that were retired together at their registry."""

    id: Annotated[str, Meta(description="Id of the retirement.", examples=["par_06gtv1alff3htg9thvlvj59t20"])]
    registry: Registry
    registry_project_id: RegistryProjectId
    project_id: ProjectId
    project_name: ProjectName
    country: Country
    vintage: Annotated[int, Meta(description="The year of the emission reductions.", examples=[2024])]
    serials: Annotated[
        str,
        Meta(
            description="The serial as the registry writes it. A shared unit is stated as a whole.",
            examples=["9731-17-18-VCS-VCU-1-VER-KE-1-1-01012024-31122024-0"],
        ),
    ]
    quantity: Annotated[Tonnes, Meta(description="Tonnes that were retired.", examples=["1"])]
    beneficiary: Annotated[Beneficiary, Meta(description="In whose name the registry retired them.")]
    retired_on: Annotated[Day, Meta(description="When the registry retired them.")]
    retirement_url: RetirementUrl
    recorded_at: Annotated[Timestamp, Meta(description="When Tonne recorded the retirement.")]
    shares: Annotated[
        list[RetirementShareOut],
        Meta(description="The shares of your organisation's orders. Others may share the same retirement."),
    ]


def _read_reason(value: Any) -> str:
    reason = value.strip() if isinstance(value, str) and not isinstance(value, JsonNumber) else ""
    if not 1 <= len(reason) <= MAX_REASON or not reason.isprintable():
        raise ValueError(f"expected 1 to {MAX_REASON} printable characters on one line, not all of them spaces")
    return reason


class RenameIn(BeneficiaryIn, forbid_unknown_fields=True):
    reason: Annotated[
        str,
        _read_reason,
        Meta(
            min_length=1,
            max_length=MAX_REASON,
            description="Why, in one sentence. It is printed on the new certificate of a complete order.",
            examples=["The name was misspelt."],
        ),
    ] = DEFAULT_REASON


class SupplyIn(msgspec.Struct, forbid_unknown_fields=True):
    available_quantity: Annotated[
        Decimal | None,
        Meta(
            description="Tonnes that seem to be available to the account. Null ends the simulation.", examples=["2.5"]
        ),
    ] = None


class SupplyOut(msgspec.Struct):
    """The simulated supply of a test account."""

    available_quantity: Annotated[
        Tonnes | None, Meta(description="Null: the account does not simulate short supply.", examples=["2.5"])
    ]
