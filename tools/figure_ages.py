#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/figure_ages.py: pages whose figures are old say so.

usage: figure_ages.py [--mark] [ROOT]     prints `page: breach`; exit status 1 if there is one, 77 where the history is not there

A page names the commits that its figures are of, and PAGES the code that they are about. A figure is old once that code has changed and
more than 300 commits have passed. A page with old figures says, anywhere in its text,

    Not measured since 12f88d2, d248f5d; the code has changed.

with each of their commits, and none that is younger than 200. --mark writes that line, from 200 commits on, under the page's title or
where it stands, or takes it away. Records and design notes are of their day, and need none. A shallow clone has no history to count in:
nothing is checked there.
"""

import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
BOUND = 300  # commits
EARLY = 100  # commits before the bound, from where on --mark speaks and may be believed
SKIPPED = 77
OF_THEIR_DAY = "records", "design"
WORD = re.compile(r"(?<![\w./])[0-9a-f]{7,12}(?![\w])")
SAID = re.compile(r"^\*Not measured since ([0-9a-f, ]+); the code has changed\.\*\n\n?", re.MULTILINE)

CORE = ["include/folio/core", "include/folio/cache", "src/core", "src/cache"]
ATTENTION = [*CORE, "include/folio/attention", "src/kernel", "src/attention", "src/cpu"]
POOL = ["include/folio/pool", "src/pool"]
TIER = ["include/folio/tier", "src/tier"]
PYTHON = [*ATTENTION, "python/src", "python/folio_kv"]
LLAMA = [*ATTENTION, "src/mask", "clients/llama_cpp"]
# page of docs, or the README -> the code that its figures are about
PAGES = {
    "README.md": [*LLAMA, *PYTHON, *TIER],
    "cuda.md": ["src/cuda"],
    "disk_tier.md": ["src/tier/disk", "src/tier/queued_tier.cpp"],
    "releases.md": ["python/folio_kv", "clients/llama_cpp"],
    "eviction.md": ["src/pool"],
    "event_stream.md": ["src/tier/events"],
    "generated/performance_all.md": [*ATTENTION, *POOL],
    "hybrid.md": ["src/pool"],
    "hybrid_replay.md": ["src/pool", "cli"],
    "kernels/amx.md": ["src/cpu/amx"],
    "kernels/append.md": ["src/cpu/append", "src/cpu/convert"],
    "kernels/mask_matrix.md": ["src/mask"],
    "llama_cpp.md": LLAMA,
    "low_bit.md": [*ATTENTION, "python/folio_kv"],
    "names.md": ["src/names", "src/pool"],
    "peers.md": TIER,
    "performance.md": [*ATTENTION, *POOL],
    "performance_peers.md": ATTENTION,
    "pool_performance.md": POOL,
    "prefix_reuse.md": ["src/pool"],
    "python.md": PYTHON,
    "python_performance.md": PYTHON,
    "python_vllm.md": [*TIER, "python/src/tiers", "python/folio_kv/vllm"],
    "real_weights.md": [*PYTHON, "clients/llama_cpp"],
    "redis_tier.md": ["src/tier/redis", "src/tier/queued_tier.cpp"],
    "sparse.md": [*ATTENTION, "include/folio/sparse", "src/sparse", "python/folio_kv"],
    "tiered_replay.md": [*TIER, "cli"],
    "tiers.md": TIER,
    "transfer.md": TIER,
}


class History:
    """The commits of a repository up to HEAD, asked of git."""

    def __init__(self, root):
        self.root = root
        self.commits = self.git("rev-list", "HEAD").split()  # the newest first

    def git(self, *arguments):
        return subprocess.run(["git", "-C", self.root, *arguments], text=True, capture_output=True, check=True).stdout

    def missing(self):
        """Why there is nothing to count in, or ''."""
        return "the clone is shallow" if self.git("rev-parse", "--is-shallow-repository").strip() == "true" else ""

    def age(self, name):
        """Commits since the one that `name` abbreviates; None if it is none of HEAD's."""
        return next((age for age, commit in enumerate(self.commits) if commit.startswith(name)), None)

    def has_changed(self, name, paths):
        return bool(self.git("log", "-1", "--format=%h", f"{name}..HEAD", "--", *paths))


def old_commits(history, text, paths, bound):
    """The commits that a page names; those of them whose figures may be called old, and those that must be."""
    ages = {name: history.age(name) for name in dict.fromkeys(WORD.findall(SAID.sub("", text)))}
    named = [name for name, age in ages.items() if age is not None]
    may = [name for name in named if ages[name] > bound - EARLY and history.has_changed(name, paths)]
    return named, may, [name for name in may if ages[name] > bound]


def breaches(root, pages, bound, mark=False):
    history = History(root)
    places = {path.relative_to(root / "docs").as_posix(): path for path in sorted((root / "docs").rglob("*.md"))}
    if (root / "README.md").exists():
        places["README.md"] = root / "README.md"
    for page, paths in pages.items():
        if page not in places:
            yield page, "PAGES: the page does not exist"
        for path in paths:
            if not (root / path).exists():
                yield page, f"PAGES: {path} does not exist"
    for page, path in places.items():
        text = path.read_text(encoding="utf-8")
        if page.split("/")[0] in OF_THEIR_DAY:
            continue
        named, may, old = old_commits(history, text, pages.get(page, []), bound)
        if named and page not in pages:
            yield page, f"names {', '.join(named)}, and PAGES does not say which code its figures are about"
        said = [name.strip() for line in SAID.findall(text) for name in line.split(",")]
        if mark and said != may:
            line = f"*Not measured since {', '.join(may)}; the code has changed.*\n\n" if may else ""
            if said:
                text = SAID.sub(line, text)
            else:
                text = text.replace("\n\n", f"\n\n{line}", 1)
            path.write_text(text, encoding="utf-8")
        elif not set(old) <= set(said) <= set(may):
            yield page, f"not measured since {', '.join(old) or 'nothing'}, and says {', '.join(said) or 'nothing'} (--mark)"


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1])
    parser.add_argument("--mark", action="store_true")
    parser.add_argument("root", nargs="?", type=pathlib.Path, default=ROOT)
    args = parser.parse_args()
    try:
        why = History(args.root).missing()
    except (OSError, subprocess.CalledProcessError):
        why = "this is no clone of the project, or there is no git"
    if why:
        print(f"figures have no age here: {why}")
        return SKIPPED
    found = list(breaches(args.root, PAGES, BOUND, args.mark))
    for page, breach in found:
        print(f"{page}: {breach}")
    print(f"{len(found)} breaches")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
