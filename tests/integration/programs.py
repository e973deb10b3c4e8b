"""The programs that the integration tests need. Run as a module, it installs those that are missing."""

import os
import shutil
import sys
from pathlib import Path

from tests.integration import node_packages
from tests.support.packages import install_packages

# Each program with its Debian package.
PACKAGES = {
    "nginx": "nginx",
    "promtool": "prometheus",
    "amtool": "prometheus-alertmanager",
    "faketime": "faketime",
    "node": "nodejs",
    "npm": "npm",
    "haproxy": "haproxy",
    "pgbouncer": "pgbouncer",
    "systemd-analyze": "systemd",
    "pgbackrest": "pgbackrest",
    "postgres": "postgresql-15",
    "pdfsig": "poppler-utils",
    "qpdf": "qpdf",
    "softhsm2-util": "softhsm2",
    "go": "golang-go",
}
# Packages without a program: a file that each has.
LIBRARIES = {"/usr/share/gocode/src/golang.org/x/mod/go.mod": "golang-golang-x-mod-dev"}
# Debian puts some programs where only root has a path to them.
PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin", "/usr/lib/postgresql/15/bin"])


def find_program(name: str) -> str:
    """The path of an installed program. A missing one fails the test: it is never skipped."""
    found = shutil.which(name, path=PATH)
    assert found is not None, f"{name} is not installed: run make test-integration, which installs it."
    return found


def install_missing() -> str | None:
    """Install what is missing. Returns what to do if that is not possible."""
    packages = [package for program, package in PACKAGES.items() if shutil.which(program, path=PATH) is None]
    packages += [package for path, package in LIBRARIES.items() if not Path(path).exists()]
    if not packages:
        return None
    failure = f"The integration tests need programs that are not installed: apt-get install {' '.join(packages)}"
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return failure
    sys.stderr.write(f"Installing {', '.join(packages)} for the integration tests ...\n")
    # RUNLEVEL=1: do not start the installed services.
    problem = install_packages(*packages, RUNLEVEL="1")
    return None if problem is None else f"{failure}\n{problem}"


if __name__ == "__main__":
    sys.exit(install_missing() or node_packages.install(find_program("npm")))
