"""All scenarios. Importing a module registers its scenarios."""

# ruff: noqa: I001 - in the order in which they run
from chaos.delivery import kills, workers, outages, bad_receivers, changes, parked, isolation, load
from chaos.life import batches, kills as life_kills, load as life_load
from chaos.money import refunds, billing, card_billing, bank, lots, receipts, storm
from chaos.operations import attack, backups, database, jobs, visitors, upgrade
from chaos.failover import scenarios as failover
from chaos.alerts import scenarios as alerts
from chaos.registries import kill_test
from chaos.scenario import SCENARIOS

MODULES = (
    *(kills, workers, outages, bad_receivers, changes, parked, isolation, load),
    *(batches, life_kills, life_load),
    *(refunds, billing, card_billing, bank, lots, receipts, storm),
    *(database, backups, jobs, visitors, attack, upgrade),
    failover,
    alerts,
    kill_test,
)
__all__ = ["MODULES", "SCENARIOS"]
