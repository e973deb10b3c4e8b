"""Real faults, one after another, under real Prometheus and Alertmanager: each raises exactly its alert."""

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator

from chaos.alerts.faults import FAULTS, AlertFault, Scene, roll
from chaos.alerts.monitoring import Monitoring, Notification
from chaos.alerts.watched import Service
from chaos.cluster import Cluster
from chaos.model import NotAsExpected
from chaos.operations.embedded import SmallDisk
from chaos.scenario import scenario

FAMILY, SHORT_FAMILY = "alerts", "alerts-short"
SHORT = ("worker-killed", "backup-two-days-old", "database-stopped")
# How many times faster the rules are. Faster, a mail server is tried less often than the rule about it looks back. On a
# machine that is busy with other things, processes start and answer too late for it: then choose less.
FACTOR = float(os.environ.get("CHAOS_FACTOR", "30"))
# The start of a process, and the pauses of a job that fails, take seconds that cannot be made shorter, so the rules
# must be slower: the job must have failed often enough long before it counts as stuck.
RESTART_FACTOR = 6.0
QUIET_MIN = 30.0
# What Tonne's own intervals add to a limit, which do not get shorter: queues are read every five seconds.
ALLOWANCE_S = 8.0
# An alert goes on for up to 35 minutes, and a receiver that failed for long is tried again after an hour or two.
ENDS_WITHIN_MIN = 150.0
DISK_MB = 4
# The doctor runs hourly.
DOCTOR_MIN = 60.0
SETTINGS = {"webhook_time_scale": 1 / FACTOR, "payment_time_scale": 1 / FACTOR, "webhook_timeout_s": 10}
# Orders that cause events within the next seconds: to stop the service may take as long on a busy machine.
UNDER_WAY = """
SELECT id || ' is ' || status FROM orders
WHERE (mode = 'test' AND status = 'retiring')
   OR (status IN ('placed', 'paid', 'retiring') AND next_attempt_at < now() + interval '15 seconds')
"""
# Names of faults: only these.
CHOSEN = os.environ.get("CHAOS_FAULTS", "").split() or [fault.name for fault in FAULTS]


@scenario("alerts", within_s=2400.0, settings=SETTINGS, family=FAMILY, api=False)
async def alerts(cluster: Cluster) -> None:
    """A quiet time, every fault, another quiet time, and a rolling restart."""
    async with _scene(cluster, FACTOR) as scene:
        run = _Run(scene)
        await run.be_quiet(QUIET_MIN)
        for fault in FAULTS:
            if not fault.is_slow and fault.name in CHOSEN:
                await run.play(fault)
        await run.be_quiet(QUIET_MIN)
        await scene.monitoring.close()
        monitoring = Monitoring(cluster.folder / "slower", RESTART_FACTOR, scene.service.targets)
        await monitoring.open()
        try:
            run = _Run(Scene(scene.service, monitoring, scene.disk, RESTART_FACTOR))
            for fault in FAULTS:
                if fault.is_slow and fault.name in CHOSEN:
                    await run.play(fault)
            await run.restart()
        finally:
            await monitoring.close()


@scenario("three-alerts", within_s=180.0, settings=SETTINGS, family=SHORT_FAMILY, api=False)
async def three_alerts(cluster: Cluster) -> None:
    """Without the quiet times, and without waiting until the last alert has ended."""
    async with _scene(cluster, FACTOR) as scene:
        run = _Run(scene)
        chosen = {fault.name: fault for fault in FAULTS}
        for name in SHORT:
            await run.play(chosen[name], is_last=name == SHORT[-1])


@contextlib.asynccontextmanager
async def _scene(cluster: Cluster, factor: float) -> AsyncIterator[Scene]:
    cluster.log_errors_expected = True
    disk = SmallDisk(cluster.folder / "disk", DISK_MB)
    cluster.cleanups.append(disk.close)
    async with contextlib.AsyncExitStack() as resources:
        service = Service(cluster, resources)
        await service.open(disk.folder, disk.wrapper)
        monitoring = Monitoring(cluster.folder / "monitoring", factor, service.targets)
        await monitoring.open()
        resources.push_async_callback(monitoring.close)
        doctor = asyncio.create_task(_run_doctor(service, DOCTOR_MIN * 60 / factor))
        async with service.customers():
            yield Scene(service, monitoring, disk, factor)
        doctor.cancel()
        await asyncio.gather(doctor, return_exceptions=True)
        # Otherwise they cause events after all have been delivered.
        await cluster.until_empty("no order is under way", UNDER_WAY, 40.0)
        await cluster.until_delivered()
        await service.stop()
        cluster.notes += [f"{count} x {outcome}" for outcome, count in sorted(service.answers.items())]


