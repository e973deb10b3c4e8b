"""The primary changes, dies, hangs or is cut off, etcd is lost, or replicas lag, under load on a Patroni cluster.

Clients must get nothing but successes and 503 with Retry-After, for a limited time, and the checker finds everything.
"""

import asyncio
from collections.abc import Mapping
from types import MappingProxyType

from chaos.cluster import SHORT_TIMES, Cluster
from chaos.failover.clients import Clients
from chaos.scenario import scenario

FAMILY = "failover"
# Polls are so far apart that only notifications explain prompt deliveries.
SETTINGS = {**SHORT_TIMES, "worker_poll_s": "20"}
WITHIN_S = 400.0
SWITCHOVERS = 3
# The targets: seconds without a success, for a client, beyond the ttl of Patroni's lease.
SWITCHOVER_S = 3.0
KILLED_S = 2.0
FROZEN_S = 5.0
# The same, and etcd may lose its leader with the machine: the next one is elected and renews all leases, for its
# election timeout of a second more.
PARTITION_S = FROZEN_S + 3.0
# A frozen replica is dropped after wal_sender_timeout; Patroni notices in its next loop. The rest is the machine's.
REPLICA_DROPPED_S = 5.0 + 5.0 + 5.0
ALL_DELIVERED_WITHIN_S = 60.0
CREATE_CUT_OFF = "CREATE TABLE cut_off (at timestamptz NOT NULL DEFAULT clock_timestamp())"
# Until shortly before the lease of the cut-off primary ends.
CUT_OFF_TRIES, CUT_OFF_WITHIN_S = 5, 3.0
# Longer than Patroni waits for etcd before it stops the primary, and than the ttl.
WITHOUT_ETCD_S = 30.0
# How long replicas lag before the primary dies. A commit that waits for a replica has then exceeded its time limit.
LAG_S = 8.0
LAG_SETTINGS = {**SETTINGS, "statement_timeout_s": "1"}
# The lag lasts: neither side notices that the connection between them hangs.
SLOW_TO_NOTICE = {"postgresql": {"parameters": {"wal_sender_timeout": "60s", "wal_receiver_timeout": "60s"}}}


@scenario("failover-switchover", within_s=WITHIN_S, settings=SETTINGS, family=FAMILY)
async def switchover(cluster: Cluster) -> None:
    """An operator moves the primary, for example before maintenance."""
    fired = cluster.announce("switchover", SWITCHOVERS)
    await cluster.patroni.restore()
    async with Clients(cluster).running() as clients:
        for _ in range(SWITCHOVERS):
            async with clients.measured("switchover", SWITCHOVER_S):
                await cluster.patroni.switchover()
                fired()
            stopped, promoted = cluster.patroni.last_switchover()
            first, last = ((at - promoted).total_seconds() for at in clients.back_at())
            cluster.notes.append(
                f"PostgreSQL itself was away for {(promoted - stopped).total_seconds():.1f} s; clients succeeded again "
                f"{first:.1f} to {last:.1f} s after the promotion"
            )
            await clients.until_notified()
            await cluster.patroni.until_healthy()
    await cluster.until_delivered(ALL_DELIVERED_WITHIN_S)


@scenario("failover-killed", within_s=WITHIN_S, settings=SETTINGS, family=FAMILY)
async def killed(cluster: Cluster) -> None:
    """The machine of the primary loses its power, and returns later."""
    fired = cluster.announce("primary and its Patroni killed")
    await cluster.patroni.restore()
    async with Clients(cluster).running() as clients:
        primary = await cluster.patroni.primary()
        async with clients.measured("SIGKILL", await cluster.patroni.ttl_s() + KILLED_S):
            primary.kill()
            fired()
        await clients.until_notified()
        primary.patroni.start()
        await cluster.patroni.until_healthy()
    await cluster.until_delivered(ALL_DELIVERED_WITHIN_S)


@scenario("failover-postgres-killed", within_s=WITHIN_S, settings=SETTINGS, family=FAMILY)
async def postgres_killed(cluster: Cluster) -> None:
    """PostgreSQL crashes on a machine that is otherwise well: Patroni starts it again, or lets a replica take over."""
    fired = cluster.announce("PostgreSQL of the primary killed")
    await cluster.patroni.restore()
    async with Clients(cluster).running() as clients:
        primary = await cluster.patroni.primary()
        async with clients.measured("SIGKILL of PostgreSQL", await cluster.patroni.ttl_s() + KILLED_S):
            primary.kill_postgres()
            fired()
        await clients.until_notified()
        await cluster.patroni.until_healthy()
    await cluster.until_delivered(ALL_DELIVERED_WITHIN_S)


