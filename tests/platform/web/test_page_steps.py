"""While a long page is rendered, other requests have their steps."""

import asyncio
import itertools
import time
from collections.abc import Iterator

from tonne.platform.http.asgi import put_together
from tonne.platform.http.route import Response


async def test_a_long_page_gives_way_after_each_few_milliseconds() -> None:
    def pieces() -> Iterator[str]:
        for number in range(5):
            time.sleep(0.003)
            yield f"{number} "

    turns = itertools.count()

    async def count_turns() -> None:
        while True:
            next(turns)
            await asyncio.sleep(0)

    other = asyncio.create_task(count_turns())
    response = Response(b"", pieces=pieces())
    await put_together(response)
    other.cancel()
    assert response.body == b"0 1 2 3 4 "
    assert next(turns) >= 4
