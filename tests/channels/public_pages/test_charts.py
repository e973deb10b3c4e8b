"""Chart geometry."""

from datetime import date
from itertools import pairwise

from babel import Locale
from hypothesis import given
from hypothesis import strategies as st

from tonne.platform.web import visitor
from tonne.platform.web.charts import (
    BASE,
    MIN_HEIGHT,
    NARROWEST,
    TOP,
    WIDE,
    Label,
    bar_width,
    column_chart,
    nice_ceiling,
    stacked_bar,
    text_width,
)

GRAMS = st.integers(0, 10**17)
MONTHS = st.lists(GRAMS, min_size=1, max_size=24)
NEARLY = 1e-6
# Short and long month names in several scripts.
LANGUAGES = "ar bg cs de el en es fi fr he hi hu ja ka ko lt pl pt ru sv ta th tr uk vi zh".split()  # noqa: SIM905


@given(MONTHS)
def test_columns_do_not_overlap_or_leave_the_chart(values: list[int]) -> None:
    columns = column_chart(values, [""] * len(values)).columns
    assert len(columns) == len(values)
    for column, value in zip(columns, values, strict=True):
        assert column.x >= 0
        assert column.x + column.width <= 100 + NEARLY
        assert column.y >= TOP - NEARLY
        assert abs(column.y + column.height - BASE) < NEARLY
        assert (column.height >= MIN_HEIGHT) == (value > 0)
    for left, right in pairwise(columns):
        assert left.x + left.width < right.x


@given(MONTHS)
def test_heights_are_proportional(values: list[int]) -> None:
    chart = column_chart(values, [""] * len(values))
    top, middle = chart.gridlines
    assert (top.y, middle.y, top.value) == (TOP, (TOP + BASE) / 2, 2 * middle.value)
    for column, value in zip(chart.columns, values, strict=True):
        exact = (BASE - TOP) * value / top.value
        assert abs(column.height - exact) <= (MIN_HEIGHT if exact < MIN_HEIGHT else NEARLY)


@given(GRAMS)
def test_the_ceiling_is_close_and_even(value: int) -> None:
    ceiling = nice_ceiling(value)
    assert value <= ceiling
    assert ceiling <= max(10, 1.4 * value + 1)
    assert ceiling % 2 == 0
    assert len(str(ceiling).rstrip("0")) <= 2


def check_labels(labels: list[Label], width: int) -> None:
    places = [(width * label.x / 100, text_width(label.text)) for label in labels]
    for (x, length), (after, _) in pairwise(places):
        assert x + length < after
    for x, length in places[1:]:
        assert x + length <= width + NEARLY


@given(st.integers(1, 24), st.text(st.sampled_from("Jan. 2025г月年م"), max_size=14))
def test_labels_never_overlap_or_leave_the_chart(count: int, text: str) -> None:
    labels = list(column_chart([1] * count, [text] * count).labels)
    assert labels[0].is_wide is False
    check_labels([label for label in labels if not label.is_wide], NARROWEST)
    check_labels(labels, WIDE)


def test_month_names_of_all_languages_fit_on_a_phone() -> None:
    for name in LANGUAGES:
        year = [visitor.month(date(2025, month, 1), Locale.parse(name)) for month in range(1, 13)]
        for texts in (year, year * 2):
            labels = list(column_chart([1] * len(texts), texts).labels)
            narrow = [label for label in labels if not label.is_wide]
            assert narrow
            check_labels(narrow, NARROWEST)
            check_labels(labels, WIDE)


def test_english_labels_are_a_quarter_or_a_half_year_apart() -> None:
    texts = [visitor.month(date(2025, 1 + place % 12, 1), visitor.DEFAULT) for place in range(24)]
    labels = column_chart([1] * 24, texts).labels
    assert [label.text for label in labels if not label.is_wide] == ["Jan 2025", "Jul 2025", "Jan 2025", "Jul 2025"]
    assert [label.text for label in labels][:3] == ["Jan 2025", "Apr 2025", "Jul 2025"]


@given(st.lists(st.integers(1, 10**17), min_size=1, max_size=6))
def test_a_stacked_bar_has_no_gaps_or_overlaps(values: list[int]) -> None:
    segments = stacked_bar(values)
    assert segments[0].x == 0
    for left, right in pairwise(segments):
        assert abs(left.x + left.width - right.x) < NEARLY
    assert abs(segments[-1].x + segments[-1].width - 100) < NEARLY
    assert all(segment.width > 0.7 for segment in segments)
    for (a, x), (b, y) in pairwise(zip(values, segments, strict=True)):
        assert a < b or x.width >= y.width - NEARLY


@given(GRAMS, st.integers(1, 10**17))
def test_a_bar_is_never_longer_than_the_largest(value: int, more: int) -> None:
    width = bar_width(value, value + more)
    assert 0 <= width <= 100
    assert (width > 0) == (value > 0)
    assert bar_width(value + more, value + more) == 100


def test_empty_charts() -> None:
    assert stacked_bar([]) == []
    assert column_chart([], []).columns == ()
    assert [column.height for column in column_chart([0, 0], ["a", "b"]).columns] == [0, 0]
