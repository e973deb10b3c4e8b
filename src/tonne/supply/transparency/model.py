"""The transparency logs: one per mode, in generations."""

from datetime import datetime
from urllib.parse import urlsplit

from msgspec import Struct

from tonne.platform.values.context import Mode

# What statements are about: parcels and certificates.
MAX_BATCH = 1_000


class Log(Struct, frozen=True):
    """`size` counts the entries of the tree, `published_size` those that the newest checkpoint covers."""

    id: int
    mode: Mode
    generation: int
    origin: str
    size: int
    published_size: int
    opened_at: datetime
    closed_at: datetime | None
    previous_head: str | None

    @property
    def path(self) -> str:
        """Where its checkpoint and tiles are served: `/log`, `/log/test`, `/log/2`. It never changes."""
        return log_path(self.mode, self.generation)


def log_path(mode: Mode, generation: int) -> str:
    base = "/log" if mode is Mode.LIVE else "/log/test"
    return base if generation == 1 else f"{base}/{generation}"


def origin_of(base_url: str, mode: Mode, generation: int) -> str:
    """The identity of a log: the address at which it is opened, without the scheme (c2sp.org/tlog-tiles)."""
    address = urlsplit(base_url)
    return f"{address.netloc}{address.path.rstrip('/')}{log_path(mode, generation)}"
