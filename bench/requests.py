"""The requests that the benchmarks send."""

import random

from bench.environment import Environment
from bench.load import PreparedRequest, post

METADATA = '{"invoice":"A-17","cost_centre":4711}'
# Tenants in random order: some requests meet at the stream of one organisation, as in production.
_RNG = random.Random(20261115)


def create_requests(environment: Environment, count: int = 5_000) -> list[PreparedRequest]:
    by_key = {
        tenant.key: post(
            "/v1/orders/by-estimate",
            tenant.key,
            f'{{"estimate_id":"{tenant.estimate_id}","metadata":{METADATA},"idempotency_key":"',
            '"}',
        )
        for tenant in environment.tenants
    }
    return [by_key[_RNG.choice(environment.tenants).key] for _ in range(count)]
