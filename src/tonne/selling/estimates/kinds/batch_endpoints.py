"""The endpoint that calculates up to 100 estimates of any kinds at once."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import msgspec

from tonne.platform.http.client_fields import keys_of_items
from tonne.platform.http.errors import RefusalOut, refusal_out
from tonne.platform.http.json_body import MAX_BATCH_VALUES, Document
from tonne.platform.http.openapi.components import any_of
from tonne.platform.http.refusals import refusal_of_item
from tonne.platform.http.route import Request, Response, Route, RouteMaker, json_response
from tonne.platform.process.cost import in_thread
from tonne.platform.values.context import Scope
from tonne.platform.values.errors import Fault, Invalid
from tonne.selling.estimates.calculate_estimate import CalculateEstimate
from tonne.selling.estimates.calculated import EstimateKind
from tonne.selling.estimates.endpoints import CalculatedEstimateEndpoints

MAX_BATCH = 100


BatchEstimateIn = Annotated[
    Any,
    msgspec.Meta(
        description="`kind`, the last part of the path of its kind, and the fields of a request of this kind.",
        extra_json_schema={
            "type": "object",
            "properties": {"kind": {"type": "string", "examples": ["flight", "shipping/multi-leg"]}},
            "required": ["kind"],
            "additionalProperties": True,
        },
    ),
]


class EstimateBatchEndpoints:
    def __init__(
        self,
        estimates: CalculateEstimate,
        shown: CalculatedEstimateEndpoints,
        kinds: Sequence[EstimateKind[Any]],
        *,
        charge: Callable[[str, Scope, int], None],
    ) -> None:
        """`charge` counts further requests against the rate limit of an API key."""
        self._estimates = estimates
        self._shown = shown
        self._kinds = {kind.name: kind for kind in kinds}
        self._charge = charge

    async def create_batch(self, request: Request) -> Response:
        """Calculate up to 100 estimates.

        Takes an array of requests, each with its `kind`, and returns an array in the same order: each item is an
        estimate, or an object with `error` and `errors`. One that is refused does not affect the others. Every item
        counts as a request against the rate limit. The body has at most 50,000 JSON values.
        """
        # In a thread: others need the event loop.
        members = await in_thread(request.json_array, MAX_BATCH_VALUES)
        if not 1 <= len(members) <= MAX_BATCH:
            raise Invalid([Fault("validation_error", f"Send 1 to {MAX_BATCH} estimates in the array.")])
        self._charge(request.actor.key_id or "", request.scope, len(members) - 1)
        raw = msgspec.json.decode(request.body, type=list[msgspec.Raw])
        # One after another: a batch uses one connection, and a key that is used twice in it is decided by the order.
        items = zip(raw, members, keys_of_items(request, len(raw)), strict=True)
        return json_response([await self._one(request.scope, *each) for each in items])

    async def _one(self, scope: Scope, raw: msgspec.Raw, members: Any, default_key: str | None) -> Any:
        try:
            kind = self._kind(members)
            item = _without_kind(raw, members)
            item.add_default_key(default_key)
            estimate, _ = await self._estimates.create(scope, kind, item)
            return await self._shown.show(kind, estimate)
        except Exception as error:  # noqa: BLE001 - the other estimates of the batch are not affected
            return refusal_out(refusal_of_item(error, "estimate_of_batch_failed").faults)

    def _kind(self, members: Any) -> EstimateKind[Any]:
        name = members.get("kind") if isinstance(members, dict) else None
        kind = self._kinds.get(name) if isinstance(name, str) else None
        if kind is None:
            known = ", ".join(self._kinds)
            raise Invalid([Fault("validation_error", f"Send an object whose kind is one of {known}.", "kind")])
        return kind

    def routes(self) -> list[Route]:
        route = RouteMaker("Estimates")
        about = "An estimate of its kind, or an object with `error` and `errors`."
        answers = any_of(*(kind.answer for kind in self._kinds.values()), RefusalOut)
        result = Annotated[Any, msgspec.Meta(description=about, extra_json_schema=answers)]
        return [
            route(
                "POST /v1/estimates/batch",
                self.create_batch,
                list[result],
                operation_id="createEstimates",
                body=list[BatchEstimateIn],
                example=[{"kind": kind.name, **(kind.example or {})} for kind in [*self._kinds.values()][:2]],
            )
        ]


def _without_kind(raw: msgspec.Raw, members: dict[str, Any]) -> Document:
    """The request as it would have been sent alone, so that both share idempotency keys."""
    rest = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    del rest["kind"]
    return Document(msgspec.json.encode(rest), {name: value for name, value in members.items() if name != "kind"})
