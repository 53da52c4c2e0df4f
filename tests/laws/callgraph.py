# SPDX-License-Identifier: GPL-2.0-or-later
"""
Who calls whom, file by file, as the object files say.

A file calls another when its object needs a symbol of the other's, be it for a
call, in a table of functions, or for a variable. Static inline functions count
for the file that uses them.
"""

import filecmp
import fnmatch
import re
import subprocess
import tempfile
from pathlib import Path

from headers import HW_INCLUDE, SpecError

CACHE = Path('/cache')
ENGINE = 'qemu-hw/roce'
DEVICE = 'qemu-hw/device'
DRIVER = 'kernel-driver'
PROVIDER = 'rdma-provider'

# Folder -> (the build's copy of its sources, a pattern of its objects, the
# build step). The engine is compiled here.
BUILT = {
    DEVICE: ('src/qemu/hw/net/fakernic/device',
             'build/qemu/*.p/hw_net_fakernic_device_{}.c.o', 'qemu'),
    DRIVER: ('build/driver-6.12/kernel-driver',
             'build/driver-6.12/kernel-driver/{}.o', 'driver-6.12'),
    PROVIDER: ('src/rdma-core/providers/fakernic',
               'build/rdma-core/providers/fakernic/CMakeFiles/*/{}.c.o',
               'rdma-core'),
}


def symbols(path):
    """What an object defines for others, and what it takes from others."""
    output = subprocess.run(['nm', '-g', str(path)], text=True,
                            capture_output=True, check=True).stdout
    words = [line.split()[-2:] for line in output.splitlines()]
    return ({name for kind, name in words if kind not in 'Uw'},
            {name for kind, name in words if kind == 'U'})


def calls_between(objects):
    """{file: the files it calls} of {file: path of its object}."""
    found = {name: symbols(path) for name, path in objects.items()}
    owner = {symbol: name for name, (defined, _) in found.items()
             for symbol in defined}
    return {name: {owner[symbol] for symbol in called
                   if owner.get(symbol, name) != name}
            for name, (_, called) in found.items()}


def circles(calls):
    """The sets of files that reach one another (Tarjan's algorithm)."""
    index, low, stack, result = {}, {}, [], []

    def visit(name):
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in sorted(calls[name]):
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            circle = set()
            while name not in circle:
                circle.add(stack.pop())
            if len(circle) > 1:
                result.append(circle)

    for name in sorted(calls):
        if name not in index:
            visit(name)
    return result


def sources(tree, folder):
    names = sorted(p.stem for p in tree.path(folder).glob('*.c'))
    if not names:
        raise SpecError(f'no sources in {folder}')
    return names


def compile_all(folder, flags, target):
    """{file: object} of a folder's C files, compiled without optimization."""
    running = []
    for path in sorted(folder.glob('*.c')):
        out = target / f'{path.stem}.o'
        running.append((path.stem, out, subprocess.Popen(
            ['gcc', '-std=c11', '-w', '-c', *flags, '-o', out, path],
            stderr=subprocess.PIPE, text=True)))
    objects = {}
    for name, out, process in running:
        said = process.communicate()[1]
        if process.returncode:
            raise SpecError(f'{name}.c does not compile:\n{said}')
        objects[name] = out
    return objects


def engine_calls(tree):
    with tempfile.TemporaryDirectory() as work:
        return calls_between(compile_all(
            tree.path(ENGINE), ['-I', tree.path(ENGINE),
                                '-I', tree.path(HW_INCLUDE)], Path(work)))


def built_object(tree, folder, name):
    """A file's object in the build; of these very sources, or an error."""
    copies, pattern, step = BUILT[folder]
    copy = CACHE / copies / f'{name}.c'
    objects = list(CACHE.glob(pattern.format(name)))
    if (len(objects) != 1 or not copy.exists() or not filecmp.cmp(
            tree.path(f'{folder}/{name}.c'), copy, shallow=False) or
            objects[0].stat().st_mtime < copy.stat().st_mtime):
        raise SpecError(f'no object of this {folder}/{name}.c: '
                        f'"ci/enter.sh ci/build.py {step}" makes it')
    return objects[0]


def built_calls(tree, folder):
    return calls_between({name: built_object(tree, folder, name)
                          for name in sources(tree, folder)})


def order(text):
    """The files of a header's list, below a line with "(tests/laws)": {a
    pattern of their names: line}."""
    found = re.search(r'\(tests/laws\)[^\n]*\n \*\n(.*?)\n \*(?:/|\n)', text,
                      re.S)
    lines = [line.replace(',', ' ').strip(' *\t').split()
             for line in found.group(1).splitlines()] if found else []
    if any(word.endswith('.c') for words in lines for word in words):
        # The others describe them.
        lines = [[word[:-2] for word in words if word.endswith('.c')]
                 for words in lines]
    return {name: rank for rank, names in enumerate(lines) for name in names}


def order_problems(text, calls):
    """(key, complaint) of every call up the list."""
    ranks = order(text)
    if not ranks:
        return [('list', 'no list of files below a line with "(tests/laws)"')]
    rank = {name: line for name in calls for pattern, line in ranks.items()
            if fnmatch.fnmatch(name, pattern)}
    problems = [(name, f'{name} is not on the list')
                for name in sorted(set(calls) - set(rank))]
    problems += [(pattern, f'{pattern} is on the list and no file')
                 for pattern in sorted(ranks)
                 if not fnmatch.filter(calls, pattern)]
    for name in sorted(rank):
        problems += [(f'{name} -> {other}', f'{name} calls {other}, which is '
                      'above it')
                     for other in sorted(calls[name] & set(rank))
                     if rank[other] < rank[name]]
    return problems
