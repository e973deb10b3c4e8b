"""Every command and snippet of the documentation is executed, except those in `EXCEPTIONS`.

The commands of a page run one after the other in one shell, against one demo service for all pages. What a reader
puts in (an id, an address) is replaced by what the demo has.
"""

import csv
import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import msgspec
import pytest
from PIL import Image

from tests.integration.documentation_exceptions import EXCEPTIONS, PRELUDES
from tests.integration.fork_server import fork_server
from tests.integration.programs import find_program
from tests.integration.snippets import LANGUAGES, Snippet, pages, snippets_of
from tests.support.command import wait_until
from tests.support.processes import HOST, ROOT, Process, environment, free_port
from tonne.platform.settings.load_settings import load_settings
from tools.docs.openapi import inlined

SNIPPETS = {page.relative_to(ROOT).as_posix(): snippets_of(page) for page in pages()}
RUN_LANGUAGES = {"bash", "console"}
PRINTED_NOTHING = re.compile(r'^(null|\{\n(  "\w+": null,?\n)+\})$', re.MULTILINE)
SCRIPT_TIMEOUT_S = 180
MARK = "@@snippet "


def is_exception(snippet: Snippet) -> bool:
    return any(snippet.page == page and snippet.first_line.startswith(start) for page, start in EXCEPTIONS)


def pages_with(*languages: str) -> list[str]:
    return [
        page
        for page, snippets in SNIPPETS.items()
        if any(snippet.language in languages and not is_exception(snippet) for snippet in snippets)
    ]


def checked(page: str, *languages: str) -> list[Snippet]:
    return [snippet for snippet in SNIPPETS[page] if snippet.language in languages and not is_exception(snippet)]


@dataclass(frozen=True)
class Demo:
    url: str
    document: dict[str, Any]
    folder: Path
    variables: dict[str, str]

    def run(self, *words: str) -> str:
        command = [str(self.folder / ".venv" / "bin" / "tonne"), *words]
        return subprocess.run(command, env=self.variables, capture_output=True, text=True, check=True).stdout.strip()

    def for_page(self, texts: str) -> tuple[dict[str, str], dict[str, str]]:
        """What replaces the placeholders of a page, and the environment of its commands.

        A page that names ids gets an organisation of its own: it may change, close or restrict whatever it likes.
        """
        replacements = {
            "http://localhost:8080": self.url,
            "https://offsets.example.com": self.url,
            "https://hooks.example.com/tonne": f"https://{HOST}:9/tonne",
        }
        if not re.search(r"ACCOUNT_ID|ORGANISATION_ID|LINK_ID|ORDER_ID|[a-z]_(06\w+)?…|org_06", texts):
            return replacements, self.variables
        if "demo.json" in texts:
            return replacements | self._ids_of_demo(), self.variables
        organisation = self.run("org", "create", "A reader")
        live = self.run("account", "create", organisation, "A reader", "--mode", "live", "--currency", "EUR")
        account = self.run("account", "create", organisation, "A reader", "--mode", "test", "--currency", "EUR")
        key = self.run("key", "create", account, "--allow", "api_keys")
        tonne = {"mass": {"amount": "1", "unit": "t"}}
        with httpx.Client(base_url=self.url, headers=_bearer(key), timeout=30) as client:
            link = client.post("/v1/offset-links", json={"title": "Offset your flight"}).json()["id"]
            customer = client.post("/v1/accounts/client", json={"name": "A customer", "currency": "EUR"}).json()["id"]
            order = client.post("/v1/orders/by-mass", json=tonne).json()["id"]
            replacements |= {
                "tonne_test_…": key,
                "LIVE_ACCOUNT_ID": live,
                "ACCOUNT_ID": account,
                "ORGANISATION_ID": organisation,
                "LINK_ID": link,
                "ORDER_ID": order,
                "client/acc_06gt…": f"client/{customer}",
                "acc_06gt…": account,
                "acc_…": account,
                "org_…": organisation,
                "org_06dq2k8v7p3h5n9s4t1w0x2y6z": organisation,
                "lnk_…": link,
                "key_…": client.get("/v1/api-keys").json()["data"][0]["id"],
                "est_…": client.post("/v1/estimates", json=tonne).json()["id"],
                "ord_…": order,
            }
        return replacements, self.variables | {"KEY": key, "TONNE_API_KEY": key}

    def _ids_of_demo(self) -> dict[str, str]:
        """For a page that takes the key of the demo."""
        tonne = {"mass": {"amount": "1", "unit": "t"}}
        with httpx.Client(base_url=self.url, headers=_bearer(self.variables["KEY"]), timeout=30) as client:
            order = client.post("/v1/orders/by-mass", json=tonne).json()["id"]
            estimate = client.post("/v1/estimates", json=tonne).json()["id"]
            completed = "the order is complete"
            wait_until(lambda: client.get(f"/v1/orders/{order}").json()["status"] == "complete", 120, completed)
        return {"est_…": estimate, "ord_…": order}


