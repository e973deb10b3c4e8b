"""The limits of what one network may do on the pages of offset links and checkouts."""

from tonne.platform.http.limits.rate_limit import TokenBuckets
from tonne.platform.http.route import Request
from tonne.platform.settings.settings import Settings
from tonne.platform.values.language import N_


class AttemptLimit:
    def __init__(self, settings: Settings, name: str) -> None:
        self.buckets = TokenBuckets(name, settings.checkouts_per_minute / 60, settings.checkouts_burst)

    def count(self, request: Request) -> None:
        """Count an attempt. Raises RateLimited."""
        message = N_("Too many attempts from your network. Wait a minute, then try again.")
        self.buckets.require(request.limited_as, message=message)


class OpenLimit:
    """For opening a link, and for updates of its price."""

    def __init__(self, settings: Settings) -> None:
        self.buckets = TokenBuckets("offset_pages", settings.offset_pages_per_minute / 60, settings.offset_pages_burst)

    def count(self, request: Request) -> None:
        """Raises RateLimited."""
        message = N_("Too many requests from your network. Wait a minute, then try again.")
        self.buckets.require(request.limited_as, message=message)
