#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Parts of documents that are generated: documents.py [--write]

A part stands in a Markdown document between two comments:

    <!-- code: NAME -->         lines of code, between markers in a source:
                                /* journey: NAME */ ... /* journey: end */
    <!-- tests: FILE... -->     what each test of these files shows
    <!-- files: GLOB... -->     what each of these files tests
    <!-- programs: FILE -->     how many programs of a kind passed
    ...
    <!-- end -->

Without --write it prints how the documents differ from the sources.
"""

import ast
import difflib
import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

SRC = Path(__file__).resolve().parent.parent
WIDTH = 120
PART = re.compile(r"^<!-- (code|tests|files|programs): ([^\n]+) -->\n(.*?)^<!-- end -->$",
                  re.M | re.S)
MARKER = re.compile(r"^\s*/\* journey: ([\w-]+) \*/$")
FUNCTION = re.compile(r"^(?:[A-Za-z].*?)?\b([a-z]\w+)\(")
CASE = re.compile(r'^\s*(?:\{ "[^"]+",\s|TEST\(|CASE\(|SCENARIO\()', re.M)


def sources():
    """The files of the tree that git knows, or all where there is no git."""
    done = subprocess.run(["git", "-C", SRC, "-c", "safe.directory=*", "ls-files"],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True, check=False)
    if done.returncode == 0 and done.stdout:
        names = done.stdout.splitlines()
    else:
        names = [str(path.relative_to(SRC)) for path in SRC.rglob("*")]
    return sorted(name for name in names if (SRC / name).is_file())


def read(name):
    return (SRC / name).read_text(encoding="utf-8", errors="replace")


# ---- code ------------------------------------------------------------------

def pieces(name):
    """Yields (marker, first line's number, enclosing function, lines)."""
    marker, function, kept = None, "", []
    for number, line in enumerate(read(name).splitlines(), 1):
        found = MARKER.match(line)
        if found and found[1] == "end":
            yield marker, number - len(kept), function, kept
            marker = None
        elif found:
            marker, kept = found[1], []
        elif marker:
            kept.append(line)
        if found := FUNCTION.match(line):
            function = found[1]


def all_code(names):
    """Marker -> [(file, number, function, lines)]."""
    code = {}
    for name in names:
        if name.endswith((".c", ".h")) and "/* journey: " in read(name):
            for marker, *piece in pieces(name):
                code.setdefault(marker, []).append((name, *piece))
    return code


def code_part(words, code, folder):
    """The lines of a marker, with the file and the function above them."""
    found = code.get(words)
    if not found:
        return [f"no source has the marker {words}"]
    name = found[0][0]
    functions = dict.fromkeys(f"`{one[2]}()`" for one in found)
    out = [f"[{name}]({os.path.relpath(name, folder)}), {', '.join(functions)}:",
           "", "```c"]
    for at, (_, _, _, lines) in enumerate(found):
        if at:
            out.append("...")
        out += textwrap.dedent("\n".join(line.expandtabs(8) for line in
                                         lines)).splitlines()
    return [*out, "```"]


# ---- tests -----------------------------------------------------------------

def sentence(text):
    """The first sentence of a comment or docstring, on one line."""
    text = " ".join(text.split("\n\n")[0].split())
    found = re.match(r"(.*?\w[)\"`]*)\.( |$)", text)
    return found[1] if found else text


def opening(name):
    """The first sentence of the comment that begins a C file."""
    comment = next((one for one in re.findall(r"/\*(.*?)\*/", read(name)[:3000],
                                              re.S) if "SPDX" not in one), "")
    return sentence(re.sub(r"^ \*", "", comment, flags=re.M))


def tests_of(name):
    """Yields (test, its sentence, long: "", "†" or "‡")."""
    module = ast.parse(read(name))
    defined = {target.id: node for node in module.body
               for target in getattr(node, "targets", ())
               if isinstance(target, ast.Name)}
    defined |= {node.name: node for node in module.body
                if isinstance(node, ast.FunctionDef)}

    def mentions_long(node, seen=()):
        return any(
            isinstance(one, ast.Attribute) and one.attr == "long" or
            isinstance(one, ast.Name) and one.id in defined and
            one.id not in seen and
            mentions_long(defined[one.id], (*seen, one.id))
            for one in ast.walk(node))

    whole = "pytestmark" in defined and mentions_long(defined["pytestmark"])
    for node in module.body:
        if not (isinstance(node, ast.FunctionDef) and
                node.name.startswith("test_")):
            continue
        marks = [ast.unparse(one) for one in node.decorator_list]
        long = ("†" if whole or "pytest.mark.long" in marks or
                "long_test" in marks else
                "‡" if any(map(mentions_long, node.decorator_list)) else "")
        text = sentence(ast.get_docstring(node) or "")
        yield node.name, text, long


def wrapped(text):
    return textwrap.wrap(text, WIDTH, initial_indent="- ",
                         subsequent_indent="  ", break_on_hyphens=False,
                         break_long_words=False)


def tests_part(words, names, folder):
    out = []
    for name in words.split():
        if name not in names:
            return [f"no file {name}"]
        for test, text, long in tests_of(name):
            out += wrapped(f"`{test}`{' ' * bool(long)}{long}" +
                           (f": {text}" if text else ""))
    return out


def files_part(words, names, folder):
    out = []
    for name in (one for glob in words.split() for one in names
                 if Path(one).match(glob)):
        if name.endswith(".py"):
            text = sentence(ast.get_docstring(ast.parse(read(name))) or "")
            count = len(list(tests_of(name)))
        else:
            text, count = opening(name), len(CASE.findall(read(name)))
        how_many = f" ({count} test{'s' * (count != 1)})" if count else ""
        out += wrapped(f"[{Path(name).name}]({os.path.relpath(name, folder)})"
                       f"{how_many}: {text}")
    return out or [f"no file {words}"]


def programs_part(words, names, folder):
    """A row per library and provider with the results of make test-programs."""
    found = json.loads(read(words))
    kinds = dict.fromkeys(re.split("[,:]", name)[0] for name in
                          found["fakernic"])
    out = [f"| library | {' | '.join(found)} |", "|---" * (len(found) + 1) + "|"]
    for kind in kinds:
        cells = []
        for verdicts in found.values():
            own = [verdict for name, verdict in verdicts.items()
                   if re.split("[,:]", name)[0] == kind]
            cells.append(f"{own.count('passed')} of {len(own)}")
        out.append(f"| {kind} | {' | '.join(cells)} |")
    return out


MAKERS = {"tests": tests_part, "files": files_part, "programs": programs_part}


# ---- documents ---------------------------------------------------------------

def renewed(name, names, code, used):
    """A document's text with its generated parts up to date."""
    folder = os.path.dirname(name)

    def part(found):
        kind, words = found[1], found[2]
        if kind == "code":
            used.add(words)
            lines = code_part(words, code, folder)
        else:
            lines = MAKERS[kind](words, names, folder)
        return "\n".join([f"<!-- {kind}: {words} -->", "", *lines, "",
                          "<!-- end -->"])

    return PART.sub(part, read(name))


def main(arguments):
    names = sources()
    code = all_code(names)
    problems, used = [], set()
    for name in names:
        if not name.endswith(".md"):
            continue
        old, new = read(name), renewed(name, names, code, used)
        if old == new:
            continue
        if arguments == ["--write"]:
            (SRC / name).write_text(new, encoding="utf-8")
        else:
            problems += difflib.unified_diff(
                old.splitlines(), new.splitlines(), name, "sources",
                lineterm="", n=0)
    problems += [f"no document shows the code of {marker}"
                 for marker in sorted(map(str, set(code) - used))]
    if problems:
        problems.append('"make documents" writes them again')
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
