"""The database hangs, its disk is full, or the key that opens the secrets in it is lost."""

import asyncio
import contextlib
import time

import aiohttp

from chaos.cluster import SHORT_TIMES, Cluster
from chaos.model import Hook, NotAsExpected, Refused
from chaos.operations.embedded import Embedded, SmallDisk
from chaos.scenario import scenario
from tonne.platform.keys.secret_box import KEY_FILE

FROZEN_S = 9.0
STATEMENT_TIMEOUT_S = 3.0
# The api gives up a little after the time limit of a statement; the rest is the machine's.
ANSWERED_WITHIN_S = STATEMENT_TIMEOUT_S + 2.0 + 2.0
READY_ANSWERED_WITHIN_S = 2.0
# Delivery resumes within two seconds of the database's return; then the requests themselves take time.
RESUMED_WITHIN_S = 4.0
DISK_MB = 160
RECOVERED_WITHIN_S = 30.0


@scenario("frozen-database", settings={**SHORT_TIMES, "statement_timeout_s": STATEMENT_TIMEOUT_S}, quick=True)
async def frozen_database(cluster: Cluster) -> None:
    """PostgreSQL hangs without closing a connection: every request is answered, and everything resumes afterwards."""
    cluster.log_errors_expected = True
    unavailable = cluster.announce("requests answered with 503 while the database hangs", 10)
    not_ready = cluster.announce("not ready while the database hangs")
    hook = await cluster.open_hook("receiver")
    cluster.start_worker()
    await cluster.place(hook.organisation, 5)
    await cluster.until_delivered()
    await cluster.append_events(hook.organisation.scopes, 20)
    cluster.postgres.freeze()
    try:
        started = time.monotonic()
        while time.monotonic() - started < FROZEN_S:
            answers = await asyncio.gather(*(_read(cluster, hook, number) for number in range(5)))
            for status, seconds, retry_after in answers:
                cluster.require(status == 503, f"a request was answered with {status} instead of 503")
                cluster.require(retry_after, "a 503 has no Retry-After")
                cluster.require(seconds < ANSWERED_WITHIN_S, f"a request was answered after {seconds:.1f} s")
                unavailable(status == 503)
            status, seconds, _ = await cluster.status_of("GET", "/health/ready")
            not_ready(status == 503)
            cluster.require(seconds < READY_ANSWERED_WITHIN_S, f"readiness was answered after {seconds:.1f} s")
            status, _, _ = await cluster.status_of("GET", "/health/live")
            cluster.require(status == 200, "the process does not say that it is alive")
    finally:
        cluster.postgres.resume()
    resumed = time.monotonic()
    await cluster.until_delivered()
    took_s = time.monotonic() - resumed
    cluster.notes.append(f"delivery resumed {took_s:.1f} s after the database")
    cluster.require(took_s < RESUMED_WITHIN_S, f"delivery resumed only {took_s:.1f} s after the database")
    await cluster.place(hook.organisation, 5)
    await cluster.until_delivered()


async def _read(cluster: Cluster, hook: Hook, number: int) -> tuple[int, float, bool]:
    headers = {"Authorization": f"Bearer {hook.organisation.key}"}
    method, path = (("GET", "/v1/orders"), ("GET", "/v1/events"), ("POST", "/v1/orders/by-mass"))[number % 3]
    body = {"mass": {"amount": "1", "unit": "kg"}} if method == "POST" else None
    status, seconds, found = await cluster.status_of(method, path, headers=headers, json=body)
    return status, seconds, "Retry-After" in found


@scenario("full-disk", within_s=120)
async def full_disk(cluster: Cluster) -> None:
    """The disk of the embedded database is full. Nothing confirmed is lost, and it recovers once there is room."""
    cluster.log_errors_expected = True
    filled = cluster.announce("disk filled", 2)
    refused = cluster.announce("orders refused while the disk is full", 2)
    disk = SmallDisk(cluster.folder / "disk", DISK_MB)
    try:
        embedded = Embedded(cluster, disk.folder, disk.seen_as, disk.wrapper)
        await embedded.replace()
        hook = await cluster.open_hook("receiver")
        await cluster.place(hook.organisation, 10)
        for _ in range(2):
            filled(disk.fill() > 0)
            refused(await _order_until_refused(cluster, hook))
            await asyncio.sleep(3.0)
            disk.make_room()
            await _until_an_order_is_accepted(cluster, hook)
            await cluster.until_delivered(RECOVERED_WITHIN_S)
        await embedded.hold_database()
        await embedded.stop()
    except BaseException:
        disk.close()
        raise
    cluster.cleanups.append(disk.close)


async def _order_until_refused(cluster: Cluster, hook: Hook) -> int:
    """Orders that are confirmed must exist afterwards, so they are recorded; an error must be a 503."""
    scope = hook.organisation.scopes[0]
    for _ in range(3000):
        body = {"mass": {"amount": "1", "unit": "kg"}, "metadata": {"padding": "x" * 400}}
        try:
            order = await cluster.call(hook.organisation, "POST", "/v1/orders/by-mass", body)
        except Refused as error:
            cluster.require(error.status == 503, f"with a full disk the api answered {error.status}: {error}")
            return 1
        except (aiohttp.ClientError, TimeoutError):
            return 1
        cluster.placed[scope.account_id, order["idempotency_key"]] = order["id"]
    raise NotAsExpected("3,000 orders were accepted with a full disk")


async def _until_an_order_is_accepted(cluster: Cluster, hook: Hook) -> None:
    started = time.monotonic()
    await cluster.place_one(hook.organisation, hook.organisation.scopes[0])
    took_s = time.monotonic() - started
    cluster.notes.append(f"orders were accepted {took_s:.1f} s after there was room")
    cluster.require(took_s < RECOVERED_WITHIN_S, f"orders were accepted only {took_s:.1f} s after there was room")


@scenario("lost-key-file")
async def lost_key_file(cluster: Cluster) -> None:
    """Without its key the service must not start: it could neither sign deliveries nor notice that it cannot."""
    refused = cluster.announce("start refused", 2)
    data = cluster.folder / "data"
    embedded = Embedded(cluster, data, data)
    await embedded.replace()
    hook = await cluster.open_hook("receiver")
    await cluster.place(hook.organisation, 5)
    await cluster.until_delivered()
    await embedded.stop()
    key = data / KEY_FILE
    kept = key.read_bytes()
    key.unlink()
    refused(await _refuses(cluster, embedded, "key"))
    cluster.require(not key.exists(), "a new key was created although the database has secrets of the old one")
    key.write_bytes(kept[::-1])
    key.chmod(0o600)
    refused(await _refuses(cluster, embedded, "key"))
    key.write_bytes(kept)
    await embedded.start()
    await cluster.place(hook.organisation, 5)
    await cluster.until_delivered()
    await embedded.hold_database()
    await embedded.stop()


async def _refuses(cluster: Cluster, embedded: Embedded, words: str) -> bool:
    """The start fails soon, with a sentence that names the key."""
    process = embedded.run()
    try:
        code = await asyncio.to_thread(process.wait, 30.0)
    finally:
        process.kill()
    lines = process.log.read_text().splitlines()
    cluster.require(code not in {0, None}, f"the service started without its key ({code})")
    said = bool(lines) and words in lines[-1]
    cluster.require(said, f"the message does not name the {words}: {lines[-1:]}")
    with contextlib.suppress(IndexError):
        cluster.require("Traceback" not in lines[-1], "the message is a traceback")
    return code not in {0, None}
