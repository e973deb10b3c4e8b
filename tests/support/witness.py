"""A witness of transparency logs, written from c2sp.org/tlog-witness and tlog-cosignature without the code it checks.

It keeps the last checkpoint of each log in a file, refuses what is not consistent with it, and serves over TLS.
"""

import asyncio
import base64
import binascii
import hashlib
import json
import os
import ssl
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tests.support.processes import HOST
from tests.support.receivers import Listener, Reply, read_request, response

DASH = "\N{EM DASH} "
NOTE, COSIGNATURE = b"\x01", b"\x04"


class Refused(Exception):
    """The status and body of the response."""

    def __init__(self, status: int, body: str = "", content_type: str = "text/plain") -> None:
        super().__init__(status, body)
        self.status, self.body, self.content_type = status, body, content_type


def key_id(name: str, kind: bytes, public_key: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\n" + kind + public_key).digest()[:4]


@dataclass(frozen=True)
class KnownLog:
    """A log that the witness follows, by the verifier key of the log."""

    origin: str
    id: bytes
    key: Ed25519PublicKey

    @classmethod
    def parse(cls, origin: str, vkey: str) -> "KnownLog":
        name, hexadecimal, encoded = vkey.split("+", 2)
        data = base64.b64decode(encoded, validate=True)
        assert data[:1] == NOTE
        assert hexadecimal == key_id(name, NOTE, data[1:]).hex()
        return cls(origin, bytes.fromhex(hexadecimal), Ed25519PublicKey.from_public_bytes(data[1:]))

    def has_signed(self, text: str, lines: Sequence[str]) -> bool:
        for line in lines:
            name, encoded = line.removeprefix(DASH).split(" ")
            data = base64.b64decode(encoded)
            if name == self.origin and data[:4] == self.id:
                try:
                    self.key.verify(data[4:], text.encode())
                except InvalidSignature:
                    raise Refused(403) from None
                return True
        return False


@dataclass
class Witness:
    """`respond_next` replaces the response to the next request; `now` is its clock."""

    folder: Path
    name: str = "witness.example/w1"
    key: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)
    logs: dict[str, KnownLog] = field(default_factory=dict)
    now: Callable[[], float] = time.time
    bodies: list[str] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    url: str = ""

    @property
    def vkey(self) -> str:
        public = self.key.public_key().public_bytes_raw()
        identifier = key_id(self.name, COSIGNATURE, public).hex()
        return f"{self.name}+{identifier}+{base64.b64encode(COSIGNATURE + public).decode()}"

    def follow(self, origin: str, vkey: str) -> None:
        self.logs[origin] = KnownLog.parse(origin, vkey)

    def last_seen(self, origin: str) -> tuple[int, bytes]:
        """Size and root of the last checkpoint of this log that was cosigned."""
        path = self._path(origin)
        if not path.exists():
            return 0, b""
        stored = json.loads(path.read_text())
        return stored["size"], base64.b64decode(stored["root"])

    def add_checkpoint(self, body: str) -> str:
        """The cosignature line, or Refused. Nothing awaits in here: checking and storing are atomic."""
        self.bodies.append(body)
        head, gap, note = body.partition("\n\n")
        if not gap:
            raise Refused(400)
        first, *proof_lines = head.split("\n")
        text, _, signatures = note.rpartition("\n\n")
        text += "\n"
        origin, size_line, root_line, *_ = text.split("\n")
        log = self.logs.get(origin)
        if log is None:
            raise Refused(404)
        if not log.has_signed(text, signatures.splitlines()):
            raise Refused(403)
        old_size, size = int(first.removeprefix("old ")), int(size_line)
        root = base64.b64decode(root_line, validate=True)
        if old_size > size or len(proof_lines) > 63:
            raise Refused(400)
        known_size, known_root = self.last_seen(origin)
        if old_size != known_size or (old_size == size and known_root not in (b"", root)):
            raise Refused(409, f"{known_size}\n", "text/x.tlog.size")
        try:
            proof = [base64.b64decode(line, validate=True) for line in proof_lines]
        except binascii.Error:
            raise Refused(400) from None
        if not is_consistent(old_size, size, proof, known_root, root):
            raise Refused(422)
        self.remember(origin, size, root)
        return self.cosign(text)

    def cosign(self, text: str, at: int | None = None) -> str:
        at = int(self.now()) if at is None else at
        signature = self.key.sign(f"cosignature/v1\ntime {at}\n{text}".encode())
        identifier = key_id(self.name, COSIGNATURE, self.key.public_key().public_bytes_raw())
        encoded = base64.b64encode(identifier + at.to_bytes(8, "big") + signature).decode()
        return f"{DASH}{self.name} {encoded}\n"

    def remember(self, origin: str, size: int, root: bytes) -> None:
        """On disk before the response, as the specification demands."""
        path = self._path(origin)
        new = path.with_suffix(".new")
        with new.open("w") as file:
            json.dump({"size": size, "root": base64.b64encode(root).decode()}, file)
            file.flush()
            os.fsync(file.fileno())
        new.rename(path)

    def _path(self, origin: str) -> Path:
        return self.folder / f"{hashlib.sha256(origin.encode()).hexdigest()}.json"

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head, body = await read_request(reader)
            if self.replies:
                self.bodies.append(body.decode())
                await self.replies.pop(0)(writer)
                continue
            writer.write(self._respond(head, body))
            await writer.drain()

    def _respond(self, head: bytes, body: bytes) -> bytes:
        if not head.startswith(b"POST /add-checkpoint HTTP/1.1\r\n"):
            return response(404, b"")
        try:
            return response(200, self.add_checkpoint(body.decode()).encode())
        except Refused as refused:
            return response(refused.status, refused.body.encode(), [f"Content-Type: {refused.content_type}"])


def is_consistent(old_size: int, size: int, proof: Sequence[bytes], old_root: bytes, root: bytes) -> bool:
    """RFC 9162, section 2.1.4.2. Everything is consistent with an empty tree."""
    if old_size in {0, size}:
        return not proof and (old_size == 0 or old_root == root)
    nodes = list(proof)
    if old_size & (old_size - 1) == 0:
        nodes.insert(0, old_root)
    if not nodes:
        return False
    left, right = old_size - 1, size - 1
    while left & 1:
        left, right = left >> 1, right >> 1
    from_old = from_new = nodes[0]
    for node in nodes[1:]:
        if right == 0:
            return False
        if left & 1 or left == right:
            from_old, from_new = _parent(node, from_old), _parent(node, from_new)
            while left and not left & 1:
                left, right = left >> 1, right >> 1
        else:
            from_new = _parent(from_new, node)
        left, right = left >> 1, right >> 1
    return right == 0 and from_old == old_root and from_new == root


def _parent(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


@asynccontextmanager
async def witnessing(
    folder: Path, context: ssl.SSLContext | None, name: str = "witness.example/w1"
) -> AsyncIterator[Witness]:
    """A witness on a port of its own. Without `context` it does not use TLS."""
    async with listening_witness(Witness(folder, name), context) as (witness, _):
        yield witness


@asynccontextmanager
async def listening_witness(
    witness: Witness, context: ssl.SSLContext | None
) -> AsyncIterator[tuple[Witness, Listener]]:
    """The listener can be shut, and opened again on the same port."""
    listener = Listener(witness.handle, context)
    await listener.open()
    witness.url = f"{'https' if context else 'http'}://{HOST}:{listener.port}"
    try:
        yield witness, listener
    finally:
        await listener.close()
