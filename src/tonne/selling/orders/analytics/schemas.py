"""Bodies of analytics."""

from typing import Annotated

import msgspec
from msgspec import Meta

from tonne.selling.catalogue.details import OffsetType
from tonne.selling.catalogue.schemas import BundleId, BundleName, CurrencyCode, Money, Tonnes
from tonne.selling.orders.totals.metadata_totals import MAX_KEYS

Quantity = Annotated[Tonnes, Meta(description="Tonnes of orders.", examples=["1040"])]
Value = Annotated[
    Money, Meta(description="What they cost without the fee, in the account's currency.", examples=["7176.00"])
]
Day = Annotated[str, Meta(description="Day in UTC.", examples=["2026-11-15"], extra_json_schema={"format": "date"})]


class BundleDayOut(msgspec.Struct):
    date: Day
    quantity: Annotated[Tonnes, Meta(description="Tonnes ordered from `from` up to this day.", examples=["1040"])]
    value: Annotated[Money, Meta(description="Their cost without the fee.", examples=["7176.00"])]


class BundleTimeseriesOut(msgspec.Struct):
    bundle_id: BundleId
    bundle_name: BundleName
    timeseries: Annotated[list[BundleDayOut], Meta(description="Running totals, one for each day.")]


class GoalCountOut(msgspec.Struct):
    un_sdg_number: Annotated[int, Meta(description="Number of the Sustainable Development Goal.", examples=[13])]
    occurrences: Annotated[int, Meta(description="How many of the projects contribute to it.", examples=[2])]


class MetricsOut(msgspec.Struct):
    number_of_projects: Annotated[int, Meta(description="Projects that supplied the orders.", examples=[3])]
    number_of_un_sdgs: Annotated[int, Meta(description="Goals that these projects contribute to.", examples=[5])]
    un_sdg: Annotated[list[GoalCountOut] | None, Meta(description="The goals, by number. Null if there are none.")]


class BundleShareOut(msgspec.Struct):
    bundle_id: BundleId
    bundle_name: BundleName
    quantity: Quantity
    value: Value


class LocationShareOut(msgspec.Struct):
    location: Annotated[
        str, Meta(description="Continent, `Unknown` or `Not yet allocated`.", examples=["Africa", "Not yet allocated"])
    ]
    quantity: Quantity
    value: Value


class RegistryShareOut(msgspec.Struct):
    registry_name: Annotated[
        str, Meta(description="Registry of the projects, or `Not yet allocated`.", examples=["Verra"])
    ]
    quantity: Quantity
    value: Value


class OxfordShareOut(msgspec.Struct):
    type: Annotated[int, Meta(description="Type by the Oxford offsetting principles, 1 to 5.", examples=[2])]
    quantity: Quantity
    value: Value


class OffsetTypeShareOut(msgspec.Struct):
    offset_type: Annotated[
        OffsetType | None,
        Meta(description="Null for what is not allocated, if its bundle has both types.", examples=["carbon_removal"]),
    ]
    quantity: Quantity
    value: Value


class AggregatedOut(msgspec.Struct):
    bundle: Annotated[list[BundleShareOut], Meta(description="By bundle, the largest first.")]
    location: Annotated[list[LocationShareOut], Meta(description="By the continent of the projects.")]
    registry: Annotated[list[RegistryShareOut], Meta(description="By the registry of the projects.")]
    oxford_offsetting_principles: Annotated[
        list[OxfordShareOut],
        Meta(description="By type. What is not allocated counts only if all projects of its bundle have one type."),
    ]
    offset_type: Annotated[list[OffsetTypeShareOut], Meta(description="By type of offset.")]


class DayCountOut(msgspec.Struct):
    date: Annotated[
        str,
        Meta(
            description="Day, or first day of the month.", examples=["2026-11-15"], extra_json_schema={"format": "date"}
        ),
    ]
    count: Annotated[int, Meta(description="Estimates created.", examples=[12])]


class CalculationsOut(msgspec.Struct):
    timeseries: Annotated[list[DayCountOut], Meta(description="One for each day or month.")]


class OrderRowOut(msgspec.Struct, kw_only=True):
    """A group of orders. Fields that the result is not grouped by are null.

    Orders count on the day of their creation (UTC). Cancelled and failed orders do not count.
    """

    month: Annotated[str | None, Meta(description="`2026-11`, or null.", examples=["2026-11"])]
    account_id: Annotated[
        str | None, Meta(description="The account, or null.", examples=["acc_06dq2k8v7p3h5n9s4t1w0x2y6z"])
    ]
    bundle_id: Annotated[str | None, Meta(description="The bundle, or null.", examples=[None])]
    bundle_name: Annotated[str | None, Meta(description="Its name, or null.", examples=[None])]
    project_id: Annotated[
        str | None, Meta(description="The project. Null also for what is not allocated yet.", examples=[None])
    ]
    project_name: Annotated[
        str | None, Meta(description="Its name, or `Not yet allocated`; null if not grouped by it.", examples=[None])
    ]
    metadata_value: Annotated[
        str | None, Meta(description="Value of the metadata key. Null for orders without one.", examples=[None])
    ]
    currency: CurrencyCode
    orders: Annotated[int, Meta(description="How many orders.", examples=[42])]
    quantity: Quantity
    offset_cost: Annotated[Money, Meta(description="Cost without the fee.", examples=["7176.00"])]
    commission: Annotated[
        Money | None,
        Meta(description="The fee. Null by bundle or project: it is for whole orders.", examples=["800.80"]),
    ]
    total_cost: Annotated[
        Money | None, Meta(description="`offset_cost` + `commission`, or null as they are.", examples=["7976.80"])
    ]
    tax: Annotated[Money | None, Meta(description="Tax that is known so far, or null.", examples=["0.00"])]
    refunded: Annotated[
        Money | None, Meta(description="What was paid back, tax included. Not subtracted anywhere.", examples=["0.00"])
    ]


class OrderAnalyticsOut(msgspec.Struct):
    from_: Annotated[str, Meta(description="First day.", examples=["2026-10-16"])] = msgspec.field(name="from")
    through: Annotated[str, Meta(description="Last day.", examples=["2026-11-15"])]
    group_by: Annotated[list[str], Meta(description="As requested.", examples=[["month"]])]
    data: Annotated[list[OrderRowOut], Meta(description="The groups, in the order of their fields.")]


def read_metadata_keys(value: object) -> list[str]:
    if not isinstance(value, list) or len(value) > MAX_KEYS:
        raise ValueError(f"expected an array of at most {MAX_KEYS} keys")
    if not all(type(key) is str and 0 < len(key) <= 100 for key in value):
        raise ValueError("expected keys of 1 to 100 characters")
    if len(set(value)) < len(value):
        raise ValueError("a key is given twice")
    return value


class MetadataKeysIn(msgspec.Struct, forbid_unknown_fields=True):
    keys: Annotated[
        list[str],
        read_metadata_keys,
        Meta(
            description="At most 5 keys of the metadata of orders. They replace the ones before.",
            examples=[["cost_centre"]],
            max_length=MAX_KEYS,
        ),
    ]


class MetadataKeyOut(msgspec.Struct):
    key: Annotated[str, Meta(description="A key of the metadata of orders.", examples=["cost_centre"])]
    is_ready: Annotated[bool, Meta(description="Whether all earlier orders are counted.", examples=[True])]


class MetadataKeysOut(msgspec.Struct):
    keys: Annotated[list[MetadataKeyOut], Meta(description="The keys that the account has named.")]
