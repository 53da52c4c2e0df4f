#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Builds the site of all documents and checks it: check_docs.py [FOLDER]

Prints TAP. The site stays in FOLDER, by default /cache/docs.
"""

import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

SRC = Path(__file__).resolve().parent.parent
MADE = ("genindex.html", "search.html")     # by Sphinx, not by a document


class Page(HTMLParser):
    """The ids that a page defines, and the links and figures that it uses."""

    def __init__(self, path):
        super().__init__()
        self.ids = set()
        self.links = []
        self.figures = []       # (address, alternative text)
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.ids.update(attributes[key] for key in ("id", "name")
                        if attributes.get(key))
        if tag == "a" and attributes.get("href"):
            self.links.append(attributes["href"])
        if tag == "img":
            self.figures.append((attributes.get("src", ""),
                                 attributes.get("alt", "")))


def build(site):
    """Builds the site. Returns Sphinx's warnings, an empty list if there is none."""
    done = subprocess.run(
        ["sphinx-build", "-q", "-E", "-c", SRC / "ci/docs", "-d",
         f"{site}.doctrees", "-b", "html", SRC, site],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, check=False)
    lines = done.stdout.splitlines()
    if done.returncode and not lines:
        lines = [f"sphinx-build ended with {done.returncode}"]
    return lines


def broken_links(pages):
    """Links to a page, or to a place in it, that does not exist."""
    for path, page in pages.items():
        for link in page.links:
            where = urlsplit(link)
            if where.scheme or where.netloc:
                continue
            target = path
            if where.path:
                target = (path.parent / unquote(where.path)).resolve()
            if not target.exists():
                yield f"{path}: no page {link}"
            elif (where.fragment and target in pages and
                  unquote(where.fragment) not in pages[target].ids):
                yield f"{path}: no place {link}"


def bad_figures(pages):
    """Figures whose file is missing or that have no alternative text."""
    for path, page in pages.items():
        for source, text in page.figures:
            if urlsplit(source).scheme:
                yield f"{path}: {source} is on another server"
            elif not (path.parent / unquote(source)).exists():
                yield f"{path}: no figure {source}"
            elif not text or text == source:
                yield f"{path}: {source} has no text"


def generated():
    """How the generated parts of documents differ from their sources."""
    done = subprocess.run([sys.executable, SRC / "ci/documents.py"],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    return done.stdout.splitlines() or [""] * done.returncode


def main(arguments):
    site = Path(arguments[0] if arguments else "/cache/docs").resolve()
    results = [("all documents build into one site without a warning",
                build(site))]
    pages = {path.resolve(): Page(path) for path in site.rglob("*.html")
             if path.name not in MADE}
    results += [
        ("each link of the site leads to a page and a place in it",
         list(broken_links(pages)) if pages else ["no page"]),
        ("generated parts of documents agree with the sources", generated()),
        ("each figure of the site exists and has a text",
         list(bad_figures(pages)) if any(page.figures for page in
                                         pages.values()) else ["no figure"])]
    for number, (name, problems) in enumerate(results, 1):
        print(f"{'not ok' if problems else 'ok'} {number} - {name}")
        for problem in problems:
            print(f"# {problem}")
    print(f"1..{len(results)}")
    return 1 if any(problems for _, problems in results) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
