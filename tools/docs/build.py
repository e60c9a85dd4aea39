#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/docs/build.py: the documents, the public headers' comments and the examples as one site with search: build/docs/site.

usage: build.py     exit status 1 where a link leads nowhere; 3, 4: tools/engines.py's, whose environment `docs` makes the site

Pages are gathered in build/docs/pages, where every document keeps its place in the tree, so that its links hold. A header or a source
that a document leads to becomes a page, a folder the list of what is in it. The order of the pages is that of docs/index.md: one part
for each of its headings. Nothing is made anew where pages, settings and packages are those of the last time.
"""

import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tools/docs")]

import engines  # noqa: E402
import headers  # noqa: E402

BUILD = ROOT / "build/docs"
PAGES, SITE, CONFIG = BUILD / "pages", BUILD / "site", BUILD / "mkdocs.yml"
STAMP, PYTHON = BUILD / "stamp", BUILD / "python"  # what the site is of; which Python has mkdocs
DOCUMENTS = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "findings/README.md", "python/README.md", "clients/llama_cpp/README.md"]
LINK = re.compile(r"\]\(([^)#:\s]+)(#[^)\s]*)?\)")
LANGUAGES = {".h": "cpp", ".cpp": "cpp", ".c": "c", ".py": "python", ".sh": "sh"}


def fence(text, language=""):
    ticks = "`" * max(3, *(len(run) + 1 for run in re.findall(r"`+", text) or [""]))
    return f"{ticks}{language}\n{text.rstrip()}\n{ticks}\n"


def page_of(path):
    """Where a file or folder of the tree has its page, as a path from the root."""
    if (ROOT / path).is_dir():
        return f"{path}/index.md"
    return path if path.endswith((".md", ".png", ".svg")) else f"{path}.md"


def content(path):
    """The page of a path that is no document."""
    source = ROOT / path
    if source.is_dir():
        names = sorted(child.name + "/" * child.is_dir() for child in source.iterdir() if child.name[0] not in "._")
        lines = [
            f"* [{name}]({name}{'index.md' if name.endswith('/') else '.md'})"
            if f"{path}/{name}".rstrip("/") in gathered
            else f"* `{name}`"
            for name in names
        ]
        return f"# {path}\n\n" + "\n".join(lines) + "\n"
    text = source.read_text(encoding="utf-8")
    if path.startswith("include/folio/"):
        return headers.page(path.removeprefix("include/"), text)
    return f"# {path}\n\n" + fence(text, LANGUAGES.get(source.suffix, "text"))


def document(path):
    """A document with its links led to pages, and blank lines before lists, which GitHub's Markdown does not need."""

    def lead(found):
        target = os.path.normpath(os.path.join(os.path.dirname(path), found[1]))
        if not (ROOT / target).exists():
            return found[0]
        wanted.append(target)
        return f"]({os.path.relpath(page_of(target), os.path.dirname(path) or '.')}{found[2] or ''})"

    lines, is_code = [], False
    for line in (ROOT / path).read_text(encoding="utf-8").splitlines():
        if line.lstrip().startswith("```"):
            is_code = not is_code
        before = lines[-1] if lines else ""
        if not is_code and re.match(r"([*-]|\d+\.) ", line) and before.strip() and not re.match(r"([*-]|\d+\.) |  ", before):
            lines.append("")
        lines.append(line if is_code else LINK.sub(lead, line))
    return "\n".join(lines) + "\n"


wanted, gathered = [], {}  # paths that documents lead to; path -> text of its page, or None for a picture


