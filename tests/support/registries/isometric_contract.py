"""What Isometric's published interface (OpenAPI, v0) says of the answers and requests that we use: names and types.

Only facts, in a form of our own. Ids have at most 37 characters. A field without a default is required.
"""

import re
from datetime import date, datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

Id = Annotated[str, Meta(max_length=37)]
Moment = Annotated[datetime, Meta(tz=True)]
Purpose = Literal["corporate_targets", "public_environmental_claims", "insetting", "regulatory_requirement", "other"]


class Organisation(Struct):
    id: Id
    name: str
    domain: str | None


class CreditQuantity(Struct):
    credits: float
    credit_kgs: int


class CreditBatch(Struct):
    id: Id
    serial_number: str
    status: Literal["active", "split", "retired"]
    size: CreditQuantity
    issued_at: Moment
    retired_at: Moment | None
    delivered_at: Moment | None
    sequestered_on: date
    country_of_issue: Annotated[str, Meta(max_length=3)]
    supplier_id: Id
    parent_id: Id | None
    left_child_id: Id | None
    right_child_id: Id | None
    issuance_id: Id
    delivery_id: Id | None
    beneficiary: Organisation | None
    retirement_id: Id | None
    removal_id: Id
    owner: Organisation
    project_id: Id
    carbon_removal_data: Any
    ccp_approved: bool


class Retirement(Struct):
    id: Id
    retired_at: Moment
    purposes: list[Purpose]
    beneficiary: Organisation
    owner: Organisation
    credit_batch_size_total: CreditQuantity
    url: str
    notes: str | None


class PageInfo(Struct):
    has_previous_page: bool
    start_cursor: str | None
    has_next_page: bool
    end_cursor: str | None


class CreditBatches(Struct):
    nodes: list[CreditBatch]
    total_count: int


class CreditBatchPage(CreditBatches):
    page_info: PageInfo


class RetirementPage(Struct):
    nodes: list[Retirement]
    total_count: int
    page_info: PageInfo


class CreditBalance(Struct):
    active_credits_total: CreditQuantity
    retired_credits_total: CreditQuantity


class OrganisationCreditBalance(Struct):
    total: CreditBalance
    supplier_balances: list[Any]
    project_balances: list[Any]
    order_balances: list[Any]


class CreditBatchQuantity(Struct, forbid_unknown_fields=True):
    credit_batch_id: Id
    credit_quantity_kg: int


class CreateRetirement(Struct, forbid_unknown_fields=True):
    owner_organisation_id: Id
    beneficiary_organisation_id: Id
    supplier_id: Id
    retirement_purposes: list[Purpose]
    notes: Annotated[str, Meta(max_length=256)] | None
    credit_batch_quantities: list[CreditBatchQuantity]


class PageQuery(Struct):
    """What both lists accept besides their filters."""

    first: Annotated[int, Meta(gt=0, le=50)] = 10
    after: Annotated[str, Meta(min_length=1)] | None = None


REQUESTS: dict[str, type] = {"POST /retirements": CreateRetirement}
# By method and path.
ANSWERS: dict[str, type] = {
    r"GET /organisations/\w+/credit_balance": OrganisationCreditBalance,
    r"GET /organisations/\w+/credit_batches": CreditBatchPage,
    r"GET /credit_batches/[^/]+": CreditBatch,
    r"POST /retirements": Retirement,
    r"GET /retirements": RetirementPage,
    r"GET /retirements/\w+": Retirement,
    r"GET /retirements/\w+/credit_batches": CreditBatches,
}


def answer_type(method: str, path: str) -> type:
    """Raises KeyError for what the interface does not have."""
    for pattern, found in ANSWERS.items():
        if re.fullmatch(pattern, f"{method} {path}"):
            return found
    raise KeyError(f"{method} {path}")


def find_breach(method: str, path: str, document: Any) -> str | None:
    """Why an answer is not what the interface says."""
    try:
        msgspec.convert(document, answer_type(method, path))
    except (KeyError, msgspec.ValidationError) as error:
        return f"{method} {path}: {error}"
    return None
