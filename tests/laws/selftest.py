# SPDX-License-Identifier: GPL-2.0-or-later
"""
Proof that every law can be broken: each test plants a violation, in a copy of
the checkout or in a few lines of its own, and the law must find it.
"""

import contextlib
import io
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from unittest import mock

sys.path.append(str(Path(__file__).resolve().parents[2] / 'ci'))

import build
import callgraph
import laws
import owners
import progress
import texts
from headers import SpecError, Tree

AREAS = ('firmware-spec', 'qemu-hw', 'kernel-driver', 'rdma-provider')


def copy_of(tree, work):
    ignore = shutil.ignore_patterns('*.o', '*.ko', 'build')
    for area in AREAS:
        shutil.copytree(tree.path(area), Path(work, area), ignore=ignore,
                        symlinks=True)
    for area in ('tests/unit', 'tests/vm', 'tests/lab/fakernic_lab'):
        shutil.copytree(tree.path(area), Path(work, area), ignore=ignore)
    qtest = tree.path('tests/qtest/fakernic-fault.c')
    Path(work, 'tests/qtest').mkdir()
    shutil.copy(qtest, Path(work, 'tests/qtest'))
    shutil.copy(tree.path('.clang-format'), work)
    Path(work, 'ci').mkdir()
    for name in ('README.md', 'CONTRIBUTING.md', 'CHANGES', 'VERSION', 'Makefile',
                 'ci/build.py', 'ci/versions', 'tests/STATUS.md'):
        shutil.copy(tree.path(name), Path(work, name))
    return Tree(work)


def change(tree, name, old, new):
    text = tree.read(name)
    if old not in text:
        raise SpecError(f'{name} no longer holds "{old}": mend the self-test')
    tree.path(name).write_text(text.replace(old, new, 1), encoding='utf-8')
    return text


def complains(found, key):
    """[] if the law found the planted violation."""
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
    test.law = law.__name__
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


def planted_call(law, folder, ordered=False):
    """A test that adds an upward call to a copy of an object file, by linking. With ORDERED
    the law also checks the order of the files."""
    def test(copy):
        objects = callgraph.built_objects(copy, folder)
        calls = callgraph.calls_between(objects)
        high, low = next((high, low) for high in sorted(calls)
                         for low in sorted(calls[high]))
        symbol = sorted(callgraph.symbols(objects[high])[0])[0]
        with tempfile.TemporaryDirectory() as work:
            Path(work, 'call.c').write_text(
                f'extern char {symbol}[];\n'
                f'const void *const planted = {symbol};\n', encoding='utf-8')
            call = callgraph.compile_all(Path(work), [], Path(work))['call']
            whole = Path(work, 'whole.o')
            subprocess.run(['ld', '-r', '-o', whole, objects[low], call],
                           check=True)
            with mock.patch.object(callgraph, 'built_objects',
                                   lambda *_: {**objects, low: whole}):
                found = law(copy)
        return complains(found, low) + (
            complains(found, f'{low} -> {high}') if ordered else [])
    test.__doc__ = f'{law.__name__} finds a call up'
    test.law = law.__name__
    return test


def refused(build, name, source):
    """[] if the build has no object of a file because SOURCE differs."""
    try:
        build.object(name)
    except SpecError as error:
        return [] if f'this {source}:' in str(error) else [str(error)]
    return [f'an object without this {source} was taken']


def other_source(copy):
    """a source that the build does not have is found, and a header"""
    problems = []
    for source in ('rdma-provider/cq.c', 'rdma-provider/queue.h',
                   'firmware-spec/include/fakernic/base.h',
                   'kernel-driver/uapi/rdma/fakernic-abi.h'):
        text = change(copy, source, '\n', '\n\n')
        problems += refused(callgraph.Build(copy, callgraph.PROVIDER), 'cq',
                            source)
        copy.path(source).write_text(text, encoding='utf-8')
    return problems


