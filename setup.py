"""Refuses to build a wheel without the documentation. Everything else about the package is in pyproject.toml."""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

SITE = Path("src/tonne/channels/public_pages/site/documentation")


class BuildWithDocumentation(build_py):
    def run(self) -> None:
        if (
            not self.editable_mode
            and not Path("src/tonne/channels/public_pages/site/documentation/index.html.gz").is_file()
        ):
            raise SystemExit("The documentation is not built. Run `make docs` first.")
        super().run()


setup(cmdclass={"build_py": BuildWithDocumentation})
