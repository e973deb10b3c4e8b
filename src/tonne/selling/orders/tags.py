"""Tags of reads and lists of orders (`ETag`), so that a client that polls gets 304 while nothing has changed."""

import hashlib
from functools import lru_cache

from tonne.platform.db.grouped_read import GroupedRead
from tonne.platform.events.notification import Stream
from tonne.platform.http.route import Request, Response
from tonne.platform.values.context import Scope


class OrderTags:
    """A tag covers the version of all orders of the organisation and mode, the account, the address with its query, and
    what the key may do.
    """

    def __init__(self, versions: GroupedRead[Stream, str], account_header: str) -> None:
        self._versions = versions
        self._vary = f"Authorization, {account_header}"

    async def version_of(self, scope: Scope) -> str:
        """Read it before what it is the version of."""
        return str(await self._versions.find(Stream(scope.organisation_id, scope.mode)))

    async def unchanged(self, request: Request) -> Response | None:
        """304 if the client has the current response. No order is read to know it."""
        known = request.headers.get(b"if-none-match")
        if known is None:
            return None
        response = self.tagged(request, Response(b"", 304), await self.version_of(request.scope))
        # Weak comparison, with any tag of the list.
        return response if response.headers["ETag"].removeprefix("W/") in known.decode("latin-1") else None

    def tagged(self, request: Request, response: Response, version: str) -> Response:
        scope = request.scope
        covered = (version, scope.account_id, scope.mode, _joined(request.permissions), request.location)
        digest = hashlib.blake2b("\n".join(covered).encode(), digest_size=16).hexdigest()
        response.headers["ETag"] = f'W/"{digest}"'
        response.headers["Cache-Control"] = "private, no-cache"
        response.headers["Vary"] = self._vary
        return response


@lru_cache(1024)
def _joined(permissions: frozenset[str]) -> str:
    return " ".join(sorted(permissions))
