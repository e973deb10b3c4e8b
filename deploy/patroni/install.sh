#!/usr/bin/env bash
# Installs Patroni (from PyPI, locked with hashes) into a folder of its own, and etcd and HAProxy (from Debian).
# Usage: deploy/patroni/install.sh FOLDER        for example /opt/patroni
set -euo pipefail
[ $# -eq 1 ] || { echo "usage: $0 FOLDER" >&2; exit 2; }
folder=$1
lock=$(cd "$(dirname "$0")/../.." && pwd)/requirements/failover.txt

# Debian puts some programs where only root has a path to them.
PATH=$PATH:/usr/sbin:/sbin
packages=()
command -v etcd >/dev/null || packages+=(etcd-server)
command -v haproxy >/dev/null || packages+=(haproxy)
if [ ${#packages[@]} -gt 0 ]; then
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
        echo "Missing programs. Run as root: apt-get install ${packages[*]}" >&2
        exit 1
    fi
    # RUNLEVEL=1: do not start the installed services.
    export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
    apt-get -qq update
    apt-get -qq install -y --no-install-recommends "${packages[@]}" >/dev/null
fi

# The copied lock marks a complete installation of exactly these versions.
if ! cmp -s "$lock" "$folder/installed.txt"; then
    "${PYTHON:-python3}" -m venv --clear "$folder"
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r "$lock"
    cp "$lock" "$folder/installed.txt"
fi
