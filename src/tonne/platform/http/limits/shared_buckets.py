"""Token buckets in memory that the processes of one `tonne api` share.

The file is a hash table of rows: a hash of the client, the level, and the time of the level. Processes write without a
lock: of two that write the same row within the same microsecond, one write is lost, and the client gets one request
more. A lock could stop all processes when the one that holds it is stopped.
"""

import hashlib
import mmap
import os
import struct
from pathlib import Path

# Names the folder of the tables: `tonne api` creates it if it has several processes.
LIMITS_VARIABLE = "_TONNE_LIMITS_DIR"
_ROW = struct.Struct("=Qdd")
# A client has a place in each row of its set. If all are in use, the one that was used the longest ago is replaced.
_ROWS_PER_SET = 4
_SETS = 16_384
_SET_BYTES = _ROWS_PER_SET * _ROW.size


class SharedBuckets:
    """The levels of one limit."""

    def __init__(self, file: Path) -> None:
        handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.ftruncate(handle, _SETS * _SET_BYTES)
            self._table = mmap.mmap(handle, _SETS * _SET_BYTES)
        finally:
            os.close(handle)

    def load(self, client: str) -> tuple[float, float] | None:
        """The level and its time."""
        client_hash, first = _place(client)
        for at in range(first, first + _SET_BYTES, _ROW.size):
            found, level, since = _ROW.unpack_from(self._table, at)
            if found == client_hash:
                return level, since
        return None

    def store(self, client: str, level: float, now: float) -> None:
        client_hash, first = _place(client)
        oldest, oldest_since = first, float("inf")
        for at in range(first, first + _SET_BYTES, _ROW.size):
            found, _, since = _ROW.unpack_from(self._table, at)
            if found == client_hash:
                oldest = at
                break
            if since < oldest_since:
                oldest, oldest_since = at, since
        _ROW.pack_into(self._table, oldest, client_hash, level, now)


def hash_client(client: str) -> int:
    """64 bits with a sign, as PostgreSQL stores them."""
    return int.from_bytes(hashlib.blake2b(client.encode(), digest_size=8).digest(), "little", signed=True)


def _place(client: str) -> tuple[int, int]:
    """The hash of the client, which is never 0 as in an empty row, and the offset of its set."""
    client_hash = int.from_bytes(hashlib.blake2b(client.encode(), digest_size=8).digest(), "little") | 1
    return client_hash, (client_hash >> 1) % _SETS * _SET_BYTES
