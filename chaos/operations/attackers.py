"""Those who do their worst: a tenant with its key, one of its users with 60 tabs, and 20 anonymous addresses.

`python -m chaos.operations.attackers PORT KEY ORGANISATION ACCOUNT COOKIE` attacks until it is stopped, and then prints
what it was told. In a process of its own it does not delay the honest client, whose times are measured.
"""

import asyncio
import contextlib
import io
import itertools
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from PIL import Image

from chaos.operations.visitors import HALF_BODY, connect_from, hostile_bodies_of_all_kinds
from tests.support.processes import HOST
from tonne.apps.dashboard.viewer import organisation_base
from tonne.platform.values.context import Mode

TENANT_CLIENTS, TABS, ADDRESSES = 10, 60, 20
PAGES = ("overview", "orders", "orders?q=ord_x", "certificates", "events", "invoices", "links", "keys", "audit", "buy")
# An attacker may choose the token, but each form must have the one of its cookie.
TOKEN = "x" * 22
# As many pixels as a logo may have, in as few bytes.
LOGO_SIDE = 2000
# Nobody waits for longer: a half-sent body gets no response before.
WAITS_S = 1.0
# The attackers share the cores with the service: without a pause, they would only measure themselves.
PAUSE_S = 0.02


@dataclass(frozen=True, slots=True)
class Attacked:
    port: int
    key: str
    organisation_id: str
    account_id: str
    # Of a user of the same organisation.
    cookie: str


def of_tenant(attacked: Attacked) -> list[bytes]:
    """The most expensive requests that a key may send."""
    item = {"mass": {"amount": "1", "unit": "kg"}, "metadata": {f"k{each}": each for each in range(30)}}
    batch = json.dumps({"orders": [item] * 100}).encode()
    by_key = {"Authorization": f"Bearer {attacked.key}", "Service-Account": attacked.account_id}
    as_json = {**by_key, "Content-Type": "application/json"}
    logo_type, logo = _logo()
    return [
        request("POST", "/v1/orders/batch", batch, as_json),
        request("POST", "/v1/orders/batch", b'{"orders":[' + b",".join([b"{}"] * 20_000) + b"]}", as_json),
        request("POST", "/v1/api-keys", b'{"permissions":[' + b",".join([b"1"] * 100_000) + b"]}", as_json),
        *(request("POST", "/v1/orders/by-mass", body, as_json) for body in hostile_bodies_of_all_kinds()),
        request("GET", "/v1/orders?limit=100", headers=by_key),
        request("POST", f"/v1/accounts/{attacked.account_id}/logo", logo, {**by_key, "Content-Type": logo_type}),
    ]


def of_user(attacked: Attacked) -> list[bytes]:
    """Pages of the dashboard."""
    base = organisation_base(Mode.TEST, attacked.organisation_id)
    return [request("GET", f"{base}/{page}", headers={"Cookie": attacked.cookie}) for page in PAGES]


def of_strangers() -> list[bytes]:
    """Pages, also of errors, forms, forged notifications and half-sent bodies."""
    forms = {"Content-Type": "application/x-www-form-urlencoded", "Cookie": f"tonne={TOKEN}"}
    password = urlencode({"form_token": TOKEN, "email": "nobody@example.com", "password": "x" * 150}).encode()
    reset = urlencode({"form_token": TOKEN, "email": "nobody@example.com"}).encode()
    forged = {"Content-Type": "application/json", "Stripe-Signature": "t=1,v1=" + "0" * 64}
    return [
        request("GET", "/dashboard/sign-in"),
        request("GET", "/verify/7K2M-04QX-9ZTB-C3RD"),
        request("GET", "/no/such/page", headers={"Accept": "text/html"}),
        request("POST", "/dashboard/sign-in", password, forms),
        request("POST", "/dashboard/password", reset, forms),
        request("POST", "/gateways/stripe/webhook", b'{"id":"evt_1","data":' + b"[" * 200_000, forged),
        HALF_BODY,
    ]


def request(method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None) -> bytes:
    fields = {"Host": "tonne", "Connection": "close", "Content-Length": len(body), **(headers or {})}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body


def _logo() -> tuple[str, bytes]:
    """The content type and the body of a form with a picture that is expensive to decode."""
    picture = io.BytesIO()
    Image.new("RGB", (LOGO_SIDE, LOGO_SIDE)).save(picture, "PNG", optimize=True)
    head = b'--x\r\nContent-Disposition: form-data; name="logo"; filename="a.png"\r\nContent-Type: image/png\r\n\r\n'
    return "multipart/form-data; boundary=x", head + picture.getvalue() + b"\r\n--x--\r\n"


class Attack:
    """All of them at once. `statuses` counts the responses, with 0 for none, by who got them."""

    def __init__(self, attacked: Attacked) -> None:
        # Set it to end the attack. Each client finishes its request.
        self.stop = asyncio.Event()
        self.statuses: Counter[tuple[str, int]] = Counter()
        groups: list[tuple[str, Sequence[bytes], int, Callable[[int], str]]] = [
            ("tenant", of_tenant(attacked), TENANT_CLIENTS, lambda _: HOST),
            ("user", of_user(attacked), TABS, lambda _: HOST),
            ("strangers", of_strangers(), ADDRESSES, lambda number: f"127.1.0.{number + 1}"),
        ]
        self._port = attacked.port
        self._clients = [
            (who, address(number), itertools.islice(itertools.cycle(requests), number % len(requests), None))
            for who, requests, count, address in groups
            for number in range(count)
        ]

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for who, address, requests in self._clients:
                tasks.create_task(self._repeat(who, address, requests))

    async def _repeat(self, who: str, address: str, requests: "itertools.islice[bytes]") -> None:
        for each in requests:
            if self.stop.is_set():
                break
            status = 0
            # Being refused, or sent away, is no failure of the attack.
            with contextlib.suppress(OSError, TimeoutError):
                status = await self._send(address, each)
            self.statuses[who, status] += 1
            await asyncio.sleep(PAUSE_S)

    async def _send(self, address: str, content: bytes) -> int:
        reader, writer = await connect_from(self._port, address)
        try:
            async with asyncio.timeout(WAITS_S):
                writer.write(content)
                line = await reader.readline()
                await reader.read()
            return int(line.split()[1]) if line else 0
        finally:
            writer.transport.abort()


async def _attack(attacked: Attacked) -> None:
    attack = Attack(attacked)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, attack.stop.set)
    await attack.run()
    print(json.dumps([[who, status, count] for (who, status), count in sorted(attack.statuses.items())]))


def main() -> None:
    # The service must not lose its cores to attackers who would have machines of their own. Where the kernel groups
    # processes by session, which has its own niceness, that of the process counts only within the session.
    os.nice(10)
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text("19", encoding="ascii")
    port, *others = sys.argv[1:]
    asyncio.run(_attack(Attacked(int(port), *others)))


if __name__ == "__main__":
    main()
