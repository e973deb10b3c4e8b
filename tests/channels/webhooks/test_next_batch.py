"""How the next events of a webhook are read, by the state of its lease."""

import itertools
from typing import Any

import pytest

from tests.channels.webhooks.test_due_streams import ONE, make_lease
from tonne.channels.webhooks.delivery.next_batch import READERS, Probing, ReadInScope, Refusals, StreamPipeline
from tonne.channels.webhooks.delivery.schedule import REFUSALS_BEFORE_PARKING
from tonne.channels.webhooks.model import Lease
from tonne.platform.values.context import replace


def _lease(**changed: Any) -> Lease:
    return replace(make_lease(ONE), **changed)


def _reader(lease: Lease) -> type:
    return READERS[lease.has_parked, Refusals.of(lease), lease.takes_whole_stream]


@pytest.mark.parametrize(
    ("lease", "reader"),
    [
        (_lease(), StreamPipeline),
        (_lease(account_ids=("acc_1",)), ReadInScope),
        (_lease(event_types=("refund.failed",)), ReadInScope),
        (_lease(has_parked=True), ReadInScope),
        (_lease(failures=1), ReadInScope),
        (_lease(failures=1, has_parked=True), Probing),
        (_lease(failures=5, head_refusals=REFUSALS_BEFORE_PARKING), Probing),
    ],
)
def test_the_state_of_the_lease_decides_how_events_are_read(lease: Lease, reader: type) -> None:
    assert _reader(lease) is reader


def test_every_state_has_a_reader() -> None:
    states = itertools.product(
        [True, False], [0, 1, 9], range(REFUSALS_BEFORE_PARKING + 2), [(), ("acc_1",)], [True, False]
    )
    for has_parked, failures, head_refusals, account_ids, main_due in states:
        if head_refusals <= failures:
            _reader(
                _lease(
                    has_parked=has_parked,
                    failures=failures,
                    head_refusals=head_refusals,
                    account_ids=account_ids,
                    main_due=main_due,
                )
            )
