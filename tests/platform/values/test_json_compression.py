"""Compressed JSON: the bytes come back, also those that an earlier release has stored."""

import base64
import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.platform.values.train_dictionary import KINDS, order_sample
from tonne.platform.db import json_compression
from tonne.platform.db.json_compression import JsonDictionary, compress_json, decompress_json

# Stored documents need these very bytes. Never change a line: a new dictionary gets a new number.
FROZEN = {
    "01_order.zdict": "7c7da9dfd78f7d85e74a7fcbfa6bc734e433cf1e3d454c73ef56ba3ece74634b",
    "02_certificate.zdict": "bb2842dfcc8ca97b4100e2ad18c1fdde9124adeab404faa215e8fe1ff67fee1e",
    "03_statement.zdict": "ae47fa60de2baaa25b1601920715a89a25e8b1f81b52c7e9612b61fae3d46f02",
}
STORED = {
    "ASBmhQEAYwIHk4nz5hLIHSKxWIlyv2uEMilzdm228xhGsp7tJgX82S3pWkuej85iXg5sFh4d": (
        '{"id":"ord_06gtv1alff3htg9thvlvj59t20","status":"placed","metadata":{"é":1.10},"failure_reason":null}'
    ),
    "AiBJBQEAkFdOQy05UlRWLU0yUUgtN1hLRAT8+/4+yUW6ZP062xo=": (
        '{"number":"3WNC-9RTV-M2QH-7XKD","mode":"live","lines":[],"replaces":null}'
    ),
    "AyB2JQIAQ8MKLh4Py+ejgyqEcUYdHbiEzMDho0k2vtAcUsmG5CURHT0WESekMDeMUqPkGgf8+pgWQO5TZg8tL6nnmebaqDeY2V4=": (
        '{"at":"2026-05-04T10:00:00.000Z","facts":{"number":"3WNC-9RTV-M2QH-7XKD"},'
        '"kind":"certificate.withdrawn","names":null}'
    ),
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def test_dictionaries_never_change() -> None:
    folder = Path(json_compression.__file__).parent / "dictionaries"
    assert {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()} == FROZEN
    assert [f"{each.value:02}_{each.name.lower()}.zdict" for each in JsonDictionary] == sorted(FROZEN)


@pytest.mark.parametrize("stored", STORED)
def test_what_an_earlier_release_stored_is_read(stored: str) -> None:
    assert decompress_json(base64.b64decode(stored)).decode() == STORED[stored]


@given(JSON, st.sampled_from(JsonDictionary), st.booleans())
def test_any_json_comes_back_byte_for_byte(value: object, dictionary: JsonDictionary, ascii_only: bool) -> None:
    document = json.dumps(value, ensure_ascii=ascii_only, indent=1).encode(errors="surrogatepass")
    stored = compress_json(document, dictionary)
    assert stored[0] == dictionary
    assert decompress_json(stored) == document
    assert decompress_json(document) == document, "plain JSON, as it was stored before there was compression"


@pytest.mark.parametrize("size", [1, 100, 70_000, 3_000_000])
def test_documents_of_any_size_come_back(size: int) -> None:
    document = b'"%b"' % (b"x" * size)
    assert decompress_json(compress_json(document, JsonDictionary.ORDER)) == document


def test_documents_become_a_third_of_their_size() -> None:
    for dictionary in JsonDictionary:
        documents = [KINDS[dictionary.name.lower()]() for _ in range(200)]
        stored = [compress_json(document, dictionary) for document in documents]
        assert sum(map(len, stored)) < sum(map(len, documents)) / 3
        assert [decompress_json(each) for each in stored] == documents


def test_threads_do_not_disturb_each_other() -> None:
    documents = [order_sample() for _ in range(2_000)]

    def both_ways(document: bytes) -> bytes:
        return decompress_json(compress_json(document, JsonDictionary.ORDER))

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(both_ways, documents)) == documents


def test_a_document_of_a_newer_release_is_refused() -> None:
    with pytest.raises(ValueError, match="31 is not a valid JsonDictionary"):
        decompress_json(b"\x1f{}")


def test_a_damaged_document_is_refused() -> None:
    stored = compress_json(order_sample(), JsonDictionary.ORDER)
    with pytest.raises(ValueError, match="a compressed document is damaged"):
        decompress_json(stored[:-9])
