"""How to report a vulnerability, for programs and people who look for it at the usual path (RFC 9116)."""

from datetime import UTC, datetime, time, timedelta

from tonne.platform.http.errors import RouteNotFound
from tonne.platform.http.route import Access, Request, Response, Route, RouteMaker
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock, to_wire

PATH = "/.well-known/security.txt"
# The standard recommends less than a year.
VALID_FOR = timedelta(days=180)


class SecurityTxtEndpoints:
    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock

    async def security_txt(self, _: Request) -> Response:
        """How to report a vulnerability.

        Exists only if the operator has set a contact.
        """
        contacts = self._settings.security_contacts
        if not contacts:
            raise RouteNotFound
        today = datetime.combine(self._clock().astimezone(UTC).date(), time(), UTC)
        lines = [f"Contact: {contact}" for contact in contacts]
        lines += [f"Expires: {to_wire(today + VALID_FOR)}", "Preferred-Languages: en"]
        # The standard allows only https here.
        if self._settings.base_url.startswith("https://"):
            lines.append(f"Canonical: {self._settings.base_url}{PATH}")
        body = "".join(f"{line}\n" for line in lines).encode()
        return Response(body, media_type=b"text/plain; charset=utf-8", headers={"Cache-Control": "max-age=86400"})

    def routes(self) -> list[Route]:
        return [RouteMaker("Operation", Access.PUBLIC)(f"GET {PATH}", self.security_txt, None, RouteNotFound)]
