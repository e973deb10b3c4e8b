"""Arrays of columns for statements that write many rows."""

from dataclasses import dataclass

from tonne.platform.db.database import columns


@dataclass(frozen=True)
class _Key:
    account_id: str
    id: str


@dataclass(frozen=True)
class _Line:
    key: _Key
    grams: int | None


LINES = [_Line(_Key("acc_1", "ord_1"), 5), _Line(_Key("acc_2", "ord_2"), None)]


def test_every_name_gives_one_array_in_the_order_of_the_rows() -> None:
    assert columns(LINES, "grams, key.id, key.account_id") == [[5, None], ["ord_1", "ord_2"], ["acc_1", "acc_2"]]


def test_without_rows_every_array_is_empty() -> None:
    assert columns([], "key.id, grams") == [[], []]
