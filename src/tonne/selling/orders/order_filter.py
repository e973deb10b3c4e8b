"""Which orders to find: one filter for the API, the command line and the dashboard."""

from datetime import UTC, datetime

import msgspec
from msgspec import Struct

from tonne.platform.http.route import Parameter, Request
from tonne.platform.values.context import Mode, to_wire
from tonne.platform.values.errors import Fault, Invalid, TimeRangeInvalid
from tonne.platform.values.paging import Position
from tonne.selling.orders.model import OrderStatus, PaymentState

MAX_METADATA_FILTERS = 5
_TIME = {"type": "string", "format": "date-time", "examples": ["2026-11-01T00:00:00Z"]}
FILTER_PARAMETERS = (
    Parameter(
        "status", "Only orders with this status.", {"type": "string", "enum": [status.value for status in OrderStatus]}
    ),
    Parameter("created_after", "Only orders created at this time or later.", _TIME),
    Parameter("created_before", "Only orders created before this time.", _TIME),
    Parameter("estimate_id", "Only orders of this estimate.", {"type": "string"}),
    Parameter("bundle_id", "Only orders that contain this bundle.", {"type": "string"}),
    Parameter("external_id", "Only orders with this external id, verified or not.", {"type": "string"}),
    Parameter("reference", "Only orders with this reference.", {"type": "string"}),
    Parameter(
        "metadata[]",
        "Only orders whose metadata have these values, such as `metadata[invoice]=A-17`: top-level members, compared "
        f"as text. At most {MAX_METADATA_FILTERS}.",
        {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": MAX_METADATA_FILTERS},
    ),
)


class OrderFilter(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All that are set must match. `created_after` is included, `created_before` is not.

    The API lists the orders of one account (filter_store.py); command line and dashboard search in all accounts of an
    organisation, or of all for the operator (apps/lookup/find_orders.py).
    """

    mode: Mode | None = None
    organisation_id: str | None = None
    account_id: str | None = None
    status: OrderStatus | None = None
    payment_state: PaymentState | None = None
    payment_method: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    estimate_id: str | None = None
    bundle_id: str | None = None
    offset_link_id: str | None = None
    external_id: str | None = None
    reference: str | None = None
    # Members of the JSON object, compared as text.
    metadata: tuple[tuple[str, str], ...] = ()
    # A text anywhere in the JSON.
    metadata_part: str | None = None
    # Only orders that have been in an open status for longer than usual at this time.
    stuck_at: datetime | None = None

    @property
    def name(self) -> str:
        """Binds the cursors of a list to its filters."""
        if self == OrderFilter(offset_link_id=self.offset_link_id):
            return str(self.offset_link_id)
        return msgspec.json.encode(self).decode()

    @property
    def metadata_arrays(self) -> tuple[list[str] | None, list[str] | None]:
        """Keys and values for `unnest`."""
        if not self.metadata:
            return None, None
        return [key for key, _ in self.metadata], [value for _, value in self.metadata]

    def latest(self, start: Position) -> Position:
        """Where a page begins that would begin at `start` without the filter."""
        before = self.created_before
        return start if before is None or before > start.created_at else Position(before, "")


def read_filter(request: Request) -> OrderFilter:
    status, after, before, estimate_id, bundle_id, link = request.query(
        "status", "created_after", "created_before", "estimate_id", "bundle_id", "offset_link_id"
    )
    external_id, reference = request.query("external_id", "reference")
    metadata = request.query_map("metadata")
    if len(metadata) > MAX_METADATA_FILTERS:
        raise Invalid(
            [Fault("validation_error", f"Filter by at most {MAX_METADATA_FILTERS} keys of metadata.", "metadata")]
        )
    start, end = _read_time("created_after", after), _read_time("created_before", before)
    if start is not None and end is not None and start >= end:
        raise TimeRangeInvalid(
            f"created_after ({to_wire(start)}) must be earlier than created_before ({to_wire(end)}).",
            field="created_after",
        )
    return OrderFilter(
        status=_read_status(status),
        created_after=start,
        created_before=end,
        estimate_id=estimate_id,
        bundle_id=bundle_id,
        offset_link_id=link,
        external_id=external_id,
        reference=reference,
        metadata=tuple(sorted(metadata.items())),
    )


def _read_status(text: str | None) -> OrderStatus | None:
    try:
        return None if text is None else OrderStatus(text)
    except ValueError as error:
        known = ", ".join(OrderStatus)
        raise Invalid(
            [Fault("validation_error", f"status is not valid: expected one of {known}.", "status")]
        ) from error


def _read_time(field: str, text: str | None) -> datetime | None:
    """A date alone is its beginning in UTC. A `+` that was not URL-encoded arrives as a space."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text.replace(" ", "+"))
        moment = moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise TimeRangeInvalid(
            f"{field} is not a time. Send one such as 2026-11-01T00:00:00Z, or a date such as 2026-11-01.", field=field
        ) from error
    return moment
