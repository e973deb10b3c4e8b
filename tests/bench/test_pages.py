"""`python -m bench pages`: what is counted."""

from bench.pages.first_view import FirstView
from bench.pages.run import results


def test_the_heaviest_view_and_the_median_of_the_paints_count() -> None:
    views = [
        FirstView(30.0, 90.0, 500.0, 400.0),
        FirstView(31.0, 91.0, 0.0, 900.0),
        FirstView(30.0, 101.0, 0.0, 2000.0),
    ]
    transfer, decoded, paint = results("offset", views)
    assert (transfer.value, transfer.verdict) == (31.0, "reached")
    assert (decoded.value, decoded.verdict) == (101.0, "MISSED")
    assert (paint.name, paint.value, paint.verdict) == ("offset largest paint", 900.0, "reached")
