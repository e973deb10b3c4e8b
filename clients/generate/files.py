"""The generated files with their contents."""

from pathlib import Path

from clients.generate import python, typescript
from clients.generate.document import Document, read_document

CLIENTS = Path(__file__).parents[1]
PYTHON = CLIENTS / "python" / "src" / "tonne_client"
TYPESCRIPT = CLIENTS / "typescript" / "src"


def generate(document: Document | None = None) -> dict[Path, str]:
    document = document or read_document()
    files = {
        PYTHON / "models.py": python.models(document),
        PYTHON / "resources.py": python.resources(document, is_async=False),
        PYTHON / "async_resources.py": python.resources(document, is_async=True),
    }
    return {path: python.formatted(text, path.name) for path, text in files.items()} | {
        TYPESCRIPT / "models.ts": typescript.models(document),
        TYPESCRIPT / "resources.ts": typescript.resources(document),
    }
