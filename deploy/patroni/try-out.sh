#!/usr/bin/env bash
# Starts three etcd, three PostgreSQL with Patroni, and HAProxy on this machine, with the files of this folder, and
# prints the URLs and commands to try. Ctrl-C stops everything and removes its files.
# Needs `make setup`, and Debian or a system with etcd and haproxy installed.
set -euo pipefail
cd "$(dirname "$0")/../.."
exec .venv/bin/python -m chaos.failover.try_out
