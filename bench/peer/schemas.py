"""Request and response bodies of the peer. They are those of Tonne's order endpoints."""

from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

MAX_METADATA_KEYS = 50


def _few_keys(value: dict[str, Any]) -> dict[str, Any]:
    if len(value) > MAX_METADATA_KEYS:
        raise ValueError(f"expected an object with at most {MAX_METADATA_KEYS} keys")
    return value


Id = Annotated[str, StringConstraints(min_length=1, max_length=100)]
IdempotencyKey = Annotated[str, StringConstraints(min_length=1, max_length=255, pattern=r"^[^\x00-\x1f\x7f-\x9f]+$")]
Metadata = Annotated[dict[str, Any], AfterValidator(_few_keys)]


class BundleChoice(BaseModel):
    model_config = ConfigDict(extra="forbid")

    bundle_id: Id
    percentage: Annotated[str, StringConstraints(pattern=r"^[0-9]{1,3}(\.[0-9]{1,2})?$")] | None = None


def _complete(choices: list[BundleChoice]) -> list[BundleChoice]:
    percentages = [choice.percentage for choice in choices if choice.percentage is not None]
    if percentages and (len(percentages) < len(choices) or sum(map(Decimal, percentages)) != 100):
        raise ValueError("give a percentage for all bundles, with a sum of exactly 100, or for none")
    return choices


class OrderByEstimateIn(BaseModel):
    model_config = ConfigDict(extra="forbid")

    estimate_id: Id
    idempotency_key: IdempotencyKey | None = None
    bundle_selection: Annotated[list[BundleChoice], Field(min_length=1), AfterValidator(_complete)] | None = None
    metadata: Metadata | None = None


class BundleItemOut(BaseModel):
    bundle_id: str
    bundle_name: str
    primary_image: str | None
    quantity: str
    unit_price: str
    gross_unit_price: str
    offset_cost: str
    insufficient_available_quantity: bool


class BeneficiaryOut(BaseModel):
    name: str


class OrderOut(BaseModel):
    id: str
    idempotency_key: str
    type: Literal["quantity", "value"]
    status: str
    currency: str
    offset_cost: str
    total_cost: str
    commission: str
    quantity: str
    payment_method: str
    created_at: str
    bundles: list[BundleItemOut]
    projects: list[dict[str, Any]]
    certificate: str | None
    public_certificate_url: str | None
    metadata: dict[str, Any]
    offset_link_id: str | None
    email: str | None
    estimate_id: str | None
    requested_value: str | None
    requested_quantity: str | None
    payment_plan: str
    payment_state: str
    tax: str
    billing_adjustment: str
    amount_due: str
    refunded_amount: str
    failure_reason: str | None
    cancellation_reason: str | None
    beneficiary: BeneficiaryOut


class OrderList(BaseModel):
    has_more: bool
    next_cursor: str | None
    data: list[OrderOut]
