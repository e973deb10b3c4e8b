"""Writes the generated site into the package as it is served: no inline script, no address of a host, compressed.

The content security policy forbids inline scripts and styles. The generator writes a few scripts; each becomes a file.
"""

import gzip
import hashlib
import re
import shutil
from pathlib import Path

# Text is stored compressed; the service decompresses it for the few clients that accept no compression.
_BINARY = {".png", ".woff2", ".ico"}
_INLINE_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)
_CANONICAL = re.compile(r'\s*<link rel="canonical"[^>]*>')
_GENERATOR = re.compile(r'\s*<meta name="generator"[^>]*>')
# The address of the site is not known when it is built.
_SITE_URL = "https://tonne.invalid/docs/"
# The search adds an inline style sheet to its box. One that a script constructs needs no exception in the policy.
_BUNDLE = re.compile(r"assets/javascripts/bundle\.\w+\.min\.js")
_INLINE_STYLE = re.compile(r'(\w+)\.appendChild\(\w+\("style",\{\},(\w+)\.toString\(\)\)\)')
_CONSTRUCTED = r"(\1.adoptedStyleSheets=[(s=>(s.replaceSync(\2.toString()),s))(new CSSStyleSheet)])"
# Parts of the theme that no page uses, and files that name the address of the site.
_LEFT_OUT = ("assets/stylesheets/classic/", "sitemap.xml", "sitemap.xml.gz", "objects.inv")


class ThemeChanged(Exception):
    """A new version of the generator needs a look at this module."""


def publish(generated: Path, site: Path) -> None:
    """Replace the site. It is moved into place when it is complete."""
    fresh = site.with_name(f"{site.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    scripts: dict[str, str] = {}
    for source in sorted(generated.rglob("*")):
        name = source.relative_to(generated).as_posix()
        if source.is_dir() or name.startswith(_LEFT_OUT):
            continue
        content = source.read_bytes()
        if source.suffix == ".html":
            content = _external(content.decode("utf-8"), name, scripts).encode("utf-8")
        elif _BUNDLE.fullmatch(name):
            content = _without_inline_style(content.decode("utf-8")).encode("utf-8")
        _write(fresh / name, content)
    for name, script in scripts.items():
        _write(fresh / name, script.encode("utf-8"))
    shutil.rmtree(site, ignore_errors=True)
    fresh.rename(site)


def _external(page: str, name: str, scripts: dict[str, str]) -> str:
    root = "/docs/" if name == "404.html" else "../" * name.count("/")

    def replace(match: re.Match[str]) -> str:
        digest = hashlib.sha256(match[1].encode()).hexdigest()[:8]
        file = f"assets/javascripts/inline.{digest}.min.js"
        scripts[file] = match[1]
        return f'<script src="{root}{file}"></script>'

    page = _INLINE_SCRIPT.sub(replace, page)
    page = _GENERATOR.sub("", _CANONICAL.sub("", page))
    return page.replace(_SITE_URL, "/docs/")


def _without_inline_style(script: str) -> str:
    changed, count = _INLINE_STYLE.subn(_CONSTRUCTED, script)
    if count != 1:
        raise ThemeChanged("The search of the theme adds its style sheet in another way than before: see publish.py.")
    return changed


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix in _BINARY:
        path.write_bytes(content)
    else:
        # The same bytes for the same content: no name and no time in the file.
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(content, compresslevel=9, mtime=0))
