# SPDX-License-Identifier: GPL-2.0-or-later
"""
Proof that every law can be broken: each test plants a violation, in a copy of
the checkout or in a few lines of its own, and the law must find it.
"""

import shutil
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / 'ci'))

import build
import callgraph
import laws
from headers import SpecError, Tree

AREAS = ('firmware-spec', 'qemu-hw', 'kernel-driver', 'rdma-provider')


def copy_of(tree, work):
    ignore = shutil.ignore_patterns('*.o', '*.ko', 'build')
    for area in AREAS:
        shutil.copytree(tree.path(area), Path(work, area), ignore=ignore,
                        symlinks=True)
    shutil.copytree(tree.path('tests/unit'), Path(work, 'tests/unit'),
                    ignore=ignore)
    shutil.copy(tree.path('.clang-format'), work)
    shutil.copy(tree.path('README.md'), work)
    return Tree(work)


def change(tree, name, old, new):
    text = tree.read(name)
    if old not in text:
        raise SpecError(f'{name} no longer holds "{old}": mend the self-test')
    tree.path(name).write_text(text.replace(old, new, 1), encoding='utf-8')
    return text


def complains(found, key):
    """[] when the law found what was planted."""
    return [] if key in {key for key, _ in found} else [
        f'{key} is not found, but: {[text for _, text in found] or "nothing"}']


def planted(law, name, old, new, key):
    """A test that changes one file of the copy."""
    def test(copy):
        text = change(copy, name, old, new)
        try:
            return complains(law(copy), key)
        finally:
            copy.path(name).write_text(text, encoding='utf-8')
    test.__doc__ = f'{law.__name__} finds: {key}'
    return test


def calls_of(sources):
    with tempfile.TemporaryDirectory() as work:
        for name, text in sources.items():
            Path(work, name).write_text(text, encoding='utf-8')
        objects = callgraph.compile_all(Path(work), [], Path(work))
        return callgraph.calls_between(objects)


def finds_circle(_):
    """a circle of calls is found, also through a table of functions"""
    calls = calls_of({
        'one.c': 'void two(void); void one(void) { two(); }',
        'two.c': 'void three(void); void (*const op)(void) = three;'
                 'void two(void) { op(); }',
        'three.c': 'void one(void); void three(void) { one(); }',
        'four.c': 'void one(void); void four(void) { one(); }'})
    found = callgraph.circles(calls)
    return [] if found == [{'one', 'two', 'three'}] else [f'found {found}']


def finds_upward_call(_):
    """a call up the list is found, and a file that is not on it"""
    text = ('/*\n * Downwards (tests/laws):\n *\n *  a.c  b_*.c   the first\n'
            ' *  c.c    the last\n *\n */')
    calls = {'a': {'b_one'}, 'b_one': {'c'}, 'c': {'b_one'}, 'd': set()}
    found = {key for key, _ in callgraph.order_problems(text, calls)}
    return [] if found == {'c -> b_one', 'd'} else [f'found {found}']


def stale_object(copy):
    """a source that the build does not have is found"""
    name = callgraph.sources(copy, callgraph.PROVIDER)[0]
    change(copy, f'{callgraph.PROVIDER}/{name}.c', '\n', '\n\n')
    try:
        callgraph.built_calls(copy, callgraph.PROVIDER)
    except SpecError as error:
        return [] if f'{name}.c' in str(error) else [str(error)]
    return ['an object of other sources was taken']


def finds_checkpatch(copy):
    """checkpatch finds a line that ends with a blank"""
    path = copy.path('kernel-driver/planted.c')
    path.write_text('// SPDX-License-Identifier: GPL-2.0-only\nint x; \n',
                    encoding='utf-8')
    said = laws.checkpatch_file(copy, 'kernel-driver/planted.c')
    return [] if 'trailing whitespace' in said else [f'it said "{said}"']


def formatted(copy):
    return laws.formatted(copy, ['qemu-hw/roce/toeplitz.c'])


def step_keys(_copy):
    """a build step runs no script that its key does not hold; what a script
    sources is held with it"""
    fetch = build.SRC / 'ci/fetch-source.sh'
    held = build.digest([], [fetch]).files
    if held != {str(fetch), str(build.SRC / 'ci/apt.sh')}:
        return [f'the key of {fetch} holds {sorted(held)}']
    empty = build.digest()
    try:
        build.Step('planted', empty, empty).run(fetch)
    except build.StepFailed as failure:
        return [] if str(fetch) in str(failure) else [str(failure)]
    return ['it ran']


LONG = 'void planted(void)\n{\n' + '    planted();\n' * 70 + '}\n'

TESTS = (
    finds_circle, finds_upward_call, stale_object, finds_checkpatch, step_keys,
    planted(laws.fields_written, 'qemu-hw/roce/credit.c', '#include "credit.h"',
            '#include "credit.h"\n#include "sendq.h"\n'
            'void planted(RoceSendq *sq);\n'
            'void planted(RoceSendq *sq) { sq->pi++; }\n', 'credit.c'),
    planted(laws.engine_calls, 'qemu-hw/roce/rate.c', '#include "rate.h"',
            '#include "rate.h"\nvoid planted(Roce *r);\n'
            'void planted(Roce *r) { roce_reset(r); }\n',
            'rate -> roce'),
    planted(laws.engine_headers_alone, 'qemu-hw/roce/rate.h',
            '#endif', 'RoceSendq planted;\n#endif', 'rate.h'),
    planted(laws.contracts(callgraph.ENGINE), 'qemu-hw/roce/rate.h',
            '#endif', 'void planted(void);\n#endif', 'planted'),
    planted(formatted, 'qemu-hw/roce/toeplitz.c', '{\n    ',
            '{\n      ', 'qemu-hw/roce/toeplitz.c'),
    planted(laws.columns, 'qemu-hw/roce/toeplitz.c', '{\n',
            '{\n' + ' ' * 80 + ';\n', 'qemu-hw/roce/toeplitz.c'),
    planted(laws.function_length, 'qemu-hw/roce/rate.c', '#include "rate.h"\n',
            '#include "rate.h"\n' + LONG, 'planted'),
    planted(laws.no_todo, 'qemu-hw/roce/rate.c', '#include "rate.h"\n',
            '#include "rate.h"\n/* TODO */\n', 'qemu-hw/roce/rate.c'),
    planted(laws.unit_map, 'tests/unit/README.md', '| rate.c |', '| ratio.c |',
            'rate'),
    planted(laws.document_links, 'qemu-hw/README.md', '# fakernic for QEMU',
            '# fakernic [for](for/nothing.md) QEMU', 'qemu-hw/README.md'),
)


def run(tree):
    """Yields (description, problems) of every test."""
    with tempfile.TemporaryDirectory() as work:
        copy = copy_of(tree, work)
        for test in TESTS:
            try:
                yield test.__doc__, test(copy)
            except SpecError as error:
                yield test.__doc__, [str(error)]
