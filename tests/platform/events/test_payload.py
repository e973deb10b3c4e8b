"""The bytes of an event are the same in every delivery, whatever form its document is stored in."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.platform.values.train_dictionary import order_sample
from tests.support.clock import START
from tests.support.events import StoredEvent, stored_events
from tonne.platform.db.database import Database
from tonne.platform.events.log import NewEvent, append, append_to_streams, open_stream
from tonne.platform.events.payload import decode_document, encode_document
from tonne.platform.values.context import Mode, Scope, to_wire

OURS = Scope("org_a", "acc_a", Mode.TEST)
THEIRS = Scope("org_b", "acc_b", Mode.LIVE)
ODD_DOCUMENTS = [
    b"{}",
    b'"text"',
    b"[ ]",
    b"1.10",
    '{"b" : 1.10,"a":[ ],"é":"\\u00e9","data":{"order":"}}"}}'.encode(),
    b'{"data":{"order":{"data":{"order":{}}}},"nul":"\\u0000"}',
]


def _expected(event: StoredEvent, document: bytes) -> bytes:
    """In the words of the interface, without the code under test."""
    head = (
        f'{{"api_version":"v1","event_id":"{event.id}","account_id":"{event.account_id}",'
        f'"event_type":"{event.event_type}","sequence":"{to_wire(event.sequence)}","data":{{"order":'
    )
    return head.encode() + document + b"}}"


async def test_payloads_have_the_bytes_of_their_documents(db: Database) -> None:
    documents = [*ODD_DOCUMENTS, *(order_sample() for _ in range(100))]
    async with db.transaction() as tx:
        for scope in (OURS, THEIRS):
            await open_stream(tx, scope.organisation_id, scope.mode)
        events = [NewEvent("order.placed", f"ord_{n}", document) for n, document in enumerate(documents)]
        await append(tx, OURS, events, START + timedelta(microseconds=999_999))
        await append_to_streams(tx, [(THEIRS, event) for event in events], datetime(2031, 1, 1, tzinfo=UTC))
        stored = await stored_events(tx)
    for event, document in zip(stored, documents * 2, strict=True):
        assert event.payload == _expected(event, document)


@pytest.mark.parametrize("document", ODD_DOCUMENTS)
def test_documents_come_back(document: bytes) -> None:
    assert decode_document(encode_document(document)) == document
    assert decode_document(document) == document
