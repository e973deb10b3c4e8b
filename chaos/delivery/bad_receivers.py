"""Receivers that respond wrongly, hang, drip, flood or have invalid certificates, and recover later."""

import asyncio
import socket

from chaos.cluster import SHORT_TIMES, Cluster
from chaos.delivery import behaviours
from chaos.delivery.bystander import Bystander
from chaos.model import Fault, Hook, NotAsExpected
from chaos.receivers import Behaviour, accept
from chaos.scenario import scenario
from tests.support.receivers import UnacceptedPort
from tests.support.tls import INVALID

# A private address to which the service must never connect.
FORBIDDEN_HOST = "127.0.0.2"
MAX_GROWTH_MB = 60.0
TIMES = 3


class Canary:
    """Listens where the service must never connect."""

    def __init__(self) -> None:
        self._listener = socket.socket()
        self._listener.bind((FORBIDDEN_HOST, 0))
        self._listener.listen(16)
        self._listener.setblocking(False)
        self.url = f"https://{FORBIDDEN_HOST}:{self._listener.getsockname()[1]}/"

    def was_visited(self) -> bool:
        """Call it once, at the end: until then a connection waits in the queue."""
        with self._listener:
            try:
                self._listener.accept()
            except BlockingIOError:
                return False
            return True


@scenario("wrong-answers", within_s=90)
async def wrong_responses(cluster: Cluster) -> None:
    canary = Canary()
    elsewhere = await cluster.receiver("elsewhere")
    worker = cluster.start_worker()
    bystander = await Bystander(cluster).open()

    def fault(name: str) -> Fault:
        return cluster.announce(name, TIMES)

    def redirect(url: str, name: str) -> Behaviour:
        return behaviours.respond_with(fault(name), 301, b"", f"Location: {url}")

    bad = {
        "half": behaviours.fail_sometimes(cluster.rng, 0.5, fault("returned 500")),
        "redirect": redirect(canary.url, "redirected to a private address"),
        "metadata": redirect("http://169.254.169.254/", "redirected to the metadata address"),
        "elsewhere": redirect(elsewhere.url, "redirected to a valid address"),
        "flood": behaviours.respond_with(fault("returned 10 MB"), 200, bytes(10 * 1024 * 1024)),
        "bomb": behaviours.gzip_bomb(fault("returned a gzip bomb")),
        "slow-end": behaviours.drip_body(0.2, fault("dripped after the status")),
    }
    before_mb = worker.resident_mb
    hooks = [await _hook_with_orders(cluster, f"{name}-hook", behaviour) for name, behaviour in bad.items()]
    await _place_until_all_fired(cluster, hooks)
    await bystander.compare()
    growth_mb = worker.resident_mb - before_mb
    cluster.notes.append(f"worker grew by {growth_mb:.0f} MB")
    cluster.require(growth_mb < MAX_GROWTH_MB, f"the worker grew by {growth_mb:.0f} MB on responses of receivers")
    for hook in hooks:
        hook.receiver.behaviour = accept
    await cluster.until_delivered(30)
    cluster.require(not canary.was_visited(), "a redirect to a private address was followed")
    cluster.require(not elsewhere.exchanges, "a redirect was followed")


@scenario("hanging-receivers", within_s=90, settings={**SHORT_TIMES, "webhook_time_scale": "0.01"})
async def hanging_receivers(cluster: Cluster) -> None:
    """Each hangs at another step. The service must record a timeout for each."""
    cluster.start_worker()
    bystander = await Bystander(cluster).open()
    faults = {
        "not-accepting": cluster.announce("hung before accept", TIMES),
        "no-handshake": cluster.announce("hung before the TLS handshake", TIMES),
    }
    silent = behaviours.hang(cluster.announce("hung after the request", TIMES))
    dripping = behaviours.drip(1.0, cluster.announce("dripped a byte per second", TIMES))
    hooks = [
        await _hook_with_orders(cluster, "silent", silent),
        await _hook_with_orders(cluster, "dripping", dripping),
    ]
    ports = [UnacceptedPort(full=True), UnacceptedPort(full=False)]
    unreachable = [await _hook_at_port(cluster, name, port.port) for name, port in zip(faults, ports, strict=True)]
    comparing = asyncio.create_task(bystander.compare(30))
    await _until_recorded(cluster, faults, "timeout", within_s=40)
    await comparing
    for hook in hooks:
        hook.receiver.behaviour = accept
    for hook, port in zip(unreachable, ports, strict=True):
        port.close()
        await hook.receiver.open()
    await cluster.until_delivered(40)


@scenario("bad-certificates", quick=True)
async def bad_certificates(cluster: Cluster) -> None:
    """No request is sent to them. As soon as the certificate is valid, everything arrives."""
    cluster.start_worker()
    bystander = await Bystander(cluster).open()
    faults = {kind: cluster.announce(f"certificate: {kind.replace('_', ' ')}", TIMES) for kind in INVALID}
    hooks = {kind: await _hook_with_orders(cluster, kind, accept, certificate=kind) for kind in INVALID}
    await _until_recorded(cluster, faults, "certificate_invalid", within_s=30)
    await bystander.compare()
    for kind, hook in hooks.items():
        cluster.require(not hook.receiver.exchanges, f"a request was sent to a receiver with a certificate: {kind}")
        cluster.authority.load(hook.receiver.tls, "good")
    await cluster.until_delivered(30)


async def _hook_with_orders(cluster: Cluster, name: str, behaviour: Behaviour, *, certificate: str = "good") -> Hook:
    hook = await cluster.open_hook(name, behaviour, accounts=2, certificate=certificate)
    await cluster.place(hook.organisation, 5)
    return hook


async def _hook_at_port(cluster: Cluster, name: str, port: int) -> Hook:
    """A webhook whose receiver is not started yet: its port is in use."""
    receiver = await cluster.receiver(name)
    receiver.shut()
    receiver.port = port
    hook = await cluster.register(await cluster.open_organisation(2), receiver)
    await cluster.place(hook.organisation, 5)
    return hook


ERRORS = """
SELECT count(*) FROM webhook_attempts attempt JOIN webhooks webhook ON webhook.id = attempt.webhook_id
WHERE webhook.url LIKE '%/' || $1 AND attempt.error = $2
"""


async def _until_recorded(cluster: Cluster, faults: dict[str, Fault], error: str, *, within_s: float) -> None:
    """The service has recorded this error often enough for each of these receivers."""

    async def all_fired() -> bool:
        for name, fault in faults.items():
            fault.count = await cluster.fetchval(ERRORS, name, error)
        return not cluster.missing_faults()

    await cluster.until(all_fired, "every fault has fired often enough", within_s)


async def _place_until_all_fired(cluster: Cluster, hooks: list[Hook]) -> None:
    """A receiver that acknowledges needs new events for its next fault."""
    for _ in range(60):
        if not cluster.missing_faults():
            return
        for hook in hooks:
            await cluster.place(hook.organisation, 1)
        await asyncio.sleep(0.2)
    raise NotAsExpected("; ".join(cluster.missing_faults()))