def older_object(_):
    """an object is found that is older than a header it includes, also by
    another, and one that is gone"""
    copies, pattern, _ = callgraph.BUILT[callgraph.PROVIDER]
    header = 'firmware-spec/include/fakernic/three.h'
    texts = {'rdma-provider/one.c': '#include "two.h"\n',
             'rdma-provider/two.h': '# include <fakernic/three.h>\n',
             header: '\n'}
    with tempfile.TemporaryDirectory() as work:
        top, cache = Path(work, 'top'), Path(work, 'cache')
        built = cache / pattern.replace('*', 'any').format('one')
        there = {source: cache / folder / Path(source).relative_to(root)
                 for source in texts for root, folder in copies.items()
                 if Path(source).is_relative_to(root)}
        for path, text in [*((top / source, text) for source, text
                             in texts.items()),
                           *((there[source], text) for source, text
                             in texts.items()), (built, '')]:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding='utf-8')
            os.utime(path, (1000, 1000))

        def build():
            return callgraph.Build(Tree(top), callgraph.PROVIDER, cache)
        problems = [] if build().object('one') == built else ['another object']
        os.utime(there[header], (1001, 1001))
        problems += refused(build(), 'one', header)
        os.utime(built, (1001, 1001))
        build().object('one')
        built.unlink()
        return problems + refused(build(), 'one', header)


def finds_checkpatch(copy):
    """checkpatch finds a line that ends with a blank"""
    path = copy.path('kernel-driver/planted.c')
    path.write_text('// SPDX-License-Identifier: GPL-2.0-only\nint x; \n',
                    encoding='utf-8')
    said = laws.checkpatch_file(copy, 'kernel-driver/planted.c')
    path.unlink()
    return [] if 'trailing whitespace' in said else [f'it said "{said}"']


finds_checkpatch.law = 'checkpatch'


def badly_formatted(name, old, new):
    """A test that gives a line of a file another indentation."""
    def formatted(copy):
        return laws.formatted(copy, [name])
    return planted(formatted, name, old, new, name)


def step_keys(_copy):
    """a build step runs no script that is not an input of its key; a sourced
    script is an input, too"""
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


def packages_tell(_copy):
    """a package that takes long tells how far it is, and not what its log of
    an earlier time says"""
    def build_slowly(*_, **__):
        time.sleep(1)
        return subprocess.CompletedProcess('', 0, '  package planted 1s\n', '')

    out = io.StringIO()
    with tempfile.TemporaryDirectory() as work:
        log = Path(work, 'package-planted.log')
        log.write_text('[7/7]\n', encoding='utf-8')
        os.utime(log, (0, 0))
        with mock.patch.object(build, 'LOG', Path(work)), \
                mock.patch.object(build.subprocess, 'run', build_slowly), \
                mock.patch.object(progress, 'OTHERS_S', 0.1), \
                contextlib.redirect_stdout(out):
            build.build_package('planted')
    lines = [' '.join(line.split()) for line in out.getvalue().splitlines()]
    good = (lines[1:] and lines[-1] == 'package planted 1s' and
            all(line.endswith(' so far') for line in lines[:-1]))
    return [] if good else [f'it said {lines}']


LONG = 'void planted(void)\n{\n' + '    planted();\n' * 70 + '}\n'


def planted_write(struct, field):
    header, _ = owners.OWNERS[struct]
    test = planted(laws.fields_written, 'qemu-hw/roce/credit.c',
                   '#include "credit.h"',
                   f'#include "credit.h"\n#include "{header}"\n'
                   f'void planted({struct} *s);\n'
                   f'void planted({struct} *s) {{ s->{field}++; }}\n',
                   'credit.c')
    test.__doc__ = f'fields_written finds who writes a {struct}'
    return test


def without_contract(header):
    folder = next(folder for folder in (
        callgraph.ENGINE, callgraph.DEVICE, 'qemu-hw/fault', laws.SWITCH,
        callgraph.DRIVER, callgraph.PROVIDER) if Path(header).is_relative_to(folder))
    return planted(laws.contracts(folder), header, '\n#endif',
                   '\n\nvoid planted(void);\n#endif', 'planted')


def untested(_):
    """each law has a test here"""
    tested = {getattr(test, 'law', None) for test in TESTS}
    return [f'{law.__name__} has none' for law in laws.LAWS
            if law.__name__ not in tested]