@scenario("failover-frozen", within_s=WITHIN_S, settings=SETTINGS, family=FAMILY)
async def frozen(cluster: Cluster) -> None:
    """The machine of the primary hangs with all its connections open, and continues when there is another primary."""
    fired = cluster.announce("primary and its Patroni frozen")
    await cluster.patroni.restore()
    async with Clients(cluster).running() as clients:
        primary = await cluster.patroni.primary()
        async with clients.measured("SIGSTOP", await cluster.patroni.ttl_s() + FROZEN_S):
            primary.freeze()
            fired()
        await clients.until_notified()
        primary.resume()
        await cluster.patroni.until_healthy()
    await cluster.until_delivered(ALL_DELIVERED_WITHIN_S)


@scenario("failover-partition", within_s=WITHIN_S, settings=SETTINGS, family=FAMILY)
async def partition(cluster: Cluster) -> None:
    """The machine of the primary is cut off from etcd, the replicas and the clients, and everything on it runs on."""
    fired = cluster.announce("primary cut off")
    tried = cluster.announce("commits tried on the cut-off machine", 2)
    patroni = cluster.patroni
    await patroni.restore()
    async with Clients(cluster).running() as clients:
        primary = await patroni.primary()
        process = primary.patroni.process
        cluster.require(await patroni.commits_on(primary, CREATE_CUT_OFF, 10.0), "the primary accepts no local client")
        async with clients.measured("partition", await patroni.ttl_s() + PARTITION_S):
            patroni.cut_off(primary)
            fired()
            # Nobody could find what a primary confirms whose replicas do not have it.
            for _ in range(CUT_OFF_TRIES):
                is_committed = await patroni.commits_on(primary, "INSERT INTO cut_off DEFAULT VALUES", CUT_OFF_WITHIN_S)
                cluster.require(not is_committed, "the cut-off primary confirmed a commit")
                tried()
        await clients.until_notified()
        cluster.require(await patroni.primary() is not primary, "the cut-off machine is still the primary")
        cluster.require(primary.patroni.process == process, "Patroni did not run on")
        patroni.reconnect(primary)
        await patroni.until_healthy()
        async with patroni.connection() as connection:
            cluster.require(await connection.fetchval("SELECT count(*) FROM cut_off") == 0, "its commits were kept")
            await connection.execute("DROP TABLE cut_off")
    await cluster.until_delivered(ALL_DELIVERED_WITHIN_S)


@scenario("failover-multi-host", within_s=WITHIN_S, settings=SETTINGS, family=FAMILY)
async def multi_host(cluster: Cluster) -> None:
    """The primary hangs, and there is no HAProxy: the URL names all hosts."""
    fired = cluster.announce("primary and its Patroni frozen")
    await cluster.patroni.restore()
    cluster.settings["database_url"] = cluster.patroni.multi_host_url(cluster.database)
    if cluster.api is not None:
        cluster.api.kill()
    await cluster.start_api()
    async with Clients(cluster).running() as clients:
        async with clients.measured("switchover", SWITCHOVER_S):
            await cluster.patroni.switchover()
        await cluster.patroni.until_healthy()
        primary = await cluster.patroni.primary()
        async with clients.measured("SIGSTOP", await cluster.patroni.ttl_s() + FROZEN_S):
            primary.freeze()
            fired()
        await clients.until_notified()
        primary.resume()
        await cluster.patroni.until_healthy()
    await cluster.until_delivered(ALL_DELIVERED_WITHIN_S)


@scenario("failover-etcd-lost", within_s=WITHIN_S, settings=SETTINGS, family=FAMILY)
async def etcd_lost(cluster: Cluster) -> None:
    """Without etcd and without failsafe mode, Patroni makes the primary read-only until etcd is back."""
    fired = cluster.announce("all of etcd killed")
    refused = cluster.announce("requests refused without etcd")
    patroni = cluster.patroni
    await patroni.restore()
    await patroni.configure({"failsafe_mode": False})
    async with Clients(cluster).running() as clients:
        # The members have applied the change.
        await asyncio.sleep(2 * float((await patroni.configuration() or {})["loop_wait"]))
        async with clients.measured("etcd killed", WITHOUT_ETCD_S + await patroni.ttl_s()):
            for member in patroni.members:
                member.etcd.reap()
            fired()
            await asyncio.sleep(WITHOUT_ETCD_S)
            refused(clients.statuses["503"])
            for member in patroni.members:
                member.etcd.start()
        await clients.until_notified()
        await patroni.until_healthy()
    await cluster.until_delivered(ALL_DELIVERED_WITHIN_S)


