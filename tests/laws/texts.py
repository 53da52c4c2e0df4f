# SPDX-License-Identifier: GPL-2.0-or-later
"""
Laws of texts: the words of comments, messages and documents, and where a version
may be named.
"""

import re
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / 'lab'))

from fakernic_lab import versions

SKIPPED = {'.git', 'build', 'corpus', '__pycache__', 'results', 'LICENSES'}
WITH_TEXT = {'.c', '.h', '.py', '.sh', '.md', '.rst', '.json', '.1', '.7'}
DOCUMENT = ('.md', '.rst', '.1', '.7')
# Of code, only comments and strings are read.
PART = re.compile(r'/\*.*|^\s*\*.*|//.*|#.*|"[^"]*"|\'\'\'.*|^[A-Z].*[a-z]\.?$')
WORDS = '## Language'


def files_below(tree, *tops):
    """The names of all files of the tree, or of those below these folders."""
    for top in tops or ('.',):
        start = tree.path(top)
        for path in [start] if start.is_file() else sorted(start.rglob('*')):
            name = path.relative_to(tree.top)
            if path.is_file() and not SKIPPED & set(name.parts):
                yield str(name)


def phrases(tree):
    """The phrases of the first column of CONTRIBUTING.md's table of words."""
    section = tree.read('CONTRIBUTING.md').split(WORDS)[1].split('\n## ')[0]
    rows = re.findall(r'^\| ([^|]*) \|[^|]*\|$', section, re.M)[1:]
    return [phrase.strip() for row in rows for phrase in row.split(',')
            if not phrase.strip().startswith(('-', '('))]


def plain_english(tree):
    """the phrases that CONTRIBUTING.md rules out get fewer"""
    words = '|'.join(re.escape(phrase).replace(r'\ ', r'\s+')
                     for phrase in phrases(tree))
    pattern = re.compile(rf'\b(?:{words})\b', re.I)
    problems = []
    for name in files_below(tree):
        if name == 'CONTRIBUTING.md' or not name.endswith(tuple(WITH_TEXT)):
            continue
        for number, line in enumerate(tree.read(name).split('\n'), 1):
            text = line if name.endswith(DOCUMENT) else ' '.join(
                PART.findall(line))
            found = pattern.search(text)
            if found:
                problems.append((f'{name}:{number}',
                                 f'{name}:{number}: "{found[0]}"'))
    return problems


# Where versions are not facts about Linux, QEMU or rdma-core, but a choice.
CHOOSING = ('Makefile', 'ci', 'tests', '.github')
CHOICE = r'(?:driver|kernel|linux|vmlinuz|initrd|source|rdma-core|qemu)[-/ ]'
# Examples of output, and the versions that packages refuse.
IN_USE = ('main', 'old', 'new', 'long')      # not watch, whose names are words
NAMES_VERSIONS = {'ci/versions', 'tests/recipes/test_debs.py'}


def versions_listed(tree):
    """only ci/versions names the kernels, rdma-cores and QEMUs in use"""
    series = '|'.join(re.escape(version)
                      for kind in ('kernel', 'rdma-core', 'qemu')
                      for version in versions.listed(kind, *IN_USE))
    pattern = re.compile(rf'["\'](?:{series})["\']|\b{CHOICE}(?:{series})\b(?!\.\d)')
    problems = []
    for name in files_below(tree, *CHOOSING):
        if name in NAMES_VERSIONS or name.endswith(DOCUMENT) or not (
                name.endswith(('.py', '.sh', '.yml', 'Makefile', '/inputs')) or
                '.' not in name.rsplit('/', maxsplit=1)[-1]):
            continue
        try:
            lines = tree.read(name).split('\n')
        except UnicodeDecodeError:
            continue
        problems += [(name, f'{name}:{number}: {found[0]}')
                     for number, line in enumerate(lines, 1)
                     for found in [pattern.search(line)] if found]
    return problems