async def _run_doctor(service: Service, every_s: float) -> None:
    """As its timer does. While a fault is made it may fail: the timer tries again the next time."""
    while True:
        await asyncio.sleep(every_s)
        with contextlib.suppress(NotAsExpected):
            await service.run("doctor")


class _Run:
    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._cluster = scene.service.cluster
        self._monitoring = scene.monitoring

    async def play(self, fault: AlertFault, *, is_last: bool = False) -> None:
        """Make the fault until its alert has arrived, and some time more; repair it, and wait until all is quiet."""
        fired = self._cluster.announce(fault.name)
        seen = len(self._monitoring.notifications)
        raised_s: float | None = None
        limit_s = self._seconds(fault.within_min) + ALLOWANCE_S
        async with fault.make(self._scene):
            made = time.monotonic()
            with contextlib.suppress(NotAsExpected):
                raised = await self._until_notified(fault.alert, "firing", made, limit_s)
                raised_s = raised.at_s - made
            await asyncio.sleep(self._seconds(fault.lasts_min))
        repaired = time.monotonic()
        resolved_s: float | None = None
        if raised_s is None:
            self._cluster.problems.append(f"{fault.name}: {fault.alert} did not come within {limit_s:.0f} s")
        else:
            fired(all(raised.labels.get(name) == value for name, value in fault.labels.items()))
        if not is_last:
            if raised_s is not None:
                resolved_s = await self._until_resolved(fault, repaired)
            await self._until_nothing_is_active(fault.name)
        self._require_only({fault.alert}, fault.name, seen)
        _print(f"{fault.name:<22} {fault.alert:<28} {_text(raised_s)} {_text(resolved_s)}")

    async def _until_resolved(self, fault: AlertFault, repaired_s: float) -> float | None:
        within_s = self._seconds(ENDS_WITHIN_MIN) + ALLOWANCE_S
        try:
            ended = await self._until_notified(fault.alert, "resolved", repaired_s, within_s)
        except NotAsExpected:
            self._cluster.problems.append(f"{fault.name}: {fault.alert} did not end within {within_s:.0f} s")
            return None
        return ended.at_s - repaired_s

    async def be_quiet(self, minutes: float) -> None:
        seen = len(self._monitoring.notifications)
        await asyncio.sleep(self._seconds(minutes))
        self._require_only(set(), "the quiet time", seen)
        await self._until_nothing_is_active("the quiet time")
        _print(f"{'quiet':<22} {'none':<28}")

    async def restart(self) -> None:
        """A rolling restart, while the rules are slower."""
        fired = self._cluster.announce("rolling restart")
        seen = len(self._monitoring.notifications)
        await roll(self._scene)
        fired()
        await asyncio.sleep(self._seconds(5))
        self._require_only(set(), "the rolling restart", seen)
        await self._until_nothing_is_active("the rolling restart")
        _print(f"{'rolling restart':<22} {'none':<28}")

    def _seconds(self, minutes: float) -> float:
        return minutes * 60 / self._scene.factor

    async def _until_notified(self, alert: str, status: str, since_s: float, within_s: float) -> Notification:
        found: list[Notification] = []

        def arrived() -> bool:
            later = (each for each in self._monitoring.notifications if each.at_s > since_s)
            found[:] = [each for each in later if (each.alert, each.status) == (alert, status)]
            return bool(found)

        await self._cluster.until(arrived, f"{alert} is {status}", within_s)
        return found[0]

    async def _until_nothing_is_active(self, after: str) -> None:
        """Alerts that are silenced must end too: they would be sent as soon as their cause has ended."""
        deadline = time.monotonic() + self._seconds(60)
        while active := await self._monitoring.active():
            if time.monotonic() > deadline:
                self._cluster.problems.append(f"after {after} there is still {', '.join(active)}")
                return
            await asyncio.sleep(0.5)

    def _require_only(self, alerts: set[str], during: str, seen: int) -> None:
        """Also sent to the right receiver."""
        for each in self._monitoring.notifications[seen:]:
            if each.alert not in alerts and each.status == "firing":
                labels = ", ".join(f"{name}={value}" for name, value in sorted(each.labels.items()))
                self._cluster.problems.append(f"{during} raised {each.alert} too ({labels})")
            self._cluster.require(each.to == f"{each.labels['severity']}s", f"{each.alert} was sent to {each.to}")


def _print(text: str) -> None:
    print(f"       {text}")
    sys.stdout.flush()


def _text(seconds: float | None) -> str:
    return "never" if seconds is None else f"{seconds:5.1f} s"
