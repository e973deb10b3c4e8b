"""The worst bodies, queries and headers that each route admits never keep others from the event loop for long."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec
import pytest

from tests.platform.http.worst_requests import Sender, measured_steps
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.http.asgi import AsgiApp
from tonne.platform.http.json_body import MAX_VALUES, SMALL_BYTES
from tonne.platform.http.route import MAX_BODY_BYTES, Route

FULL = MAX_BODY_BYTES - 4096
MANY = MAX_VALUES - 50
# Values that are the worst of their kind for some reader: as many or as long as a body may contain.
MISSPELT = b"[" + b",".join(b'{"bundle_ie%d":1}' % i for i in range(MANY // 2 - 1)) + b"]"
NAMES = b"{" + b",".join(b'"mas%d":1' % i for i in range(MANY)) + b"}"
DENSE = b"[" + b",".join([b"1"] * ((SMALL_BYTES - 200) // 2)) + b"]"
TOO_MANY = b"[" + b",".join([b"1"] * (FULL // 2)) + b"]"
NUMBER_TEXT = b'"' + b"9" * FULL + b'"'
LETTERS = b'"' + "é".encode() * (FULL // 2) + b'"'
ESCAPED = b'"' + rb"\u00e9" * (FULL // 6) + b'"'
WORST = {
    "misspelt": MISSPELT,
    "names": NAMES,
    "dense": DENSE,
    "too many": TOO_MANY,
    "digits": NUMBER_TEXT,
    "letters": LETTERS,
    "escapes": ESCAPED,
}
# The others cost the same wherever they are.
IN_MEMBERS = ("dense", "names", "digits", "letters")
HEADERS = {
    "authorization": b"Bearer " + b"x" * 60_000,
    "cookie": b"; ".join(b"c%d=1" % i for i in range(8_000)),
    "idempotency-key": b"k" * 60_000,
    "if-none-match": b", ".join(b'"%d"' % i for i in range(8_000)),
    "accept-language": b",".join(b"a%d;q=0.5" % i for i in range(6_000)),
    "x-forwarded-for": b",".join([b"10.0.0.1"] * 6_000),
    "accept": b",".join([b"text/html;q=0.1"] * 3_000),
}


def members_of(shape: Any) -> Iterator[tuple[object, bytes, bytes]]:
    """Every member, also of members and of items of lists: what it is, and what goes before and after its value."""
    plain = get_args(shape)[0] if get_origin(shape) is Annotated else shape
    if get_origin(plain) is list:
        for member, before, after in members_of(get_args(plain)[0]):
            yield member, b"[" + before, after + b"]"
    elif isinstance(plain, type) and issubclass(plain, msgspec.Struct):
        hints = get_type_hints(plain, include_extras=True)
        for field in msgspec.structs.fields(plain):
            name = b'{"' + field.encode_name.encode() + b'":'
            yield (field.encode_name, str(hints[field.name])), name, b"}"
            for member, before, after in members_of(hints[field.name]):
                yield member, name + before, after + b"}"
    elif get_origin(plain) is not dict:
        for option in get_args(plain):
            yield from members_of(option)


def path_of(route: Route) -> str:
    return re.sub(r"\{(\w+?)(_id)?\}", lambda found: f"{found[1][:3]}_{'0' * 26}", route.path)


@pytest.fixture
def sender(app: AsgiApp, world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sender]:
    with measured_steps(monkeypatch) as steps:
        yield Sender(app, world.ours_test.key, steps)


async def test_the_worst_bodies(sender: Sender, services: Services) -> None:
    """Members with the same name and type are read by the same code: each is tried in the first route that has it."""
    routes = [each for each in services.routes() if each.path.startswith("/v1/") and each.body is not None]
    assert len(routes) > 40
    tried: set[object] = set()
    for route in routes:
        name = f"{route.method} {route.path}"
        bodies = {f"whole body, {kind}": value for kind, value in WORST.items()}
        for member, before, after in members_of(route.body):
            if member not in tried:
                tried.add(member)
                bodies |= {f"{before.decode()}, {kind}": before + WORST[kind] + after for kind in IN_MEMBERS}
        for what, body in bodies.items():
            status = await sender.send(f"{name}: {what}", route.method, path_of(route), body=body)
            assert status < 500, (name, what, status)
    assert len(tried) > 100
    assert not sender.slow, "\n".join(sender.slow)


async def test_a_batch_of_100_orders_gives_way_between_its_orders(sender: Sender) -> None:
    """Each as large as it may be: all orders are valid, and are placed."""
    metadata = {f"k{number:03}": "x" * 500 for number in range(30)}
    order = {"mass": {"amount": "1", "unit": "kg"}, "metadata": metadata}
    orders = [{**order, "idempotency_key": f"order-{number}"} for number in range(100)]
    body = msgspec.json.encode({"orders": orders})
    assert len(body) > 1_500_000
    status = await sender.send("a batch", "POST", "/v1/orders/batch", body=body)
    assert status == 200
    assert sender.sent <= 3
    assert not sender.slow, "\n".join(sender.slow)


async def test_the_worst_queries(sender: Sender, services: Services) -> None:
    crowd = b"&".join(b"limi%d=1" % i for i in range(7_000))
    for route in services.routes():
        if route.method != "GET" or not route.path.startswith("/v1/"):
            continue
        await sender.send(f"{route.path}: many parameters", "GET", path_of(route), query=crowd)
        for parameter in route.query:
            name = parameter.name.encode()
            for value in (b"9" * 60_000, b"%C3%A9" * 10_000, b"a," * 30_000):
                query = (name[:-2] + b"[k]" if name.endswith(b"[]") else name) + b"=" + value
                status = await sender.send(f"{route.path}: {parameter.name}", "GET", path_of(route), query=query)
                assert status < 500, (route.path, parameter.name, status)
    assert not sender.slow, "\n".join(sender.slow)


async def test_the_worst_headers(sender: Sender, services: Services) -> None:
    """For one route of every kind, pages included: headers are read by the same code."""
    resources = {(route.access, route.path.split("/")[1], route.method): route for route in services.routes()}
    assert len(resources) > 20
    for route in resources.values():
        for name, value in HEADERS.items():
            what = f"{route.method} {route.path}: {name}"
            status = await sender.send(what, route.method, path_of(route), **{name: value})
            assert status < 500 or status == 503, (what, status)
    assert not sender.slow, "\n".join(sender.slow)


def test_the_sample_of_a_proxy_lets_every_body_through(services: Services) -> None:
    """Tonne refuses those that are too large, with JSON."""
    sample = Path("deploy/nginx/tonne.conf").read_text(encoding="utf-8")
    [megabytes] = re.findall(r"client_max_body_size (\d+)m;", sample)
    assert int(megabytes) * 1024 * 1024 > max(route.max_body_bytes for route in services.routes())
