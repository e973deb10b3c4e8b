"""Token buckets in memory, which the processes of one `tonne api` share.

The table has rows: a hash of the client, the level, and the time of the level. The hash has a key that is made at every
start, so that nobody can choose clients that meet in one set. Processes write without a lock: of two that write the
same row within the same microsecond, one write is lost, and the client gets one request more. A lock could stop all
processes when the one that holds it is stopped.

A row is replaced only when it is full again: otherwise, a client that is limited could get a full burst by having its
row replaced. If a set has only rows that are in use, a newcomer shares the fullest of them. It is then limited together
with that client, which can refuse it too early, but nobody gets more than one burst, and nobody is refused because the
table is full.
"""

import hashlib
import mmap
import os
import struct
from pathlib import Path
from typing import NamedTuple

# Names the folder of the tables: `tonne api` creates it, with the key, if it has several processes.
LIMITS_VARIABLE = "_TONNE_LIMITS_DIR"
KEY_FILE = "key"
KEY_BYTES = 16
_ROW = struct.Struct("=Qdd")
# A client has a place in each row of its set.
_ROWS_PER_SET = 8
_SETS = 8192
_SET_BYTES = _ROWS_PER_SET * _ROW.size
_TABLE_BYTES = _SETS * _SET_BYTES
_MAX_FOUND = 4096
_NOWHERE = (0, 0)


class BucketRow(NamedTuple):
    at: int
    # Of the client, or of the one with whom it shares the row.
    client_hash: int
    level: float


class SharedBuckets:
    """The levels of one limit. Without a folder, they belong to this process alone."""

    def __init__(self, folder: str | None, name: str, per_second: float, burst: int) -> None:
        self._per_second = per_second
        self._burst = float(burst)
        # Where clients had their own row, and their hashes.
        self._found: dict[str, tuple[int, int]] = {}
        if folder is None:
            self._key, self._table = os.urandom(KEY_BYTES), mmap.mmap(-1, _TABLE_BYTES)
            return
        self._key = (Path(folder) / KEY_FILE).read_bytes()
        handle = os.open(Path(folder) / name, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.ftruncate(handle, _TABLE_BYTES)
            self._table = mmap.mmap(handle, _TABLE_BYTES)
        finally:
            os.close(handle)

    def store(self, row: BucketRow, level: float, now: float) -> None:
        _ROW.pack_into(self._table, row.at, row.client_hash, level, now)

    def find(self, client: str, now: float) -> BucketRow:
        """The client's own row, or one to replace, or one to share."""
        at, client_hash = self._found.get(client, _NOWHERE)
        if client_hash:
            row_hash, stored, since = _ROW.unpack_from(self._table, at)
            if row_hash == client_hash:
                # Another process may have stored a slightly later time.
                level = stored + max(0.0, now - since) * self._per_second
                return BucketRow(at, client_hash, min(self._burst, level))
        row, is_own = self._search(client, now)
        if is_own:
            if len(self._found) >= _MAX_FOUND:
                self._found.clear()
            self._found[client] = row.at, row.client_hash
        return row

    def _search(self, client: str, now: float) -> tuple[BucketRow, bool]:
        """The row, and whether it is the client's own."""
        digest = hashlib.blake2b(client.encode(), digest_size=8, key=self._key).digest()
        # Never 0, as in an empty row.
        client_hash = int.from_bytes(digest, "little") | 1
        first = (client_hash >> 1) % _SETS * _SET_BYTES
        best = BucketRow(first, client_hash, float("-inf"))
        rows = _ROW.iter_unpack(self._table[first : first + _SET_BYTES])
        for at, (row_hash, stored, since) in zip(range(first, first + _SET_BYTES, _ROW.size), rows, strict=True):
            level = self._burst if row_hash == 0 else stored + max(0.0, now - since) * self._per_second
            if row_hash == client_hash:
                return BucketRow(at, client_hash, min(self._burst, level)), True
            if level >= self._burst > best.level:
                best = BucketRow(at, client_hash, self._burst)
            elif level > best.level:
                best = BucketRow(at, row_hash, level)
        return best, False


def hash_client(client: str) -> int:
    """64 bits with a sign, as PostgreSQL stores them. Without a key: all machines must find the same row."""
    return int.from_bytes(hashlib.blake2b(client.encode(), digest_size=8).digest(), "little", signed=True)
