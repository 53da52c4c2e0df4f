# SPDX-License-Identifier: GPL-2.0-or-later
"""
The tests that documents name: whether pytest, unittest's list or the compiler
has them, and whether "†" and `make test-long` stand where the long ones do.
"""

import fnmatch
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from headers import SpecError

RELIABILITY = 'kernel-driver/RELIABILITY.md'
STATUS = 'tests/STATUS.md'
VM = 'tests/vm'
NAME = re.compile(r'`((?:test_|…)[\w…[\]-]*)`( †)?')
FILE = re.compile(r'\b(test_\w+)\.py\b')


def collect(tree, *options):
    """(file, test with its parameters) of each test that is run so."""
    said = subprocess.run(
        [sys.executable, '-m', 'pytest', '-c', 'pytest.ini', '--collect-only',
         '-q', '--color=no', *options], cwd=tree.path(VM), capture_output=True,
        text=True, check=False, env={**os.environ, 'PYTHONDONTWRITEBYTECODE': '1'})
    found = re.findall(r'^(?:\S*/)?(test_\w+)\.py::(.+)$', said.stdout, re.M)
    if said.returncode or not found:
        raise SpecError(f'{VM}: pytest collects nothing: {said.stdout[-500:]}'
                        f'{said.stderr[-500:]}')
    return found


def cases(tree):
    """(file, test with its parameters) -> whether it is long."""
    with ThreadPoolExecutor() as pool:
        usual, long = pool.map(lambda options: collect(tree, *options),
                               ((), ('--long',)))
    return {**dict.fromkeys(usual, False), **dict.fromkeys(long, True)}


def named_in(text):
    """(words of the row, files it may mean, name, whether "†" follows it) of
    each test in the rows of a document's tables. "…" is the function named
    before, or any part of the parameters. A row's files are its own and those
    of the paragraph above its table."""
    intro, last = [], ''
    for part in text.split('\n\n'):
        if not part.startswith('|'):
            intro = FILE.findall(part)
        for row in part.split('\n') if part.startswith('|') else ():
            files = FILE.findall(row)
            for name, dagger in NAME.findall(row):
                if name.startswith('…'):
                    name = last.split('[')[0] + name[1:]
                else:
                    last = name
                yield files + intro, name, bool(dagger)


def matches(name, test):
    """Whether a test is what is meant: NAME without parameters is all of it."""
    pattern = name.replace('…', '*').replace('[', '[[]')
    return fnmatch.fnmatchcase(test, pattern) or (
        '[' not in name and test.split('[')[0] == name)


def of_reliability(tree, known):
    problems = []
    for files, name, dagger in named_in(tree.read(RELIABILITY)):
        long = {is_long for (file, test), is_long in known.items()
                if matches(name, test) and (not files or file in files)}
        if not long:
            problems.append((name, f'{RELIABILITY}: no {name} in '
                             f'{", ".join(files) or VM}'))
        elif long != {dagger}:
            problems.append((name, f'{RELIABILITY}: {name} has '
                             f'{"a" if dagger else "no"} †, but ' + (
                                 'some of it is long' if len(long) > 1 else
                                 f'is {"" if True in long else "not "}long')))
    return problems


def says_long(row):
    return bool(re.search(r'`make test-(long|failing)`', row))


def of_status(tree, known):
    """A bare name is a file of tests/unit, or behind "vm:" one of tests/vm, or
    of rdma-core's tests."""
    pyverbs = set(re.findall(r'^(test_\w+)\.', tree.read(f'{VM}/pyverbs_56.txt'),
                             re.M))
    files = {file for file, _ in known}
    unit = {path.stem for path in tree.path('tests/unit').glob('test_*.c')}
    problems = []
    for row in re.findall(r'^\|.*', tree.read(STATUS), re.M):
        for text, target in re.findall(r'\[([^]]*test_\w+\.\w+)\]\(([^)]*)\)',
                                       row):
            if not target.endswith(text.split('/')[-1]):
                problems.append((text, f'{STATUS}: {text} leads to {target}'))
        plain = re.sub(r'\[[^]]*\]\([^)]*\)|`[^`]*`', '', row)
        before, _, behind = plain.partition('vm: ')
        for name in re.findall(r'\btest_\w+', before):
            if name not in unit | pyverbs:
                problems.append((name, f'{STATUS}: no {name} in tests/unit'))
        for name in re.findall(r'\btest_\w+', behind):
            if name not in files | pyverbs:
                problems.append((name, f'{STATUS}: no {name} in {VM}'))
        linked = set(re.findall(r'\(vm/(test_\w+)\.py\)', row))
        long = {is_long for (file, _), is_long in known.items()
                if file in linked}
        if long and (long == {True} and not says_long(row) or
                     long == {False} and says_long(row)):
            names = ', '.join(sorted(linked))
            problems.append((names, f'{STATUS}: {names}: `make test-long` is '
                             f'{"" if says_long(row) else "not "}said'))
    return problems


def problems(tree):
    known = cases(tree)
    return of_reliability(tree, known) + of_status(tree, known)
