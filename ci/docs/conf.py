# SPDX-License-Identifier: GPL-2.0-or-later
"""Sphinx configuration of "make docs": every document of the tree as one site.

The source folder is the whole tree, so a link in a document means the same on
the site and in a checkout. This file adds what Sphinx does not do by itself:

- index.md lists all documents as ordinary links; the site's menu (toctree) is
  made of them, one group per heading;
- a link to a folder leads to the folder's README.md, or to a list of its files;
- a link to a source file leads to a page that shows the file;
- a link may name a section of an .rst document, as on GitHub.
"""

import os
import re
from pathlib import Path

from docutils import nodes
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import TextLexer, get_lexer_for_filename
from pygments.util import ClassNotFound
from sphinx import addnodes

TOP = Path(__file__).resolve().parents[2]
INDEX = "ci/docs/index"

project = "fakernic"
version = (TOP / "VERSION").read_text(encoding="utf-8").strip()
root_doc = INDEX
extensions = ["myst_parser"]
include_patterns = ["*.md", "**/*.md", "firmware-spec/*.rst", "tests/lab/*.rst"]
exclude_patterns = [".git", "LICENSES", "build"]
myst_heading_anchors = 4
html_theme = "alabaster"
html_theme_options = {"fixed_sidebar": True, "page_width": "auto",
                      "body_max_width": "60em"}
html_static_path = ["static"]
html_css_files = ["narrow.css"]
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
html_title = f"fakernic {version}"


def add_menu(app, docname, source):
    """Gives the index a hidden toctree for each heading, with the links below it."""
    if docname != INDEX:
        return
    parts = re.split(r"^(## .*)$", source[0], flags=re.M)
    for at in range(2, len(parts), 2):
        links = re.findall(r"\]\(([^)#:]+)\.(?:md|rst)\)", parts[at])
        menu = [f"/{os.path.normpath(f'ci/docs/{link}')}" for link in links]
        parts[at] += "\n".join(["```{toctree}", ":hidden:",
                                f":caption: {parts[at - 1][3:]}", "",
                                *menu, "```", ""])
    source[0] = "".join(parts)


def address(app, docname, path):
    """The address of the page that shows PATH, relative to DOCNAME's page. That is the
    page of a folder's README, or one that source_pages() makes later."""
    if (path / "README.md").exists():
        name = str((path / "README").relative_to(TOP))
    else:
        name = f"_source/{path.relative_to(TOP)}"
        app.env.fakernic_shown.add(name)
    return os.path.relpath(f"{name}.html", os.path.dirname(docname))


def show_sources(app, doctree):
    """Redirects links to folders, and to files that are not documents, to pages of the site."""
    docname = app.env.docname
    for kind in (addnodes.download_reference, addnodes.pending_xref):
        for node in list(doctree.findall(kind)):
            target, section = node["reftarget"], node.get("reftargetid")
            if section and (TOP / f"{target}.rst").exists():
                # MyST knows the sections of Markdown only.
                page = os.path.relpath(target, os.path.dirname(docname))
                node.replace_self(nodes.reference(
                    "", "", *node.children, internal=True,
                    refuri=f"{page}.html#{section}"))
                continue
            path = (TOP / os.path.dirname(docname) / target).resolve()
            if kind is addnodes.download_reference or path.is_dir():
                node.replace_self(nodes.reference(
                    "", "", *node.children, internal=True,
                    refuri=address(app, docname, path)))


def source_pages(app):
    """The pages that show files and folders."""
    for name in sorted(app.env.fakernic_shown):
        path = TOP / name.removeprefix("_source/")
        if path.is_dir():
            text = "\n".join(sorted(child.name for child in path.iterdir()
                                    if child.name != "__pycache__"))
            lexer = TextLexer()
        else:
            text = path.read_text(encoding="utf-8", errors="replace")
            try:
                lexer = get_lexer_for_filename(path.name)
            except ClassNotFound:
                lexer = TextLexer()
        title = str(path.relative_to(TOP))
        body = highlight(text, lexer, HtmlFormatter(linenos="inline",
                                                    lineanchors="L"))
        yield name, {"title": title, "body": f"<h1>{title}</h1>{body}",
                     "parents": []}, "page.html"


def link_to_menu(app, pagename, templatename, context, doctree):
    """Adds a link to the menu. On a narrow screen narrow.css puts the menu below the text."""
    if context.get("body"):
        context["body"] = ('<a class="to-menu" href="#searchbox">Menu and '
                           f'search</a>{context["body"]}')


def front_door(app, error):
    """Writes index.html, which redirects to the index of the documents."""
    if not error:
        (Path(app.outdir) / "index.html").write_text(
            f'<meta http-equiv="refresh" content="0; url={INDEX}.html">\n',
            encoding="utf-8")


def setup(app):
    app.connect("builder-inited",
                lambda app: setattr(app.env, "fakernic_shown", set()))
    app.connect("source-read", add_menu)
    app.connect("doctree-read", show_sources, priority=100)
    app.connect("html-collect-pages", source_pages)
    app.connect("html-page-context", link_to_menu)
    app.connect("build-finished", front_door)