def _bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    folder = tmp_path_factory.mktemp("docs")
    port = free_port()
    url = f"http://{HOST}:{port}"
    settings = {
        "data_dir": folder / "var",
        "port": port,
        "public_url": url,
        "webhook_allow_private": "127.0.0.0/8",
    }
    tonne = Process("tonne", "serve", "--demo=empty", settings=settings, log=folder / "tonne.log")
    programs = folder / ".venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "python").symlink_to(sys.executable)
    _write_readers_files(folder)
    try:
        with fork_server(folder, programs / "tonne"):
            tonne.wait_until_ready(port, within_s=180)
            facts = msgspec.json.decode((folder / "var" / "demo.json").read_bytes())
            document = inlined(httpx.get(f"{url}/openapi.json", timeout=60).json())
            path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]])
            given = {
                "PATH": path,
                "KEY": facts["test"]["api_key"],
                "LIVE_KEY": facts["live"]["api_key"],
                "BASE": url,
                "TONNE_API_KEY": facts["test"]["api_key"],
            }
            yield Demo(url, document, folder, environment(settings) | given)
    finally:
        tonne.stop()


def _write_readers_files(folder: Path) -> None:
    """What the pages assume that the reader has."""
    (folder / "examples").symlink_to(ROOT / "examples")
    shutil.copytree(ROOT / "src" / "tonne" / "selling" / "catalogue" / "demo", folder / "my-catalogue")
    (folder / "my-pictures" / "bundles").mkdir(parents=True)
    picture = Image.new("RGB", (640, 360), "green")
    for name in ("forest.jpg", "my-pictures/bundles/forest-mix.jpg", "logo.png"):
        picture.save(folder / name)


def fill_in(text: str, replacements: dict[str, str]) -> str:
    for placeholder, value in replacements.items():
        text = text.replace(placeholder, value)
    return text


def test_every_block_names_its_language() -> None:
    unknown = [str(snippet) for found in SNIPPETS.values() for snippet in found if snippet.language not in LANGUAGES]
    assert unknown == [], f"write one of {', '.join(LANGUAGES)} after the backticks"


def test_every_exception_is_needed() -> None:
    snippets = [snippet for found in SNIPPETS.values() for snippet in found]
    unused = [
        key
        for key in EXCEPTIONS
        if not any(each.page == key[0] and each.first_line.startswith(key[1]) for each in snippets)
    ]
    assert unused == []
    assert all(reason for reason in EXCEPTIONS.values())


def write_files(demo: Demo, page: str) -> None:
    """The files that the reader of a page has made before."""
    for snippet in SNIPPETS[page]:
        if snippet.directive is not None and snippet.directive[0] == "file":
            (demo.folder / snippet.directive[1]).write_text(snippet.text, encoding="utf-8")


