# SPDX-License-Identifier: GPL-2.0-or-later
"""
Finds which file calls which, from the symbols of the object files.

A file calls another if its object needs a symbol of the other: for a call, in a
table of functions, or for a variable. Static inline functions count
for the file that uses them.
"""

import filecmp
import fnmatch
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / 'lab'))

from fakernic_lab import versions
from headers import HW_INCLUDE, SpecError, UAPI_INCLUDE

CACHE = Path('/cache')
DRIVER_STEP = f'driver-{versions.MAIN_KERNEL}'
ENGINE = 'qemu-hw/roce'
DEVICE = 'qemu-hw/device'
DRIVER = 'kernel-driver'
PROVIDER = 'rdma-provider'

# Folder -> ({folder of the checkout: the build's copy}, pattern of the objects, build
# step). The keys of the inner dictionary are also the folders that #include searches. The
# engine is not listed, because this program compiles it.
BUILT = {
    DEVICE: ({'qemu-hw': 'src/qemu/hw/net/fakernic',
              HW_INCLUDE: 'src/qemu/include'},
             'build/qemu/*.p/hw_net_fakernic_device_{}.c.o', 'qemu'),
    DRIVER: ({DRIVER: f'build/{DRIVER_STEP}/kernel-driver',
              UAPI_INCLUDE: f'build/{DRIVER_STEP}/kernel-driver/uapi',
              HW_INCLUDE: f'build/{DRIVER_STEP}/firmware-spec/include'},
             f'build/{DRIVER_STEP}/kernel-driver/{{}}.o', DRIVER_STEP),
    PROVIDER: ({PROVIDER: 'src/rdma-core/providers/fakernic',
                HW_INCLUDE: 'src/rdma-core/providers/fakernic',
                UAPI_INCLUDE: 'src/rdma-core/kernel-headers'},
               'build/rdma-core/providers/fakernic/CMakeFiles/*/{}.c.o',
               'rdma-core'),
}


def symbols(path):
    """(symbols that an object defines, symbols that it needs from others)"""
    output = subprocess.run(['nm', '-g', str(path)], text=True,
                            capture_output=True, check=True).stdout
    words = [line.split()[-2:] for line in output.splitlines()]
    return ({name for kind, name in words if kind not in 'Uw'},
            {name for kind, name in words if kind == 'U'})


def calls_between(objects):
    """{file: the files that it calls}, from {file: path of its object}"""
    found = {name: symbols(path) for name, path in objects.items()}
    owner = {symbol: name for name, (defined, _) in found.items()
             for symbol in defined}
    return {name: {owner[symbol] for symbol in called
                   if owner.get(symbol, name) != name}
            for name, (_, called) in found.items()}


def circles(calls):
    """The sets of files that call each other in circles (Tarjan's algorithm)."""
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
    """The C files of a folder and of the folders in it, without ".c"."""
    top = tree.path(folder)
    names = sorted(path.relative_to(top).with_suffix('').as_posix()
                   for path in top.rglob('*.c')
                   if not path.name.endswith('.mod.c'))
    if not names:
        raise SpecError(f'no sources in {folder}')
    return names


def compile_all(folder, flags, target):
    """Compiles a folder's C files without optimization. Returns {file: object}."""
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


def included(tree, name, folders):
    """The files of the checkout that file NAME includes directly. They are searched in the
    folder of NAME, then in FOLDERS."""
    found = set()
    for word in re.findall(r'^[ \t]*#[ \t]*include [<"](.*?)[>"]', tree.read(name),
                           re.M):
        there = [place / word for place in map(Path, (Path(name).parent, *folders))
                 if tree.path(place / word).is_file()]
        found |= {os.path.normpath(path) for path in there[:1]}
    return found


class Build:
    """The objects that the build made of a folder, in CACHE. They must be of the same
    sources as in the checkout."""

    def __init__(self, tree, folder, cache=CACHE):
        self.tree = tree
        self.folder = folder
        self.copies, self.pattern, self.step = BUILT[folder]
        # Meson replaces the slashes of a path by underscores.
        self.separator = '_' if '_{}' in self.pattern else '/'
        self.cache = cache
        self.included, self.times = {}, {}

    def includes(self, name):
        """The files of the checkout that file NAME includes directly."""
        if name not in self.included:
            self.included[name] = included(self.tree, name, self.copies)
        return self.included[name]

    def inputs(self, name):
        """File NAME and all files that it includes, directly or not."""
        found, ahead = set(), [name]
        while ahead:
            name = ahead.pop()
            if name not in found:
                found.add(name)
                ahead += self.includes(name)
        return found

    def time(self, source):
        """The time of the build's copy of a file; None if the copy differs."""
        if source not in self.times:
            root = max((root for root in self.copies
                        if Path(source).is_relative_to(root)), key=len)
            copy = (self.cache / self.copies[root] /
                    Path(source).relative_to(root))
            same = copy.exists() and filecmp.cmp(self.tree.path(source), copy,
                                                 shallow=False)
            self.times[source] = copy.stat().st_mtime if same else None
        return self.times[source]

    def object(self, name):
        """The object of a file. Raises SpecError if it is not of the current sources."""
        objects = list(self.cache.glob(self.pattern.format(
            name.replace('/', self.separator))))
        for source in sorted(self.inputs(f'{self.folder}/{name}.c')):
            time = self.time(source)
            if (len(objects) != 1 or time is None or
                    objects[0].stat().st_mtime < time):
                raise SpecError(f'no object of {self.folder}/{name}.c with this '
                                f'{source}: "ci/enter.sh ci/build.py '
                                f'{self.step}" makes it')
        return objects[0]


def built_objects(tree, folder):
    build = Build(tree, folder)
    return {name: build.object(name) for name in sources(tree, folder)}


def built_calls(tree, folder):
    return calls_between(built_objects(tree, folder))


def order(text):
    """{pattern of file names: rank} from the list in a header, which follows a line with
    "(tests/laws)"."""
    found = re.search(r'\(tests/laws\)[^\n]*\n \*\n(.*?)\n \*(?:/|\n)', text,
                      re.S)
    lines = [line.replace(',', ' ').strip(' *\t').split()
             for line in found.group(1).splitlines()] if found else []
    if any(word.endswith('.c') for words in lines for word in words):
        # The other words are descriptions.
        lines = [[word[:-2] for word in words if word.endswith('.c')]
                 for words in lines]
    return {name: rank for rank, names in enumerate(lines) for name in names}


def kbuild_order(text):
    """{file: rank} from the driver's Kbuild, which lists the files by folder."""
    words = [Path('' if folder == 'top' else folder, re.sub(r'\$\((\w+)-y\)', r'\1', word))
             for folder, names in re.findall(
                 r'^(core|net|rdma|top) := ((?:.*\\\n)*.*)$', text, re.M)
             for word in names.replace('\\', ' ').split()]
    return {path.as_posix(): rank for rank, path in enumerate(words)}


def order_problems(text, calls):
    """(key, complaint) of each call upwards in the list."""
    ranks = order(text)
    if not ranks:
        return [('list', 'no list of files below a line with "(tests/laws)"')]
    # The first pattern that matches counts.
    rank = {name: line for name in calls
            for pattern, line in reversed(ranks.items())
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
