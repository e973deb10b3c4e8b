"""What locked quotes need from packages after this one."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from tonne.platform.db.pool import Connection
from tonne.platform.values.scope import Scope
from tonne.selling.catalogue.prices.pricing import PricedLine


class HoldSupply(Protocol):
    """Hold the grams of these lines for a quote, and return how many are reserved, in whole units of the registries.

    Raises NotEnoughInStock. It locks lots until the transaction ends.
    """

    async def __call__(
        self, tx: Connection, scope: Scope, quote_id: str, lines: Sequence[PricedLine], expires_at: datetime
    ) -> int: ...
