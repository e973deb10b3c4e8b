"""The sample files of deploy/patroni are what the failover scenarios run with."""

import re

from chaos.failover.patroni_cluster import SAMPLE_PATHS, SAMPLE_PORTS, SAMPLES
from tests.architecture.source import ROOT

TEXT = "\n".join((SAMPLES / name).read_text() for name in ("patroni.yml", "node.env", "etcd.env", "haproxy.cfg"))


def test_every_path_and_port_that_is_replaced_is_in_a_sample() -> None:
    assert [path for path in SAMPLE_PATHS if path not in TEXT] == []
    assert [port for port in SAMPLE_PORTS if f":{port}" not in TEXT] == []


def test_every_address_is_one_of_the_three_machines_or_this_one() -> None:
    addresses = set(re.findall(r"\b\d+\.\d+\.\d+\.\d+\b", TEXT))
    assert addresses == {"10.0.0.11", "10.0.0.12", "10.0.0.13", "10.0.0.0", "127.0.0.1"}


def test_the_page_explains_every_file() -> None:
    page = (ROOT / "docs" / "failover.md").read_text(encoding="utf-8")
    assert [path.name for path in SAMPLES.iterdir() if path.name not in page] == []
