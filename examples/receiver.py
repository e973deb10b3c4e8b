"""A complete receiver of Tonne's webhooks, with nothing but Python's standard library.

    TONNE_LISTEN_SECRET=whsec_... python3 examples/receiver.py [--port 9000] [--cert cert.pem --key key.pem]

It checks the signature and the age of every request, and ignores events that it has handled before, in both ways that
the documentation describes. Replace `handle_order` by what your system does.
"""

import argparse
import hashlib
import hmac
import json
import os
import ssl
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock

SIGNATURE_HEADER = "Service-HMAC"
MAX_AGE_S = 300


def is_genuine(header: str, body: bytes, secret: str, now: float) -> bool:
    """Whether one of the header's signatures is ours, and fresh. Two are there while the secret is being rotated."""
    pairs = [part.partition("=")[::2] for part in header.split(",")]
    timestamp = next((value for name, value in pairs if name == "timestamp"), "")
    if not timestamp.isascii() or not timestamp.isdigit() or abs(now - int(timestamp)) > MAX_AGE_S:
        return False
    expected = hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    # Compared in constant time, so that an attacker cannot guess it letter by letter.
    return any(name == "v1" and hmac.compare_digest(value.encode(), expected.encode()) for name, value in pairs)


class SeenById:
    """The first way to ignore duplicates: remember the ids of the events handled. Keep them in your database."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def is_new(self, event: dict) -> bool:
        return event["event_id"] not in self._seen

    def remember(self, event: dict) -> None:
        self._seen.add(event["event_id"])


class SeenBySequence:
    """The second way: per account, remember the last sequence. Sequences are compared as text."""

    def __init__(self) -> None:
        self._last: dict[str, str] = {}

    def is_new(self, event: dict) -> bool:
        return event["sequence"] > self._last.get(event["account_id"], "")

    def remember(self, event: dict) -> None:
        self._last[event["account_id"]] = event["sequence"]


def handle_order(event: dict) -> None:
    order = event["data"]["order"]
    print(
        f"{event['event_type']:<16} {order['id']}  {order['quantity'] or '-'} t  {order['total_cost'] or '-'}",
        flush=True,
    )


class Receiver(BaseHTTPRequestHandler):
    secret: str
    seen: SeenById | SeenBySequence
    # One request at a time: the events of an account must be handled in their order.
    turn = Lock()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if not is_genuine(self.headers.get(SIGNATURE_HEADER, ""), body, self.secret, time.time()):
            self._answer(401)
            return
        with self.turn:
            for event in json.loads(body)["events"]:
                # Other types will be added: process those you need and ignore the rest.
                if event["event_type"].startswith("order.") and self.seen.is_new(event):
                    handle_order(event)
                    # Only now, and together with what handling has changed: a crash before means that it comes again.
                    self.seen.remember(event)
        # Only after all events are dealt with: a 2xx means that none of them needs to be sent again.
        self._answer(204)

    def _answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Quiet: the events are what matters."""


def main() -> None:
    parser = argparse.ArgumentParser(description="Receive Tonne's webhooks.")
    # From the environment by default: other users of the machine can read the arguments of a process.
    secret = os.environ.get("TONNE_LISTEN_SECRET")
    parser.add_argument("--secret", default=secret, required=not secret, help="the signing secret, whsec_...")
    parser.add_argument("--port", type=int, default=9000)
    parser.add_argument("--cert", help="a certificate in PEM form, to serve https")
    parser.add_argument("--key", help="its private key")
    parser.add_argument("--duplicates", choices=("by-id", "by-sequence"), default="by-id")
    options = parser.parse_args()
    Receiver.secret = options.secret
    Receiver.seen = SeenById() if options.duplicates == "by-id" else SeenBySequence()
    server = ThreadingHTTPServer(("127.0.0.1", options.port), Receiver)
    if options.cert:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(options.cert, options.key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    print(f"Listening on 127.0.0.1:{options.port}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        sys.exit(0)


if __name__ == "__main__":
    main()
