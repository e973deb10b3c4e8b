"""tonne.example.toml documents every setting with its default."""

import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tonne.platform.settings.load_settings import load_settings
from tonne.platform.settings.settings import Settings

EXAMPLE = Path(__file__).parents[3] / "tonne.example.toml"
_SETTING = re.compile(r"^# ([a-z0-9_]+ = .*)$", re.MULTILINE)
_FIELDS = {field.name: field for field in msgspec.structs.fields(Settings)}


def _uncommented() -> str:
    return _SETTING.sub(r"\1", EXAMPLE.read_text(encoding="utf-8"))


def _documented() -> dict[str, Any]:
    return tomllib.loads(_uncommented())


def test_every_setting_is_documented_and_nothing_else() -> None:
    assert list(_documented()) == list(_FIELDS), "also the order is that of the code"


@pytest.mark.parametrize("name", _FIELDS)
def test_the_documented_default_is_the_one_in_the_code(name: str) -> None:
    documented = _documented()[name]
    assert documented == _FIELDS[name].default
    assert type(documented) is type(_FIELDS[name].default)


@pytest.mark.parametrize("name", _FIELDS)
def test_each_setting_is_explained_in_words_with_its_variable_beside_it(name: str) -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    paragraph = next(part for part in text.split("\n\n") if f"\n# {name} = " in part)
    words, _, _ = paragraph.partition(f"\n# {name} = ")
    assert f"TONNE_{name.upper()}" in words
    assert len(words.split()) >= 8, "a name alone explains nothing"
    if name.endswith("_s"):
        assert "seconds" in words


def test_the_unchanged_file_sets_nothing() -> None:
    assert load_settings({"TONNE_CONFIG": str(EXAMPLE)}) == Settings()


def test_the_file_can_be_used_with_every_line_uncommented(tmp_path: Path) -> None:
    path = tmp_path / "tonne.toml"
    path.write_text(_uncommented(), encoding="utf-8")
    assert load_settings({"TONNE_CONFIG": str(path)}) == Settings()
