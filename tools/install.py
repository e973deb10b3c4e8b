"""`python tools/install.py FOLDER LOCK …`: make an environment and install locked packages and this repository.

Needs nothing but Python with `venv`: uv, which installs far faster than pip, is itself installed by the pip that Python
brings along. Packages are fetched from where pip is configured to fetch them.
"""

import ast
import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
UV_LOCK = ROOT / "requirements" / "uv.txt"
SOURCES = ("src", "clients/verify/src", "clients/python/src", "clients/conformance/src")
# pip's option, and uv's for each of its values.
OPTIONS = {
    "index-url": "--default-index",
    "extra-index-url": "--index",
    "find-links": "--find-links",
    "trusted-host": "--allow-insecure-host",
}
SWITCHES = {"no-index": "--no-index"}
VARIABLES = {"cert": "SSL_CERT_FILE", "proxy": "ALL_PROXY", "default-timeout": "UV_HTTP_TIMEOUT"}
# With one of these set, uv is configured by itself.
OWN_VARIABLES = (
    "UV_DEFAULT_INDEX",
    "UV_INDEX",
    "UV_INDEX_URL",
    "UV_EXTRA_INDEX_URL",
    "UV_FIND_LINKS",
    "UV_CONFIG_FILE",
)
COMMAND = """#!{python}
import sys

from tonne.apps.cli.main import main

sys.exit(main())
"""


class InstallFailed(Exception):
    """The message says what to do."""


def install(environment: Path, locks: list[str]) -> None:
    python = environment / "bin" / "python"
    if not python.exists():
        _run([sys.executable, "-m", "venv", "--without-pip", str(environment)])
    pip = _pip(python)
    uv = environment / "bin" / "uv"
    if not uv.exists():
        _run([*pip, "install", "--quiet", "--quiet", "--no-compile", "--require-hashes", "-r", str(UV_LOCK)])
    command = [str(uv), "pip", "install", "--quiet", "--python", str(python), "--require-hashes"]
    options, variables = _configuration(pip)
    requirements = [part for lock in locks for part in ("-r", lock)]
    _run([*command, *options, *requirements], {**os.environ, **variables})
    _link(environment)


def _pip(python: Path) -> list[str]:
    """The command of the pip that Python brings along. It runs from its wheel: installing it would take seconds."""
    folders = [Path(os.__file__).parent / "ensurepip" / "_bundled", sysconfig.get_config_var("WHEEL_PKG_DIR")]
    for folder in filter(None, [*folders, "/usr/share/python-wheels"]):
        for wheel in sorted(Path(folder).glob("pip-*.whl")):
            return [str(python), f"{wheel}/pip", "--disable-pip-version-check"]
    raise InstallFailed("Python's ensurepip module is missing: install it (Debian: python3-venv).")


def _configuration(pip: list[str]) -> tuple[list[str], dict[str, str]]:
    """Options and environment variables that make uv fetch packages from where pip fetches them."""
    # Every package is pinned by hash, so that any index may provide it.
    options = ["--index-strategy", "unsafe-best-match"]
    if any(name in os.environ for name in OWN_VARIABLES):
        return options, {}
    configured = _read(subprocess.run([*pip, "config", "list"], capture_output=True, check=True, text=True).stdout)
    for name, option in OPTIONS.items():
        for value in filter(_is_there, configured.get(name, "").split()):
            options += [option, value]
    options += [option for name, option in SWITCHES.items() if configured.get(name, "").lower() in {"1", "true", "yes"}]
    variables = {
        variable: configured[name]
        for name, variable in VARIABLES.items()
        if name in configured and variable not in os.environ
    }
    return options, variables


def _read(listed: str) -> Mapping[str, str]:
    """What `pip config list` prints, without the sections: variables precede `install`, which precedes `global`."""
    found: dict[str, dict[str, str]] = {}
    for section, name, value in _settings(listed):
        found.setdefault(section, {})[name] = value
    return found.get("global", {}) | found.get("install", {}) | found.get(":env:", {})


def _settings(listed: str) -> Iterator[tuple[str, str, str]]:
    for line in listed.splitlines():
        key, is_setting, value = line.partition("=")
        section, _, name = key.rpartition(".")
        if is_setting:
            yield section, name, str(ast.literal_eval(value))


def _is_there(location: str) -> bool:
    """pip ignores folders that do not exist; uv refuses them."""
    path = location.removeprefix("file://")
    return not path.startswith("/") or Path(path).is_dir()


def _link(environment: Path) -> None:
    """Import this repository from where it is, and provide the command `tonne`."""
    packages = next(environment.glob("lib/python*/site-packages"))
    (packages / "tonne-checkout.pth").write_text("".join(f"{ROOT / source}\n" for source in SOURCES), encoding="utf-8")
    command = environment / "bin" / "tonne"
    command.write_text(COMMAND.format(python=environment.resolve() / "bin" / "python"), encoding="utf-8")
    command.chmod(0o755)


def _run(command: list[str], variables: Mapping[str, str] | None = None) -> None:
    done = subprocess.run(command, env=variables, check=False)
    if done.returncode:
        raise InstallFailed(f"`{' '.join(command)}` failed.")


if __name__ == "__main__":
    try:
        install(Path(sys.argv[1]), sys.argv[2:])
    except InstallFailed as failure:
        sys.exit(str(failure))
