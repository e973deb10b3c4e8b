"""The faults, each with the one alert that it must raise. All are made outside Tonne; none writes a metric."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

import aiohttp

from chaos.alerts.monitoring import Monitoring
from chaos.alerts.watched import Service
from chaos.operations.embedded import SmallDisk
from chaos.receivers import Call, accept
from tests.integration.programs import find_program
from tests.support.processes import HOST, free_port

HEALTH_CHECKS_PER_S = 100
AT_ONCE = 24
# Of the time, the database does not run while it is slow.
STOPPED_S, RUNNING_S = 1.6, 0.4
NEARLY_FULL = 0.07
AHEAD_S = 60
FAIL = "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused'; END $$"
STOP_FAILING = "DROP FUNCTION fail CASCADE"
# As by a change of a table that is not committed. Filtered reads need this table, those of the queues do not.
LOCK_LINES = "LOCK TABLE order_lines IN ACCESS EXCLUSIVE MODE"


@dataclass(frozen=True, slots=True)
class Scene:
    service: Service
    monitoring: Monitoring
    disk: SmallDisk
    # All times of the rules are divided by it.
    factor: float


@dataclass(frozen=True, slots=True)
class AlertFault:
    """`make` repairs it at its end. `within_min` and `lasts_min` are minutes of the real rules."""

    name: str
    alert: str
    within_min: float
    make: Callable[[Scene], AbstractAsyncContextManager[None]]
    # How long it goes on after the alert: whatever else it raises belongs to the same fault.
    lasts_min: float
    labels: dict[str, str] = field(default_factory=dict)
    # With slower rules: the pauses of a job that fails cannot be made shorter.
    is_slow: bool = False


FAULTS: list[AlertFault] = []
Make = Callable[[Scene], AsyncIterator[None]]


def fault(
    name: str, alert: str, *, within_min: float, lasts_min: float = 5.0, is_slow: bool = False, **labels: str
) -> Callable[[Make], Make]:
    def register(make: Make) -> Make:
        made = contextlib.asynccontextmanager(make)
        FAULTS.append(AlertFault(name, alert, within_min, made, lasts_min, labels, is_slow))
        return make

    return register


@fault("database-stopped", "TonneDatabaseUnreachable", within_min=3)
async def database_stopped(scene: Scene) -> AsyncIterator[None]:
    postgres = scene.service.cluster.postgres
    await postgres.stop_hard()
    try:
        yield
    finally:
        await postgres.start()


@fault("orders-refused", "TonneOrdersAllFail", within_min=6)
async def orders_refused(scene: Scene) -> AsyncIterator[None]:
    """The database refuses every order, while reads succeed and proxies poll the health check."""
    cluster = scene.service.cluster
    await cluster.execute(FAIL)
    await cluster.execute("CREATE TRIGGER fault BEFORE INSERT ON orders EXECUTE FUNCTION fail()")
    polling = asyncio.create_task(_poll_health(cluster.port))
    try:
        yield
    finally:
        polling.cancel()
        await asyncio.gather(polling, return_exceptions=True)
        await cluster.execute(STOP_FAILING)


async def _poll_health(port: int) -> None:
    async with aiohttp.ClientSession(f"http://{HOST}:{port}") as http:
        while True:
            async with http.get("/health/ready") as found:
                await found.read()
            await asyncio.sleep(1 / HEALTH_CHECKS_PER_S)


@fault("worker-killed", "TonneWorkerMissing", within_min=4)
async def worker_killed(scene: Scene) -> AsyncIterator[None]:
    scene.service.processes["worker"].kill()
    try:
        yield
    finally:
        await asyncio.to_thread(scene.service.start, "worker")


@fault("api-killed", "TonneDown", within_min=5)
async def api_killed(scene: Scene) -> AsyncIterator[None]:
    scene.service.processes["api-2"].kill()
    try:
        yield
    finally:
        await asyncio.to_thread(scene.service.start, "api-2")


@fault("mail-server-refuses", "TonneMailFails", within_min=10)
async def mail_server_refuses(scene: Scene) -> AsyncIterator[None]:
    await scene.service.close_mail()
    try:
        yield
    finally:
        await scene.service.open_mail()


@fault("gateway-silent", "TonneGatewayFails", within_min=20)
async def gateway_silent(scene: Scene) -> AsyncIterator[None]:
    """It reads requests and closes their connections: nobody knows whether the cards were charged."""
    scene.service.gateway.stop_answering()
    try:
        yield
    finally:
        scene.service.gateway.answers = True


@fault("receiver-fails", "TonneWebhooksFail", within_min=70)
async def receiver_fails(scene: Scene) -> AsyncIterator[None]:
    receiver = scene.service.hook.receiver
    receiver.behaviour = _fail
    try:
        yield
    finally:
        receiver.behaviour = accept


async def _fail(call: Call) -> None:
    call.respond(500)


@fault("lock-held", "TonneDatabaseBlocked", within_min=5)
async def lock_held(scene: Scene) -> AsyncIterator[None]:
    """A session holds a lock that reads of orders need, and more of them arrive than there are connections."""
    service = scene.service
    async with service.cluster.holding(LOCK_LINES), aiohttp.ClientSession() as http:
        tasks = [asyncio.create_task(_read(service, http, number)) for number in range(AT_ONCE)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _read(service: Service, http: aiohttp.ClientSession, number: int) -> None:
    port = service.ports[("api-1", "api-2")[number % 2]][0]
    while True:
        await service.read(http, port, "status=complete&limit=5")
        await asyncio.sleep(0.1)


@fault("backup-two-days-old", "TonneBackupOld", within_min=5)
async def backup_old(scene: Scene) -> AsyncIterator[None]:
    """The last backup ended 51 hours ago, at the speed of the rules: its command ran with the clock of that time."""
    ago_s = 51 * 3600 / scene.factor
    await scene.service.run("record-run", "backup", wrapper=(find_program("faketime"), "-f", f"-{ago_s:.0f}s"))
    try:
        yield
    finally:
        await scene.service.run("record-run", "backup")


@fault("job-fails", "TonneJobFails", within_min=40, lasts_min=0.5, is_slow=True, job_name="send_mails")
async def job_fails(scene: Scene) -> AsyncIterator[None]:
    """The database refuses what the job that sends mail writes."""
    cluster = scene.service.cluster
    await cluster.execute(FAIL)
    await cluster.execute("CREATE TRIGGER fault BEFORE UPDATE ON mails EXECUTE FUNCTION fail()")
    try:
        yield
    finally:
        await cluster.execute(STOP_FAILING)


@fault("database-slow", "TonneRequestsSlow", within_min=30, lasts_min=0.5, is_slow=True)
async def database_slow(scene: Scene) -> AsyncIterator[None]:
    """The processes of the database are stopped most of the time, as on a machine that lacks CPU time.

    With slower rules: with the fast ones, each stop is as long as a transaction that blocks others.
    """
    slowing = asyncio.create_task(_slow_down(scene))
    try:
        yield
    finally:
        slowing.cancel()
        await asyncio.gather(slowing, return_exceptions=True)


async def _slow_down(scene: Scene) -> None:
    postgres = scene.service.cluster.postgres
    try:
        while True:
            postgres.freeze()
            await asyncio.sleep(STOPPED_S)
            postgres.resume()
            await asyncio.sleep(RUNNING_S)
    finally:
        postgres.resume()


@fault("disk-nearly-full", "TonneDiskFull", within_min=3)
async def disk_nearly_full(scene: Scene) -> AsyncIterator[None]:
    scene.disk.fill(NEARLY_FULL)
    try:
        yield
    finally:
        scene.disk.make_room()


@fault("clock-drift", "TonneClockDrift", within_min=15)
async def clock_drift(scene: Scene) -> AsyncIterator[None]:
    """A further machine with an api, whose clock is ahead."""
    ports = free_port(), free_port()
    wrapper = (find_program("faketime"), "-f", f"+{AHEAD_S}s")
    process = await asyncio.to_thread(scene.service.start_process, "api-3", ports, {}, wrapper)
    scene.monitoring.add_target(ports[1])
    try:
        yield
    finally:
        scene.monitoring.remove_target(ports[1])
        await asyncio.to_thread(process.stop)


async def roll(scene: Scene) -> None:
    """A rolling restart: every process is stopped as for an upgrade, and started again, one after the other."""
    for name in scene.service.ports:
        await asyncio.to_thread(scene.service.processes[name].stop)
        await asyncio.to_thread(scene.service.start, name)
