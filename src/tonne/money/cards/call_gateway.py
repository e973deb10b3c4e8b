"""Charge or look up one recorded charge at its gateway."""

from collections.abc import Mapping

import structlog
from msgspec import Struct

from tonne.money.cards.gateways.card import CardGateway, ChargeOutcome, ChargeResult, HostedPage
from tonne.money.cards.model import ChargeAttempt, RetrySchedule
from tonne.platform.values.context import Clock
from tonne.platform.values.replace import replace

Answer = tuple[ChargeAttempt, ChargeResult]

_log = structlog.get_logger()


class GatewayCalls(Struct, frozen=True):
    gateways: Mapping[str, CardGateway]
    clock: Clock
    schedule: RetrySchedule

    async def call(self, attempt: ChargeAttempt) -> Answer:
        """Call it outside of any transaction. An exception becomes the result `unknown`."""
        try:
            return await self._call(attempt)
        except Exception:  # noqa: BLE001 - after any failure the charge may have been made
            _log.exception("card_gateway_failed", charge_id=attempt.request.id, gateway=attempt.gateway)
            return attempt, ChargeResult(ChargeOutcome.UNKNOWN, code="gateway_failed")

    async def _call(self, attempt: ChargeAttempt) -> Answer:
        request = attempt.request
        if request.source is None:
            message = "The account has no card. Store one with `tonne card set`."
            return attempt, ChargeResult(ChargeOutcome.REFUSED, code="no_card", message=message)
        gateway = self.gateways.get(attempt.gateway)
        # A worker cannot charge a hosted page, only look it up.
        is_unsent = attempt.is_new and not isinstance(request.source, HostedPage)
        if gateway is None:
            _log.error("card_gateway_not_configured", gateway=attempt.gateway, charge_id=request.id)
            kind = ChargeOutcome.UNAVAILABLE if is_unsent else ChargeOutcome.UNKNOWN
            return attempt, ChargeResult(kind, code="gateway_not_configured")
        if is_unsent:
            return attempt, await gateway.charge(request)
        return await self._look_up(gateway, attempt)

    async def _look_up(self, gateway: CardGateway, attempt: ChargeAttempt) -> Answer:
        request = attempt.request
        if attempt.confirm_until is not None and self._is_confirmed_no_more(attempt):
            return attempt, await self._end_confirmation(gateway, attempt)
        found = await gateway.look_up(request)
        if found.kind is ChargeOutcome.NOT_FOUND and self._may_send_again(attempt):
            _log.warning("charge_sent_again", charge_id=request.id, order_id=request.order_id)
            sent = await gateway.charge(request)
            if sent.kind is ChargeOutcome.UNAVAILABLE:
                # `unavailable` refers to this request only. The first one may still arrive, so keep looking it up.
                return attempt, found
            return replace(attempt, missing_since=None), sent
        return attempt, found

    def _is_confirmed_no_more(self, attempt: ChargeAttempt) -> bool:
        """Whether a charge that waits for its payer's confirmation has to end."""
        is_late = attempt.confirm_until is not None and self.clock() >= attempt.confirm_until
        return is_late or attempt.is_replaced or not attempt.is_wanted

    async def _end_confirmation(self, gateway: CardGateway, attempt: ChargeAttempt) -> ChargeResult:
        """Cancel the charge at the gateway first: it must not succeed after its order failed, or was charged again."""
        result = await gateway.cancel(attempt.request)
        if result.kind is ChargeOutcome.REFUSED and attempt.is_wanted:
            if attempt.is_replaced:
                return replace(result, kind=ChargeOutcome.REPLACED, code="card_replaced", message=None)
            message = "The payer did not confirm the payment in time."
            return replace(result, code=ChargeOutcome.AUTHENTICATION_REQUIRED, message=message)
        return result

    def _may_send_again(self, attempt: ChargeAttempt) -> bool:
        """Only for an order that still waits for its payment. See `RESEND_AFTER`."""
        since = attempt.missing_since
        if since is None or not attempt.is_wanted or isinstance(attempt.request.source, HostedPage):
            return False
        return self.clock() >= self.schedule.resend_at(since)
