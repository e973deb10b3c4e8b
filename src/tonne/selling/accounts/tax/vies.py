"""VIES, the register of the VAT ids of the EU, asked through the REST interface of the European Commission.

Written after public descriptions of the interface, and never run against the real register.
"""

from collections.abc import Awaitable, Callable

import msgspec
import structlog

from tonne.selling.accounts.tax.vat_checks import VatAnswer, VatOutcome

CHECK = "/check-vat-number"
_HEADERS = {"Content-Type": "application/json", "Accept": "application/json"}

# Posts a body to a URL. Returns the status, None without a response, and the start of the response.
Post = Callable[[str, bytes, dict[str, str]], Awaitable[tuple[int | None, str]]]
_log = structlog.get_logger()


class _Request(msgspec.Struct, rename="camel", omit_defaults=True):
    country_code: str
    vat_number: str
    requester_member_state_code: str | None = None
    requester_number: str | None = None


class _Fault(msgspec.Struct):
    error: str = ""


class _Response(msgspec.Struct, rename="camel"):
    """`valid` is missing if the register of the country did not answer."""

    country_code: str = ""
    vat_number: str = ""
    valid: bool | None = None
    name: str | None = None
    address: str | None = None
    request_identifier: str | None = None
    user_error: str = ""
    error_wrappers: list[_Fault] = []


class Vies:
    def __init__(self, post: Post, url: str) -> None:
        self._post = post
        self._url = url.rstrip("/")

    async def check(self, vat_id: str, requester: str | None) -> VatAnswer:
        request = _Request(vat_id[:2], vat_id[2:])
        if requester is not None:
            request.requester_member_state_code, request.requester_number = requester[:2], requester[2:]
        status, text = await self._post(f"{self._url}{CHECK}", msgspec.json.encode(request), _HEADERS)
        try:
            response = msgspec.json.decode(text, type=_Response)
        except msgspec.DecodeError:
            response = _Response()
        faults = [fault.error for fault in response.error_wrappers] or [response.user_error]
        # A response about another number proves nothing about this one.
        is_about_it = response.country_code + response.vat_number == vat_id
        if status != 200 or response.valid is None or not is_about_it or not set(faults) <= {"", "VALID", "INVALID"}:
            _log.warning("vat_register_unavailable", status=status, faults=[fault for fault in faults if fault])
            return VatAnswer(VatOutcome.UNAVAILABLE)
        if not response.valid:
            return VatAnswer(VatOutcome.INVALID, consultation_number=response.request_identifier)
        return VatAnswer(VatOutcome.VALID, response.name, response.address, response.request_identifier)