TESTS = (
    finds_circle, finds_upward_call, other_source, older_object,
    finds_checkpatch, step_keys, packages_tell, untested,
    planted_call(laws.device_calls, callgraph.DEVICE, True),
    planted_call(laws.driver_calls, callgraph.DRIVER, True),
    planted_call(laws.provider_calls, callgraph.PROVIDER),
    planted_write('RoceSendq', 'pi'), planted_write('RoceRetry', 'deadline'),
    planted_write('RoceWindow', 'size'),
    planted(laws.engine_calls, 'qemu-hw/roce/rate.c', '#include "rate.h"',
            '#include "rate.h"\nvoid planted(Roce *r);\n'
            'void planted(Roce *r) { roce_reset(r); }\n',
            'rate -> roce'),
    planted(laws.engine_headers_alone, 'qemu-hw/roce/rate.h',
            '#endif', 'RoceSendq planted;\n#endif', 'rate.h'),
    planted(laws.switch_alone, 'qemu-hw/eswitch/eswitch.c', '#include "eswitch.h"',
            '#include "eswitch.h"\n#include "../roce/ether.h"', 'eswitch.c'),
    without_contract('qemu-hw/roce/rate.h'),
    planted(laws.fields_saved, 'qemu-hw/roce/window.h', '    uint32_t max;\n',
            '    uint32_t max;\n    bool planted;\n', 'RoceWindow'),
    planted(laws.fields_saved, 'qemu-hw/roce/wr.c',
            'ROCE_FIELD(s, wr->bind_mw.new_key);', ';', 'RoceSendWr'),
    without_contract('qemu-hw/device/queue/ring.h'),
    without_contract('qemu-hw/fault/rules.h'),
    without_contract('qemu-hw/eswitch/eswitch.h'),
    without_contract('kernel-driver/rdma/pd.h'),
    without_contract('rdma-provider/pd.h'),
    badly_formatted('qemu-hw/roce/toeplitz.c', '{\n    ', '{\n      '),
    badly_formatted('kernel-driver/rdma/pd.c', '{\n\t', '{\n\t\t'),
    planted(laws.columns, 'qemu-hw/roce/toeplitz.c', '{\n',
            '{\n' + ' ' * 80 + ';\n', 'qemu-hw/roce/toeplitz.c'),
    planted(laws.schema_comments, 'qemu-hw/qmp/fakernic.json',
            '# Where a fault rule is asked.', '# Where a rule' + ' is' * 20,
            'qemu-hw/qmp/fakernic.json'),
    planted(laws.schema_comments, 'qemu-hw/qmp/fakernic.json',
            '# Where a fault rule is asked.', '# It is asked. Where?',
            'qemu-hw/qmp/fakernic.json'),
    planted(laws.function_length, 'qemu-hw/roce/rate.c', '#include "rate.h"\n',
            '#include "rate.h"\n' + LONG, 'planted'),
    planted(laws.parameter_count, 'qemu-hw/roce/rate.c',
            '#include "rate.h"\n', '#include "rate.h"\nvoid planted(int a, '
            'int (*b)(int, int), int c, int d,\n             int e, int f, '
            'int g)\n{\n}\n', 'planted'),
    planted(laws.no_todo, 'qemu-hw/roce/rate.c', '#include "rate.h"\n',
            '#include "rate.h"\n/* TODO */\n', 'qemu-hw/roce/rate.c'),
    planted(laws.unit_map, 'tests/unit/README.md', '| rate.c |', '| ratio.c |',
            'rate'),
    planted(laws.document_links, 'qemu-hw/README.md', '# fakernic for QEMU',
            '# fakernic [for](for/nothing.md) QEMU', 'qemu-hw/README.md'),
    planted(laws.recipe_files, 'CONTRIBUTING.md', '`kernel-driver/core/cmd.c`',
            '`kernel-driver/nothing.c`', 'kernel-driver/nothing.c'),
    planted(laws.readme_length, 'README.md', '# fakernic\n',
            '# fakernic\n' + '\n' * laws.README_LINES, 'README.md'),
    planted(laws.change_log, 'CHANGES', '\n## ', '\n## 9.9\n\n## ',
            'CHANGES'),
    planted(laws.change_log, 'VERSION', '0.', 'v0.', 'VERSION'),
    planted(laws.make_targets, 'qemu-hw/README.md', '# fakernic for QEMU',
            '# fakernic for QEMU: `make\nnothing BUILD=x`',
            'qemu-hw/README.md'),
    planted(laws.make_targets, 'kernel-driver/README.md',
            '    make -C kernel-driver   ', '    make -C kernel-driver nothing',
            'kernel-driver/README.md'),
    planted(laws.make_targets, 'Makefile', '\ntest-intree:', '\nintree:',
            'kernel-driver/README.md'),
    planted(laws.run_builds_little, 'Makefile', '--together qemu-plugin image',
            '--together qemu image', 'qemu'),
    planted(laws.run_builds_little, 'ci/build.py',
            '    build_provider()\n    for kernel in KERNELS:',
            '    build_rdma_core()\n    for kernel in KERNELS:', 'rdma-core'),
    planted(laws.targets_tell, 'Makefile', 'ci/run_tests.py many',
            'python3 -m pytest tests/lab/test_many.py', 'test-many'),
    planted(laws.ways_in, 'qemu-hw/device/queue/rq.c', '#include "rq.h"',
            '#include "rq.h"\nvoid planted(FakernicState *s);\n'
            'void planted(FakernicState *s) { qemu_bh_new(NULL, s); }\n',
            'rq'),
    planted(laws.memory_of_dma, 'qemu-hw/device/queue/rq.c', '#include "rq.h"',
            '#include "rq.h"\nvoid planted(FakernicState *s);\n'
            'void planted(FakernicState *s) '
            '{ pci_dma_sync(PCI_DEVICE(s), 0); }\n', 'rq'),
    planted(laws.barriers_explained, 'qemu-hw/device/queue/rq.c',
            '#include "rq.h"', '#include "rq.h"\nvoid planted(void);\n'
            'void planted(void)\n{\n    int a = 0;\n    (void)a;\n'
            '    smp_mb();\n}\n', 'qemu-hw/device/queue/rq.c'),
    planted(laws.entries_copied, 'kernel-driver/net/channel.c',
            '\tstruct fakernic_cqe cqe;\n\tint work',
            '\tstruct fakernic_cqe *cqe = NULL;\n\tint work', 'channel'),
    planted(laws.ways_in, 'qemu-hw/device/fakernic.c',
            'pc->exit = fakernic_exit;',
            'pc->exit = fakernic_exit;\n    dc->unrealize = fakernic_exit;',
            'fakernic'),
    planted(laws.doors_gated, 'qemu-hw/device/doors.c',
            '    if (fakernic_enter(s)) {\n        fakernic_clock_fired(s);',
            '    {\n        fakernic_clock_fired(s);', 'fakernic_timer'),
    planted(laws.doors_gated, 'qemu-hw/device/fakernic.c',
            'return fakernic_present(s, errp) ? fakernic_look(s, errp) : NULL;',
            'return fakernic_look(s, errp);', 'fakernic_get_look'),
    planted(laws.fault_cells, 'tests/qtest/fakernic-fault.c',
            '"fault/cqe-overrun"', '""', 'cqe-overrun'),
    planted(laws.fault_cells, 'qemu-hw/fault/rules.c',
            '{ "page-list", ON_READS }', '{ "page-list", ON_STORES }',
            'page-list-duplicate'),
    planted(laws.names_apart, 'kernel-driver/main.c', 'fakernic_module_exit(void)',
            'fakernic_dm_make(void)', 'fakernic_dm_make'),
    planted(laws.include_depth, 'qemu-hw/device/state.h',
            '#include "table.h"', '#include "queue/cq.h"', 'turn'),
    planted(texts.plain_english, 'README.md', '# fakernic\n',
            '# fakernic\nThe device is told.\n', 'README.md:3'),
    planted(texts.versions_listed, 'ci/build.py', 'BUILD = ',
            'KERNEL = "%s"\nBUILD = ' % build.KERNELS[0], 'ci/build.py'),
    planted(laws.rules_behind_gate, 'qemu-hw/device/queue/interrupt.c',
            'fakernic_gate_interrupt(s, vector)',
            'fakernic_fault_interrupt(s, vector)', 'queue/interrupt.c'),
    planted(laws.rules_behind_gate, 'qemu-hw/device/dma.c',
            'fakernic_gate_fails(hit)', 'hit->act == ROCE_FAULT_FAIL', 'dma.c'),
    planted(laws.tests_named, 'tests/STATUS.md', 'vm: test_atomics |',
            'vm: test_planted |', 'test_planted'),
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