@scenario("failover-etcd-failsafe", within_s=WITHIN_S, settings=SETTINGS, family=FAMILY)
async def etcd_failsafe(cluster: Cluster) -> None:
    """Without etcd, but in failsafe mode, clients notice nothing."""
    fired = cluster.announce("all of etcd killed")
    patroni = cluster.patroni
    await patroni.restore()
    async with Clients(cluster).running() as clients:
        primary = await patroni.primary()
        async with clients.measured("etcd killed", SWITCHOVER_S):
            for member in patroni.members:
                member.etcd.reap()
            fired()
            await asyncio.sleep(WITHOUT_ETCD_S)
            for member in patroni.members:
                member.etcd.start()
        cluster.require(clients.statuses["503"] == 0, f"{clients.statuses['503']} requests were refused")
        await patroni.until_healthy()
        cluster.require(await patroni.primary() is primary, "the primary changed")
    await cluster.until_delivered(ALL_DELIVERED_WITHIN_S)


@scenario("failover-replica-frozen", within_s=WITHIN_S, settings=SETTINGS, family=FAMILY)
async def replica_frozen(cluster: Cluster) -> None:
    """The synchronous replica hangs: commits wait until the primary drops it and Patroni chooses the other one."""
    fired = cluster.announce("synchronous replica and its Patroni frozen")
    patroni = cluster.patroni
    await patroni.restore()
    async with Clients(cluster).running() as clients:
        primary = await patroni.primary()
        replica = await patroni.synchronous_replica()
        async with clients.measured("SIGSTOP of the replica", REPLICA_DROPPED_S):
            replica.freeze()
            fired()
            await patroni.until_replaced(replica)
        await clients.until_notified()
        replica.resume()
        await patroni.until_healthy()
        cluster.require(await patroni.primary() is primary, "the primary changed")
    await cluster.until_delivered(ALL_DELIVERED_WITHIN_S)


@scenario("failover-lag-synchronous", within_s=WITHIN_S, settings=LAG_SETTINGS, family=FAMILY)
async def lag_synchronous(cluster: Cluster) -> None:
    """Replicas lag when the primary dies. Nothing is confirmed that the new primary does not have."""
    await _kill_with_lag(cluster)


@scenario("failover-lag-asynchronous", within_s=WITHIN_S, settings=LAG_SETTINGS, family=FAMILY)
async def lag_asynchronous(cluster: Cluster) -> None:
    """The same without synchronous replication: what was confirmed during the lag is lost, and nothing else is."""
    cluster.losses_expected = True
    lost = cluster.announce("confirmed orders lost")
    changes = {"synchronous_mode": False, "maximum_lag_on_failover": 1 << 30}
    await _kill_with_lag(cluster, changes)
    found = {row["id"] for row in await cluster.fetch("SELECT id FROM orders")}
    lost(sum(order_id not in found for order_id in cluster.placed.values()))


async def _kill_with_lag(cluster: Cluster, changes: Mapping[str, object] = MappingProxyType({})) -> None:
    lagging = cluster.announce("replicas lag", 2)
    fired = cluster.announce("primary and its Patroni killed")
    patroni = cluster.patroni
    await patroni.restore()
    await patroni.configure({**SLOW_TO_NOTICE, **changes})
    await patroni.until_healthy()
    async with Clients(cluster).running() as clients:
        # The members have applied the changes.
        await asyncio.sleep(2 * float((await patroni.configuration() or {})["loop_wait"]))
        primary = await patroni.primary()
        async with clients.measured("SIGKILL after a lag", LAG_S + await patroni.ttl_s() + KILLED_S):
            lagging(primary.freeze_senders())
            await asyncio.sleep(LAG_S)
            primary.kill()
            fired()
        await clients.until_notified()
        primary.patroni.start()
        await patroni.until_healthy()
    await cluster.until_delivered(ALL_DELIVERED_WITHIN_S)
