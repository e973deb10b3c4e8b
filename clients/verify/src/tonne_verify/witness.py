"""A witness (c2sp.org/tlog-witness): it cosigns the checkpoint of a log only if that continues what it has seen."""

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tonne_verify.base64_strict import decode_base64, encode_base64
from tonne_verify.canonical import read_json
from tonne_verify.errors import NotProven
from tonne_verify.files import write_text
from tonne_verify.merkle import check_consistency
from tonne_verify.notes import Checkpoint, NoteKey, SignatureType, VerifierKey, open_note, split_note
from tonne_verify.policy import Policy

STATE_FORMAT = "tonne-witness/1"
MAX_BODY = 100_000
MAX_HASHES = 63
TIMEOUT_S = 20.0


def open_key(name: str, path: Path) -> NoteKey:
    """The key in the file; a new one if there is none. Raises NotProven."""
    if not path.exists():
        write_text(path, encode_base64(Ed25519PrivateKey.generate().private_bytes_raw()) + "\n")
        path.chmod(0o600)
    try:
        private = Ed25519PrivateKey.from_private_bytes(decode_base64(path.read_text(encoding="ascii").strip()))
    except (OSError, ValueError):
        raise NotProven(f"{path} is not the key of a witness.") from None
    return NoteKey(name, private, SignatureType.COSIGNATURE)


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: str = ""
    content_type: str = "text/plain; charset=utf-8"


class Witness:
    """`state` is the file with the last checkpoint of each log. One process at a time may use it."""

    def __init__(self, key: NoteKey, logs: Policy, state: Path, clock: Callable[[], float] = time.time) -> None:
        self.key = key
        self._keys: dict[str, list[VerifierKey]] = {}
        for log in logs.logs:
            self._keys.setdefault(log.key.name, []).append(log.key)
        self._state = state
        self._clock = clock
        self._lock = Lock()
        self._seen: dict[str, str] = {}
        if state.exists():
            value = read_json(state.read_bytes())
            if not isinstance(value, dict) or value.get("format") != STATE_FORMAT:
                raise NotProven(f"{state} is not the state of a witness.")
            self._seen = dict(value["logs"])

    def add_checkpoint(self, body: str) -> Answer:
        try:
            old_size, hashes, note = _read_request(body)
            checkpoint = Checkpoint.parse(split_note(note)[0])
        except NotProven as error:
            return Answer(400, f"{error}\n")
        keys = self._keys.get(checkpoint.origin)
        if keys is None:
            return Answer(404, "This witness does not follow this log.\n")
        try:
            open_note(note, keys)
        except NotProven as error:
            return Answer(403, f"{error}\n")
        if old_size > checkpoint.size:
            return Answer(400, "The old size is above that of the checkpoint.\n")
        with self._lock:
            return self._cosign(checkpoint, old_size, hashes)

    def _cosign(self, checkpoint: Checkpoint, old_size: int, hashes: list[bytes]) -> Answer:
        seen = Checkpoint.parse(self._seen[checkpoint.origin]) if checkpoint.origin in self._seen else None
        size = 0 if seen is None else seen.size
        is_other = seen is not None and size == checkpoint.size and seen.root != checkpoint.root
        if old_size != size or is_other:
            return Answer(409, f"{size}\n", "text/x.tlog.size")
        try:
            _check_proof(seen, checkpoint, hashes)
        except NotProven as error:
            return Answer(422, f"{error}\n")
        # Stored before anybody gets the cosignature, so that no crash makes it forget.
        seen_now: Mapping[str, str] = {**self._seen, checkpoint.origin: checkpoint.text}
        write_text(self._state, json.dumps({"format": STATE_FORMAT, "logs": seen_now}, indent=2) + "\n")
        self._seen = dict(seen_now)
        return Answer(200, self.key.cosign(checkpoint.text, int(self._clock())))


def _check_proof(seen: Checkpoint | None, checkpoint: Checkpoint, hashes: list[bytes]) -> None:
    if seen is not None and seen.size:
        check_consistency(seen.size, checkpoint.size, hashes, seen.root, checkpoint.root)
    elif hashes:
        raise NotProven("A proof from an empty tree has no hashes.")


def _read_request(body: str) -> tuple[int, list[bytes], str]:
    head, gap, note = body.partition("\n\n")
    old, *hashes = head.split("\n")
    found = re.fullmatch(r"old (0|[1-9][0-9]{0,18})", old)
    if found is None or not gap or len(hashes) > MAX_HASHES:
        raise NotProven("This is not a request of c2sp.org/tlog-witness.")
    return int(found[1]), [decode_base64(each) for each in hashes], note


def serve_witness(witness: Witness, host: str, port: int) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = TIMEOUT_S

        def do_POST(self) -> None:
            length = self.headers.get("Content-Length", "")
            if not (length.isascii() and length.isdigit() and int(length) <= MAX_BODY):
                self.close_connection = True
                return self._answer(Answer(413, "The request is too large, or does not say its length.\n"))
            body = self.rfile.read(int(length)).decode("utf-8", "replace")
            if not self.path.endswith("/add-checkpoint"):
                return self._answer(Answer(404, "Post to add-checkpoint.\n"))
            try:
                self._answer(witness.add_checkpoint(body))
            except NotProven as error:  # the state cannot be written
                self._answer(Answer(500, f"{error}\n"))

        def _answer(self, answer: Answer) -> None:
            content = answer.body.encode()
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.content_type)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Requests are not logged."""

    return ThreadingHTTPServer((host, port), Handler)
