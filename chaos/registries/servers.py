"""Isometric and Puro on loopback as a process of its own, with books in a database of its own, behind a bad network."""

import argparse
import asyncio
import random
from pathlib import Path

from tests.support.registries.isometric_server import IsometricServer
from tests.support.registries.network import Fault, Network
from tests.support.registries.puro_server import PuroServer
from tonne.platform.db.database import Database
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import utc_now

# Begins a line about a request, or an answer, that is not what the interface of the registry says.
BREACH = "breach:"


class _RecordedNetwork(Network):
    """Writes each fault to a file, so that it is counted although the process is killed."""

    def __init__(self, rng: random.Random, arguments: argparse.Namespace) -> None:
        probability = {"GET": arguments.of_get, "POST": arguments.of_post}
        super().__init__(rng, probability=probability, patience_s=arguments.patience_s)
        self._record = arguments.record.open("ab", buffering=0)

    def choose(self, method: str) -> Fault | None:
        fault = super().choose(method)
        if fault is not None:
            self._record.write(f"{method} {fault}\n".encode())
        return fault

    def note_breach(self, breach: str) -> None:
        self._record.write(f"{BREACH} {breach}\n".encode())


async def _serve(arguments: argparse.Namespace) -> None:
    rng = random.Random(arguments.seed)
    network = _RecordedNetwork(rng, arguments)
    books = await Database(arguments.database_url, Settings()).open()
    isometric, puro = IsometricServer(books, utc_now, network), PuroServer(books, utc_now, network)
    port, other_port = arguments.ports
    async with network.serving(isometric.routes, port), network.serving(puro.routes, other_port):
        await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("database_url")
    parser.add_argument("record", type=Path)
    parser.add_argument("ports", type=int, nargs=2)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--of-get", type=float, required=True)
    parser.add_argument("--of-post", type=float, required=True)
    parser.add_argument("--patience-s", type=float, required=True)
    asyncio.run(_serve(parser.parse_args()))


if __name__ == "__main__":
    main()
