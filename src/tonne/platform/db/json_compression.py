"""Compression of stored JSON: each document alone, with a dictionary of what documents of its kind have in common.

A compressed document starts with one byte, the number of its dictionary. JSON never starts with such a control
character, so that documents stored without compression are recognised and returned as they are.
"""

import threading
from collections.abc import Callable
from enum import IntEnum
from functools import cache
from importlib import resources

import zstandard

# Without the four bytes by which every zstd frame starts.
_FORMAT = zstandard.FORMAT_ZSTD1_MAGICLESS
# Higher levels make these documents hardly smaller.
_LEVEL = 3
_FIRST_PRINTABLE = 0x20


class JsonDictionary(IntEnum):
    """Numbers are stored with every document: a dictionary is never changed or removed. A better one is a new member.

    `tests/platform/values/train_dictionary.py` makes them.
    """

    ORDER = 1
    CERTIFICATE = 2
    STATEMENT = 3


class _Contexts(threading.local):
    """The compressors of a thread: they cannot be shared."""

    def __init__(self) -> None:
        self.compress: dict[int, Callable[[bytes], bytes]] = {}
        self.decompress: dict[int, Callable[[bytes], bytes]] = {}


_contexts = _Contexts()
_PREFIXES = {dictionary: bytes([dictionary]) for dictionary in JsonDictionary}


def compress_json(document: bytes, dictionary: JsonDictionary) -> bytes:
    compress = _contexts.compress.get(dictionary)
    if compress is None:
        parameters = zstandard.ZstdCompressionParameters.from_level(
            _LEVEL, format=_FORMAT, write_content_size=True, write_checksum=False, write_dict_id=False
        )
        data = _load(dictionary)
        compress = zstandard.ZstdCompressor(dict_data=data, compression_params=parameters).compress
        _contexts.compress[dictionary] = compress
    return _PREFIXES[dictionary] + compress(document)


def decompress_json(stored: bytes) -> bytes:
    """The document, byte for byte. Raises ValueError if it is damaged, or was stored by a newer release."""
    number = stored[0]
    if number >= _FIRST_PRINTABLE:
        return stored
    decompress = _contexts.decompress.get(number)
    if decompress is None:
        data = _load(JsonDictionary(number))
        decompress = zstandard.ZstdDecompressor(dict_data=data, format=_FORMAT).decompress
        _contexts.decompress[number] = decompress
    try:
        return decompress(stored[1:])
    except zstandard.ZstdError as error:
        raise ValueError(f"a compressed document is damaged: {error}") from error


@cache
def _load(dictionary: JsonDictionary) -> zstandard.ZstdCompressionDict:
    name = f"{dictionary.value:02}_{dictionary.name.lower()}.zdict"
    content = (resources.files("tonne.platform.db") / "dictionaries" / name).read_bytes()
    data = zstandard.ZstdCompressionDict(content, dict_type=zstandard.DICT_TYPE_FULLDICT)
    data.precompute_compress(level=_LEVEL)
    return data
