"""Receivers that answer wrongly, hang, drip, flood, or show bad certificates, until they turn good."""

import asyncio
import socket
from collections.abc import Callable

from chaos import behaviours
from chaos.bystander import Bystander
from chaos.certificates import BAD_KINDS
from chaos.receivers import Behaviour, DeafPort, Receiver, accept
from chaos.scenarios.scenario import Scenario
from chaos.scene import QUICK, Scene, Trouble

# Private, and not opened to the service: nobody may ever be led there.
FORBIDDEN_HOST = "127.0.0.2"
MAX_GROWTH_MB = 60.0
TIMES = 3


class Canary:
    """Listens where the service must never go."""

    def __init__(self) -> None:
        self._listener = socket.socket()
        self._listener.bind((FORBIDDEN_HOST, 0))
        self._listener.listen(16)
        self._listener.setblocking(False)
        self.url = f"https://{FORBIDDEN_HOST}:{self._listener.getsockname()[1]}/"

    def was_visited(self) -> bool:
        """Asked once, at the end: a connection waits in the queue until then."""
        with self._listener:
            try:
                self._listener.accept()
            except BlockingIOError:
                return False
            return True


async def wrong_answers(scene: Scene) -> None:
    canary = Canary()
    elsewhere = await scene.receiver("elsewhere")
    count = scene.faults.announce
    bad = {
        "half": behaviours.fail_sometimes(scene.rng, 0.5, count("answered with 500", TIMES)),
        "redirect": behaviours.redirect(canary.url, count("redirected to a private address", TIMES)),
        "metadata": behaviours.redirect("http://169.254.169.254/", count("redirected to the metadata address", TIMES)),
        "elsewhere": behaviours.redirect(elsewhere.url, count("redirected to a good address", TIMES)),
        "flood": behaviours.flood(count("answered with 10 MB", TIMES)),
        "bomb": behaviours.gzip_bomb(count("answered with a gzip bomb", TIMES)),
        "slow-end": behaviours.drip_body(0.2, count("dripped after the status", TIMES)),
    }
    worker = scene.start_worker()
    bystander = await Bystander(scene).open()
    await bystander.before()
    before_mb = worker.resident_mb()
    receivers = [await _with_webhook(scene, f"{name}-hook", behaviour) for name, behaviour in bad.items()]
    await _keep_ordering(scene, scene.faults.missing)
    await bystander.compare()
    growth_mb = worker.resident_mb() - before_mb
    scene.note(f"worker grew by {growth_mb:.0f} MB")
    scene.require(growth_mb < MAX_GROWTH_MB, f"the worker grew by {growth_mb:.0f} MB on what receivers sent")
    for receiver in receivers:
        receiver.behaviour = accept
    await scene.until_delivered(30)
    scene.require(not canary.was_visited(), "a redirect to a private address was followed")
    scene.require(not elsewhere.exchanges, "a redirect was followed")


async def hanging(scene: Scene) -> None:
    """Each hangs at another step. What the service notes about it is what counts: a time-out each."""
    count = scene.faults.announce
    worker_faults = {
        "not-accepting": count("hung before accept", TIMES),
        "no-handshake": count("hung before the TLS handshake", TIMES),
    }
    bystander = await Bystander(scene).open()
    scene.start_worker()
    await bystander.before()
    silent = await _with_webhook(scene, "silent", behaviours.hang(count("hung after the request", TIMES)))
    dripping = await _with_webhook(scene, "dripping", behaviours.drip(1.0, count("dripped a byte a second", TIMES)))
    deaf = {
        "not-accepting": DeafPort(full=True),
        "no-handshake": DeafPort(full=False),
    }
    asleep = {name: await _on_port(scene, name, port.port) for name, port in deaf.items()}

    async def count_time_outs() -> bool:
        for name, fired in worker_faults.items():
            label = "hung before accept" if name == "not-accepting" else "hung before the TLS handshake"
            for _ in range(await _errors(scene, name, "timeout") - scene.faults.counts[label]):
                fired()
        return not scene.faults.missing()

    comparing = asyncio.create_task(bystander.compare(30))
    await scene.until(count_time_outs, "every receiver has hung often enough", 40)
    await comparing
    silent.behaviour = dripping.behaviour = accept
    for name, port in deaf.items():
        port.close()
        await asleep[name].open()
    await scene.until_delivered(40)


async def bad_certificates(scene: Scene) -> None:
    """Refused before a byte of ours went out; as soon as the certificate is good, everything arrives."""
    bystander = await Bystander(scene).open()
    scene.start_worker()
    await bystander.before()
    counters = {kind: scene.faults.announce(f"certificate: {kind.replace('_', ' ')}", TIMES) for kind in BAD_KINDS}
    receivers: dict[str, Receiver] = {}
    for kind in BAD_KINDS:
        organisation = await scene.open_organisation(2)
        receivers[kind] = await scene.receiver(kind, certificate=kind)
        await scene.register(organisation, receivers[kind])
        await scene.place(organisation, 5)

    async def count_refusals() -> bool:
        for kind, fired in counters.items():
            seen = scene.faults.counts[f"certificate: {kind.replace('_', ' ')}"]
            for _ in range(await _errors(scene, kind, "certificate_invalid") - seen):
                fired()
        return not scene.faults.missing()

    await scene.until(count_refusals, "every certificate was refused often enough", 30)
    await bystander.compare()
    for kind, receiver in receivers.items():
        scene.require(not receiver.exchanges, f"a request went to a receiver whose certificate is {kind}")
        receiver.use_certificate(scene.certificates, "good")
    await scene.until_delivered(30)


async def _with_webhook(scene: Scene, name: str, behaviour: Behaviour) -> Receiver:
    organisation = await scene.open_organisation(2)
    receiver = await scene.receiver(name, behaviour)
    await scene.register(organisation, receiver)
    await scene.place(organisation, 5)
    return receiver


async def _on_port(scene: Scene, name: str, port: int) -> Receiver:
    """A webhook whose receiver is not there yet: another one has its port."""
    organisation = await scene.open_organisation(2)
    receiver = await scene.receiver(name)
    receiver.shut()
    receiver.port = port
    await scene.register(organisation, receiver)
    await scene.place(organisation, 5)
    return receiver


ERRORS = """
SELECT count(*) FROM webhook_attempts attempt JOIN webhooks webhook ON webhook.id = attempt.webhook_id
WHERE webhook.url LIKE '%/' || $1 AND attempt.error = $2
"""


async def _errors(scene: Scene, receiver_name: str, error: str) -> int:
    count: int = (await scene.fetch(ERRORS, receiver_name, error))[0][0]
    return count


async def _keep_ordering(scene: Scene, missing: Callable[[], list[str]]) -> None:
    """More orders until every fault has fired often enough: a receiver that acknowledges needs new events to err on."""
    for _ in range(60):
        if not missing():
            return
        for hook in scene.hooks[1:]:
            await scene.place(hook.organisation, 1)
        await asyncio.sleep(0.2)
    raise Trouble("; ".join(missing()))


SCENARIOS = (
    Scenario("wrong-answers", wrong_answers, within_s=90),
    Scenario("hanging-receivers", hanging, within_s=90, settings={**QUICK, "TONNE_WEBHOOK_TIME_SCALE": "0.01"}),
    Scenario("bad-certificates", bad_certificates, within_s=60),
)
