"""The disk space that `python -m bench growth` needs."""

from pathlib import Path

import pytest

from bench.growth.run import complete_of, needed_bytes, require_disk
from bench.report import NotMeasured

SIZES = {"orders": 30_000_000, "order_lines": 10_000_000, "events": 60_000_000}


@pytest.mark.parametrize(("orders", "complete"), [(10_000, 1_000), (1_000_000, 100_000), (50_000_000, 1_000_000)])
def test_the_newest_tenth_is_complete_a_million_at_most(orders: int, complete: int) -> None:
    assert complete_of(orders) == complete


def test_all_orders_have_lines_and_complete_ones_everything() -> None:
    # 4 KB for each order, 10 KB more for each of a million, and 1 KB less for each of the others.
    assert needed_bytes(SIZES, 10_000_000, smaller=1_000) == 40_000_000_000 + 10_000_000_000 - 9_000_000_000


def test_it_refuses_to_fill_the_disk() -> None:
    folder = Path("data")
    stated = require_disk(10_000_000_000, 13_000_000_000, 2_000_000, folder)
    assert stated == "2,000,000 orders need about 10.0 GB in data, where 13.0 GB are free."
    with pytest.raises(NotMeasured, match=r"13\.0 GB: choose another disk with --folder, or fewer orders"):
        require_disk(10_000_000_000, 12_900_000_000, 2_000_000, folder)
