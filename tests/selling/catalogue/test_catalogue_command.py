"""The command `tonne catalogue`."""

from importlib import resources
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tonne.apps.cli.main import main
from tonne.platform.db.database import Database

DEMO = Path(str(resources.files("tonne.selling.catalogue") / "demo"))


class Operator:
    """Runs commands against the test's database."""

    def __init__(self, url: str) -> None:
        self._url = url

    def run(self, *words: str | Path) -> Result:
        result = CliRunner().invoke(main, ["catalogue", *map(str, words)], env={"TONNE_DATABASE_URL": self._url})
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    def import_demo(self) -> Result:
        return self.run("import", "--mode", "test", "--currency", "EUR", DEMO)


@pytest.fixture
def operator(db: Database) -> Operator:
    return Operator(db._url)


def test_a_folder_is_imported_and_each_file_reported(operator: Operator) -> None:
    first = operator.import_demo()
    assert first.exit_code == 0
    assert "Imported: the test catalogue (EUR) is now at version 1." in first.output
    assert "projects.csv         14   0        0          0" in first.output
    again = operator.run("import", "--mode", "test", DEMO / "lots.csv", DEMO / "projects.csv")
    assert "No changes: the test catalogue (EUR) stays at version 1." in again.output
    assert "projects.csv  0    0        14         0" in again.output


def test_errors_are_listed_and_the_command_fails(operator: Operator, tmp_path: Path) -> None:
    operator.import_demo()
    (tmp_path / "defaults.csv").write_text("bundle_slug,percentage\nwind-power,50\nno-such,50\n")
    result = operator.run("import", "--mode", "test", tmp_path)
    assert result.exit_code == 1
    assert result.stdout == ""
    error, summary = result.stderr.splitlines()
    assert error.startswith("defaults.csv, line 3, column bundle_slug: there is no bundle “no-such”: correct the slug")
    assert summary == "Error: Nothing was imported: 1 error."


def test_money_11_a_large_change_of_a_rate_needs_a_flag(operator: Operator, tmp_path: Path) -> None:
    operator.import_demo()
    (tmp_path / "exchange_rates.csv").write_text("base,quote,rate,source,as_of\nEUR,KWD,0.0332,bank,2026-10-01\n")
    refused = operator.run("import", "--mode", "test", tmp_path)
    assert refused.exit_code == 1
    assert "0.0332 differs from the rate of 2025-01-02, 0.332, by more than a factor of 2" in refused.stderr
    allowed = operator.run("import", "--mode", "test", "--allow-large-change", tmp_path)
    assert allowed.exit_code == 0


def test_lots_can_be_imported_from_a_file_with_any_name(operator: Operator, tmp_path: Path) -> None:
    operator.import_demo()
    header = (DEMO / "lots.csv").read_text().splitlines()[0]
    supply = tmp_path / "supply of May.csv"
    supply.write_text(
        f"{header}\nVerra,VCS1340,2021,TEST-99-1-100-VCS-VCU-1-VER-ET-14-1340-01012021-31122021-0,100,held,,\n"
    )
    assert "version 2" in operator.run("import-lots", "--mode", "test", supply).output
    assert operator.run("import", "--mode", "test", supply).exit_code == 1


def test_a_workbook_is_refused_in_one_sentence(operator: Operator, tmp_path: Path) -> None:
    operator.import_demo()
    (tmp_path / "lots.csv").write_bytes(b"PK\x03\x04" + bytes(1000))
    result = operator.run("import-lots", "--mode", "test", tmp_path / "lots.csv")
    assert result.exit_code == 1
    error, _ = result.stderr.splitlines()
    assert error == "lots.csv: the file is a workbook or an archive, not CSV: save it as “CSV UTF-8” and import that."


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("import", "--mode", "test", DEMO), "There is no test catalogue yet"),
        (("import", "--mode", "test", DEMO / "images"), "contains no CSV file"),
        (("import", "--mode", "test", DEMO / "images" / "wind-power.svg"), "is not a file of a catalogue"),
        (("import", "--mode", "test", "--currency", "EUR", DEMO, DEMO / "lots.csv"), "lots.csv was given twice"),
        (("enable", "bun_unknown"), "There is no bundle with this id"),
    ],
)
def test_commands_fail_with_one_sentence(operator: Operator, words: tuple[str | Path, ...], sentence: str) -> None:
    result = operator.run(*words)
    assert result.exit_code == 1
    assert sentence in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_bundles_are_listed_enabled_and_disabled(operator: Operator) -> None:
    assert "has no bundles yet" in operator.run("list", "--mode", "test").output
    operator.import_demo()
    rows = operator.run("list", "--mode", "test").output.splitlines()
    assert rows[0].split() == ["id", "slug", "price", "enabled", "free", "tonnes", "name"]
    bundle_id, slug, price, currency, enabled, free_tonnes, *_ = rows[5].split()
    assert (slug, price, currency, enabled, free_tonnes) == ("durable-removal", "250.00", "EUR", "yes", "25")
    assert operator.run("disable", bundle_id).output == "durable-removal (test) is now off sale.\n"
    assert operator.run("disable", bundle_id).output == "durable-removal (test) is already off sale.\n"
    assert operator.run("enable", bundle_id).output == "durable-removal (test) is now on sale.\n"
    in_default_selection = operator.run("disable", rows[1].split()[0])
    assert "default selection" in in_default_selection.stderr