@pytest.mark.parametrize("page", pages_with(*RUN_LANGUAGES))
def test_commands_run(demo: Demo, page: str) -> None:
    write_files(demo, page)
    snippets = checked(page, *RUN_LANGUAGES)
    replacements, variables = demo.for_page("".join(snippet.commands for snippet in snippets))
    lines = ["set -euo pipefail", fill_in(PRELUDES.get(page, ""), replacements)]
    for number, snippet in enumerate(snippets):
        lines += [f"echo '{MARK}{number}' >&2", fill_in(snippet.commands, replacements)]
    done = subprocess.run(
        [find_program("bash"), "-c", "\n".join(lines)],
        cwd=demo.folder,
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SCRIPT_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        last = int(re.findall(rf"^{MARK}(\d+)$", done.stderr, re.MULTILINE)[-1])
        raise AssertionError(f"{snippets[last]}\n{done.stdout[-1500:]}\n{done.stderr[-3000:]}")
    # A refused request does not end curl with an error.
    assert '"error_code"' not in done.stdout, f"{page}\n{done.stdout[-3000:]}"
    # Nor does jq, which prints the members that it was asked for as null.
    assert not PRINTED_NOTHING.search(done.stdout), f"{page} prints nothing but null\n{done.stdout[-3000:]}"


@pytest.mark.parametrize("page", pages_with("python"))
def test_programs_run(demo: Demo, page: str) -> None:
    """The blocks of a page are one program."""
    write_files(demo, page)
    program = PRELUDES.get(f"{page} python", "") + "\n".join(each.text for each in checked(page, "python"))
    replacements, variables = demo.for_page(program)
    done = subprocess.run(
        [sys.executable, "-c", fill_in(program, replacements)],
        cwd=demo.folder,
        env={
            **variables,
            "PYTHONPATH": str(ROOT / "clients" / "python" / "src"),
            "TONNE_API_URL": demo.url,
            "TONNE_API_KEY": variables["KEY"],
        },
        capture_output=True,
        text=True,
        timeout=SCRIPT_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, f"{page}\n{done.stdout[-1500:]}\n{done.stderr[-3000:]}"


def test_json_is_valid_by_its_schema(demo: Demo) -> None:
    unnamed = []
    for page in pages_with("json"):
        for snippet in checked(page, "json"):
            value = msgspec.json.decode(snippet.text)
            if snippet.directive is None:
                unnamed.append(str(snippet))
                continue
            schema = _schema(demo.document, *snippet.directive)
            validator = jsonschema_rs.Draft202012Validator({**schema, "components": demo.document["components"]})
            faults = [f"{fault.instance_path}: {fault.message}" for fault in validator.iter_errors(value)]
            assert faults == [], str(snippet)
    assert unnamed == [], (
        "say what it is in a comment before it: <!-- body: POST /v1/orders/by-mass --> or <!-- schema: Order -->"
    )


def _schema(document: dict[str, Any], kind: str, what: str) -> dict[str, Any]:
    if kind == "schema":
        return {"$ref": f"#/components/schemas/{what}"}
    method, path, *status = what.split()
    operation = document["paths"][path][method.lower()]
    content = operation["responses"][status[0]] if status else operation["requestBody"]
    schema: dict[str, Any] = content["content"]["application/json"]["schema"]
    return schema


def test_settings_are_accepted(tmp_path: Path) -> None:
    for page in pages_with("toml"):
        for snippet in checked(page, "toml"):
            file = tmp_path / "tonne.toml"
            file.write_text(snippet.text, encoding="utf-8")
            # A file of settings, or one that a setting names.
            load_settings({snippet.directive[1] if snippet.directive else "TONNE_CONFIG": str(file)})
    for page in pages_with("ini"):
        for snippet in checked(page, "ini"):
            lines = [re.sub(r"\s+#.*", "", line) for line in snippet.text.splitlines() if line.strip()]
            variables = dict(line.replace("…", "secret").split("=", 1) for line in lines)
            load_settings({"TONNE_SECRET_KEY": "A" * 43 + "=", **variables})


def test_tables_can_be_read() -> None:
    for page in pages_with("csv"):
        for snippet in checked(page, "csv"):
            head, *rows = csv.reader(io.StringIO(snippet.text))
            assert rows, str(snippet)
            assert {len(row) for row in rows} == {len(head)}, str(snippet)