def gather():
    """All pages, from the documents, headers and examples on to whatever they lead to."""
    documents = [*DOCUMENTS, *(path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs").rglob("*.md")))]
    wanted.extend(path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "include").rglob("*.h")))
    wanted.extend(path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "examples").rglob("*")) if path.suffix in LANGUAGES)
    for path in documents:
        gathered[path] = document(path)
    folders = []
    for path in dict.fromkeys(wanted):
        if (ROOT / path).is_dir():
            folders.append(path)
            gathered[path] = ""
        elif path.endswith(".md") and path not in gathered:
            gathered[path] = document(path)
        elif path.endswith((".png", ".svg")):
            gathered[path] = None
        elif path not in gathered:
            gathered[path] = content(path)
    for path in folders:
        gathered[path] = content(path)


def listed(text, folder):
    """What the first cells of tables lead to; the index of a folder with what it lists itself."""
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("| ")]
    targets = [os.path.normpath(f"{folder}/{target}") for cell in cells for target, _ in LINK.findall(cell)]
    for target in dict.fromkeys(targets):
        text = gathered[target]
        if target.endswith("/index.md"):
            yield {text.split("\n", 1)[0].removeprefix("# "): [target, *listed(text, os.path.dirname(target))]}
        else:
            yield target


def nav():
    """The order of the pages as mkdocs takes it: YAML that JSON is."""
    parts = [{"folio": ["README.md", "docs/index.md", "docs/glossary.md", "CHANGELOG.md"]}]
    for section in re.split(r"^## ", gathered["docs/index.md"], flags=re.MULTILINE)[1:]:
        title, text = section.split("\n", 1)
        if pages := list(listed(text, "docs")):
            parts.append({title: pages})
    found = {}
    for path in gathered:
        if path.startswith("include/folio/") and path.endswith(".h"):
            found.setdefault(os.path.dirname(path).removeprefix("include/"), []).append({os.path.basename(path): page_of(path)})
    parts.append({"Headers": [{folder: pages} for folder, pages in sorted(found.items())]})
    examples = sorted(path for path in gathered if path.startswith("examples/") and (ROOT / path).is_file())
    parts.append({"Examples": [{path.removeprefix("examples/"): page_of(path)} for path in examples]})
    return parts


def main():
    gather()
    settings = (ROOT / "tools/docs/mkdocs.yml").read_text(encoding="utf-8")
    settings += (
        "\n".join(f"{key}: {json.dumps(value)}" for key, value in (("docs_dir", str(PAGES)), ("site_dir", str(SITE)), ("nav", nav())))
        + "\n"
    )
    environment = engines.Environment("docs")
    parts = [settings, environment.list.read_text(), (ROOT / "tools/docs/style.css").read_text(), json.dumps(gathered, sort_keys=True)]
    parts += [hashlib.sha256((ROOT / path).read_bytes()).hexdigest() for path, text in gathered.items() if text is None]
    stamp = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    with engines.lock(BUILD / "lock"):
        if not (STAMP.is_file() and STAMP.read_text() == stamp):
            make(environment.make(), settings)
            STAMP.write_text(stamp)
    print(f"{sum(text is not None for text in gathered.values())} pages: python3 -m http.server --directory {SITE.relative_to(ROOT)}")


def make(environment, settings):
    STAMP.unlink(missing_ok=True)
    shutil.rmtree(PAGES, ignore_errors=True)
    for path, text in gathered.items():
        page = PAGES / page_of(path)
        page.parent.mkdir(parents=True, exist_ok=True)
        if text is None:
            shutil.copyfile(ROOT / path, page)
        else:
            page.write_text(text, encoding="utf-8")
    shutil.copyfile(ROOT / "tools/docs/style.css", PAGES / "style.css")
    CONFIG.write_text(settings, encoding="utf-8")
    PYTHON.write_text(f"{environment.python}\n")
    done = subprocess.run(
        [environment.python, "-m", "mkdocs", "build", "--strict", "--clean", "--config-file", CONFIG],
        text=True,
        capture_output=True,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "DISABLE_MKDOCS_2_WARNING": "true"},
    )
    if done.returncode != 0:
        engines.fail("mkdocs: " + done.stdout + done.stderr)


if __name__ == "__main__":
    main()
