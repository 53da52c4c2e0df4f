# SPDX-License-Identifier: GPL-2.0-or-later
"""
The laws: rules about the structure of the code. Each function takes a Tree and
returns (key, complaint) pairs, none if the law holds. Its docstring states the law.
known.py has the known violations.
"""

import ast
import hashlib
import itertools
import os
import re
import shlex
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path

import callgraph
import layout
import owners
import saved
import texts
from headers import HW_INCLUDE, SpecError, strip_comments

FUNCTION_LINES = 70
PARAMETERS = 6
CHECKPATCH = '/opt/checkpatch/checkpatch.pl'
SCHEMA = 'qemu-hw/qmp/fakernic.json'
SCHEMA_COLUMNS = 70
KERNEL_STYLE = ('kernel-driver',)
DOCUMENTS = ('.md', '.rst')
README_LINES = 120


# ---- order of calls ----------------------------------------------------------

def no_circle(calls):
    return [(name, f'{name} is in the circle {", ".join(sorted(circle))}')
            for circle in callgraph.circles(calls) for name in sorted(circle)]


def engine_calls(tree):
    """the engine's files call downwards, in the order that engine.h lists"""
    calls = callgraph.engine_calls(tree)
    return no_circle(calls) + callgraph.order_problems(
        tree.read(f'{callgraph.ENGINE}/engine.h'), calls)


def device_calls(tree):
    """the device's files call downwards, in the order that state.h lists"""
    calls = callgraph.built_calls(tree, callgraph.DEVICE)
    return no_circle(calls) + callgraph.order_problems(
        tree.read(f'{callgraph.DEVICE}/state.h'), calls)


def driver_calls(tree):
    """the driver's files call downwards, in the order that Kbuild lists; net/
    and rdma/ do not call each other"""
    calls = callgraph.built_calls(tree, callgraph.DRIVER)
    rank = callgraph.kbuild_order(tree.read(f'{callgraph.DRIVER}/Kbuild'))
    problems = [(name, f'{name} is not in Kbuild, or not on disk')
                for name in sorted(set(calls) ^ set(rank))]
    for name in sorted(set(calls) & set(rank)):
        for other in sorted(calls[name] & set(rank)):
            folders = {name.split('/')[0], other.split('/')[0]}
            if rank[other] > rank[name]:
                problems.append((f'{name} -> {other}', f'{name} calls {other}, '
                                 'which is after it in Kbuild'))
            elif folders == {'net', 'rdma'}:
                problems.append((f'{name} -> {other}',
                                 f'{name} calls {other}, in another folder'))
    return no_circle(calls) + problems


def provider_calls(tree):
    """the provider's files do not call in a circle"""
    return no_circle(callgraph.built_calls(tree, callgraph.PROVIDER))


# ---- owners of fields --------------------------------------------------------

def fields_written(tree):
    """a structure with an owner is written by that file alone"""
    return [problem for struct in owners.OWNERS
            for problem in owners.writers(tree, struct)]


def fields_saved(tree):
    """every field of an object is saved, or marked as derived"""
    return saved.forgotten(tree)


# ---- what it looks like ------------------------------------------------------

def formatted(tree, names=()):
    """indentation and blanks are clang-format's ("make format")"""
    problems = []
    for name, text in layout.formatted(tree, names).items():
        own = tree.read(name)
        if own != text:
            line = next((number for number, (a, b) in enumerate(
                zip(own.split('\n'), text.split('\n')), 1) if a != b), 0)
            problems.append((name, f'{name}: from line {line} on'))
    return problems


def columns(tree):
    """C files keep to 80 columns, except texts, which are not broken"""
    return [(name, f'{name}:{number}: {layout.width(line)} columns')
            for name in layout.files(tree)
            for number, line in enumerate(tree.read(name).split('\n'), 1)
            if layout.width(line) > layout.COLUMNS and '"' not in line]


def schema_comments(tree):
    """QMP's schema has comments as QEMU 10.2 and later parse them"""
    blocks = re.sub(r'^##\n(.*?)^##\n', lambda block: re.sub(
        r'^#', '##', block[0], flags=re.M), tree.read(SCHEMA),
        flags=re.M | re.S)
    problems = []
    for number, line in enumerate(blocks.split('\n'), 1):
        text = line[1:] if line.startswith('##') else ''
        if len(text) > SCHEMA_COLUMNS:
            problems.append((SCHEMA, f'{SCHEMA}:{number}: {len(text)} columns '
                             f'of a comment, {SCHEMA_COLUMNS} are allowed'))
        if re.search('[.!?] [A-Z0-9(]', text):
            problems.append((SCHEMA, f'{SCHEMA}:{number}: a sentence of a '
                             'comment begins after two blanks'))
    return problems


def checkpatch_file(tree, name):
    """The output of checkpatch for a file. It is cached by a hash of all inputs."""
    path = tree.path(name)
    top = tree.path(KERNEL_STYLE[0])
    key = hashlib.sha256(path.read_bytes())
    for other in (CHECKPATCH, top / '.checkpatch.conf'):
        key.update(Path(other).read_bytes())
    memory = os.environ.get('LAWS_MEMORY')
    store = Path(memory, f'checkpatch-{key.hexdigest()}') if memory else None
    if store and store.exists():
        return store.read_text(encoding='utf-8')
    # TRACE_EVENT() is laid out as in the kernel's own headers.
    ignored = (['--ignore', 'OPEN_ENDED_LINE,PARENTHESIS_ALIGNMENT']
               if path.name == 'trace.h' else [])
    said = subprocess.run(
        [CHECKPATCH, '--no-summary', '--terse', '--no-color', *ignored,
         '-f', f'./{path.relative_to(top)}'],
        cwd=top, capture_output=True, text=True, check=False).stdout
    if store:
        store.write_text(said, encoding='utf-8')
    return said


def checkpatch(tree):
    """checkpatch.pl --strict has nothing to say of the driver"""
    if not Path(CHECKPATCH).exists():
        raise SpecError(f'{CHECKPATCH} is missing: run inside ci/enter.sh')
    names = [path.relative_to(tree.top) for area in KERNEL_STYLE
             for path in sorted(tree.path(area).rglob('*.[ch]'))
             if 'uapi' not in path.parts]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        said = pool.map(lambda name: checkpatch_file(tree, name), names)
    return [(line, f'{KERNEL_STYLE[0]}/{line}')
            for text in said for line in text.splitlines()]


def functions(text):
    """Yields (name, first line, number of lines) of each function, found by its braces."""
    lines, start = text.split('\n'), None
    for number, line in enumerate(lines):
        if line == '{':
            start = number
        elif line == '}' and start is not None:
            head = start - 1
            while head > 0 and lines[head][:1] in (' ', '\t'):
                head -= 1
            name = re.search(r'(\w+)\(', lines[head])
            if name:
                yield name.group(1), head + 1, number - head + 1
            start = None


def function_length(tree):
    """a function has 70 lines at most"""
    return [(found, f'{name}:{line}: {found} has {count} lines')
            for name in layout.files(tree)
            for found, line, count in functions(tree.read(name))
            if count > FUNCTION_LINES]


def parameters(text):
    """(name, line, number of parameters) of a file's functions."""
    lines = strip_comments(text).split('\n')
    for found, line, _ in functions('\n'.join(lines)):
        head = ' '.join(itertools.takewhile(lambda row: row != '{',
                                            lines[line - 1:]))
        depth, count = 0, 1
        for sign in head[head.index(f'{found}(') + len(found):]:
            depth += {'(': 1, ')': -1}.get(sign, 0)
            count += sign == ',' and depth == 1
            if not depth:
                break
        yield found, line, count


def parameter_count(tree):
    """a function has 6 parameters at most"""
    return [(found, f'{name}:{line}: {found} has {count} parameters')
            for name in layout.files(tree)
            for found, line, count in parameters(tree.read(name))
            if count > PARAMETERS]


def no_todo(tree):
    """what is to be done is no comment"""
    return [(name, f'{name}:{number}: {line.strip()}')
            for name in layout.files(tree)
            for number, line in enumerate(tree.read(name).split('\n'), 1)
            if re.search(r'\b(TODO|FIXME|XXX|HACK)\b', line)]


# ---- what a header says ------------------------------------------------------

PROTOTYPE = re.compile(r'^(?!typedef|return|static|struct \w+ \{|FAKERNIC_SIZE|'
                       r'OBJECT_|DECLARE_|BUILD_)[A-Za-z_][\w \t*]*'
                       r'\b(\w+)\((?!\*)')


def prototypes(text):
    """(name, line, has a comment above it) of each prototype."""
    lines, number = text.split('\n'), 0
    while number < len(lines):
        found = PROTOTYPE.match(lines[number])
        end = number
        while (found and end + 1 < len(lines)
               and not re.search(r'[;{]', lines[end])):
            end += 1
        if found and lines[end].split('/*')[0].rstrip().endswith(';'):
            above = lines[number - 1].rstrip() if number else ''
            yield found.group(1), number + 1, above.endswith('*/')
        number = end + 1


def contracts(folder):
    def law(tree):
        return [(name, f'{path.name}:{line}: {name} has no contract')
                for path in sorted(tree.path(folder).rglob('*.h'))
                for name, line, told in prototypes(
                    path.read_text(encoding='utf-8')) if not told]
    law.__name__ = 'contracts_' + folder.split('/')[-1].replace('-', '_')
    law.__doc__ = f'each prototype in {folder} has a comment above it'
    return law


def engine_headers_alone(tree):
    """each header of the engine compiles alone"""
    engine = tree.path(callgraph.ENGINE)
    problems = []
    for path in sorted(engine.glob('*.h')):
        said = subprocess.run(
            ['gcc', '-std=c11', '-Wall', '-Wextra', '-Werror', '-fsyntax-only',
             '-I', engine, '-I', tree.path(HW_INCLUDE), '-x', 'c', '-'],
            input=f'#include "{path.name}"\n', capture_output=True, text=True,
            check=False)
        if said.returncode:
            problems.append((path.name, f'{path.name}: {said.stderr}'))
    return problems


SWITCH = 'qemu-hw/eswitch'


def switch_alone(tree):
    """the embedded switch includes its own header, interface headers and libc only"""
    own = {path.name for path in tree.path(SWITCH).glob('*.h')}
    problems = []
    for path in sorted(tree.path(SWITCH).glob('*.[ch]')):
        problems += [(path.name, f'{SWITCH}/{path.name} includes {name}')
                     for name in re.findall(r'^#include "(.*)"', path.read_text('utf-8'),
                                            re.M)
                     if name not in own and not name.startswith('fakernic/')]
        said = subprocess.run(
            ['gcc', '-std=c11', '-Wall', '-Wextra', '-Werror', '-fsyntax-only',
             '-I', tree.path(HW_INCLUDE), '-I', path.parent, '-x', 'c', '-'],
            input=f'#include "{path.name}"\n', capture_output=True, text=True,
            check=False)
        if said.returncode:
            problems.append((path.name, f'{path.name}: {said.stderr}'))
    return problems


# ---- documents ---------------------------------------------------------------

def anchors(text):
    """The anchors GitHub makes of a document's headings."""
    plain = re.sub(r'^```.*?^```', '', text, flags=re.S | re.M)
    return {re.sub(r'[^\w\- ]', '', re.sub(r'\[([^]]*)\]\([^)]*\)', r'\1', title)
                   ).strip().lower().replace(' ', '-')
            for title in re.findall(r'^#+ (.*)$', plain, re.M)}


def links(text):
    """The targets of Markdown's and reStructuredText's links."""
    text = re.sub(r'``[^`]*``', '', text)
    return (re.findall(r'\]\((?!\w+:)([^)\s]+)\)', text) +
            re.findall(r'`[^`<]*<(?!\w+:)([^>`\s]+)>`_', text) +
            re.findall(r'^\.\. (?:figure|image|include|literalinclude):: (\S+)',
                       text, re.M) +
            re.findall(r'(?:src|href)="(?!\w+:)([^"]+)"', text))


def documents(tree):
    return sorted(path for path in tree.top.rglob('*')
                  if path.suffix in DOCUMENTS and '.git' not in path.parts)


def document_links(tree):
    """every link of every document leads somewhere"""
    problems = []
    for path in documents(tree):
        name = path.relative_to(tree.top).as_posix()
        text = path.read_text(encoding='utf-8')
        for link in links(text):
            target, _, anchor = link.partition('#')
            file = path.parent / target if target else path
            if not file.exists():
                problems.append((name, f'{name}: no {target}'))
            elif (anchor and file.suffix == '.md' and anchor not in
                  anchors(file.read_text(encoding='utf-8'))):
                problems.append((name, f'{name}: no {link}'))
    return problems


def recipe_files(tree):
    """every file that CONTRIBUTING.md names exists"""
    known = {path.name for path in tree.top.rglob('*')
             if '.git' not in path.parts}
    named = re.findall(r'`([\w./-]+\.(?:c|h|py|sh|rst|md|json|txt))`',
                       tree.read('CONTRIBUTING.md'))
    return [(name, f'CONTRIBUTING.md: no {name}')
            for name in named if 'NOUN' not in name and not (
                tree.path(name).exists() if '/' in name else name in known)]


def readme_length(tree):
    """README.md has 120 lines at most"""
    count = tree.read('README.md').count('\n')
    return [('README.md', f'README.md has {count} lines')] * (
        count > README_LINES)


def change_log(tree):
    """CHANGES begins with an entry for the version in VERSION"""
    version = tree.read('VERSION').strip()
    first = re.search(r'^## (\S+)', tree.read('CHANGES'), re.M)
    if not re.fullmatch(r'\d+\.\d+(\.\d+)?', version):
        return [('VERSION', f'VERSION: {version!r} is not a version')]
    if not first or first[1] != version:
        return [('CHANGES', f'CHANGES: its first entry is not {version}')]
    return []


# A call of make inside a text, and in a line of commands.
MAKE_IN_TEXT = re.compile(r'`(make\s[^`#;&|]*)')
MAKE_IN_CODE = re.compile(r'(?:^    (?:\$ )?|&& |; )(make [^#;&|\n]*)', re.M)
RULE = re.compile(r'^([a-z][\w .-]*):(?!=| export)', re.M)


def make_calls(text, indented_is_code):
    """Yields each call of make in a document. Lines with cd are skipped: they use another
    project's Makefile."""
    for code, lines in groupby(text.split('\n'),
                               lambda line: line.startswith('    ')):
        part = '\n'.join(lines)
        if not code:
            yield from MAKE_IN_TEXT.findall(part)
        elif indented_is_code and not re.search(r'\bcd ', part):
            yield from MAKE_IN_CODE.findall(part)


def make_wants(call):
    """(folder or None, targets) of a call of make."""
    folder, wanted, words = None, [], iter(shlex.split(call)[1:])
    for word in words:
        if word == '-C':
            folder = next(words, '')
        elif re.fullmatch(r'[a-z][\w-]*', word):
            wanted.append(word)
    return folder, wanted


def make_targets(tree):
    """every "make X" in a document is a target of a Makefile"""
    def rules(folder):
        path = folder / 'Makefile'
        text = path.read_text(encoding='utf-8') if path.exists() else ''
        return {name for names in RULE.findall(text) for name in names.split()}

    problems = []
    for path in documents(tree):
        name = path.relative_to(tree.top).as_posix()
        for call in make_calls(path.read_text(encoding='utf-8'),
                               path.suffix == '.md'):
            folder, wanted = make_wants(call)
            known = (rules(tree.top) | rules(path.parent) if folder is None
                     else rules(tree.path(folder)))
            if not known:
                problems.append((name, f'{name}: no Makefile in {folder}'))
            problems += [(name, f'{name}: no "make {target}"')
                         for target in wanted if known and target not in known]
    return problems


def unit_map(tree):
    """tests/unit/README.md says which tests cover which file of the engine"""
    folder = tree.path('tests/unit')
    rows = dict(re.findall(r'^\| ([\w/]+)\.c \| (.*) \|$',
                           tree.read('tests/unit/README.md'), re.M))
    own = {*callgraph.sources(tree, callgraph.ENGINE), 'fault/rules', 'eswitch/eswitch'}
    return ([(name, f'tests/unit/README.md has no {name}.c')
             for name in sorted(own - set(rows))] +
            [(name, f'tests/unit/README.md: {name}.c is no more')
             for name in sorted(set(rows) - own)] +
            [(test, f'tests/unit/README.md: no {test}.c')
             for test in sorted(set(', '.join(rows.values()).split(', ')))
             if not (folder / f'{test}.c').exists()])


# ---- what is built -----------------------------------------------------------

# Steps of ci/build.py that take minutes, and that "make run" does not need.
WHOLE = ('qemu', 'rdma-core')


def makers(text):
    """From the text of ci/build.py: (step -> functions in its row of STEPS, function ->
    functions in its body)."""
    module = ast.parse(text)
    functions = {node.name: node for node in module.body
                 if isinstance(node, ast.FunctionDef)}

    def named(node):
        return {word.id for word in ast.walk(node)
                if isinstance(word, ast.Name) and word.id in functions}
    (steps,) = [node.value for node in module.body
                if isinstance(node, ast.Assign) and
                node.targets[0].id == 'STEPS']
    return ({key.value: named(value)
             for key, value in zip(steps.keys, steps.values)},
            {name: named(node) for name, node in functions.items()})


def run_builds_little(tree):
    """make run builds neither a whole QEMU nor a whole rdma-core"""
    rule = re.search(r'^run:.*\n((?:\t.*\n)+)', tree.read('Makefile'), re.M)
    steps, names = makers(tree.read('ci/build.py'))
    words = rule[1].split() if rule else []
    found, left = set(), {name for word in words for name in steps.get(word, ())}
    if not left:
        raise SpecError('Makefile: run makes no step of ci/build.py')
    while left:
        found |= left
        left = {name for maker in left for name in names[maker]} - found
    return [(step, f'make run makes {step}') for step in WHOLE
            if step in words or steps[step] & found]


def targets_tell(tree):
    """make runs tests by ci/run_tests.py, which shows their progress"""
    rules = re.findall(r'^([a-z][a-z-]*):.*\n((?:\t.*\n)+)', tree.read('Makefile'),
                       re.M)
    if not rules:
        raise SpecError('Makefile has no targets')
    return [(name, f'make {name} is silent while a test runs')
            for name, recipe in rules if '-m pytest' in recipe]


# ---- ways in -----------------------------------------------------------------

# Calls that register a function of the device, which QEMU then calls.
REGISTERS = re.compile(
    r'\b(timer_new\w*|timer_init\w*|qemu_bh_new\w*|aio_bh_\w+|qemu_new_nic|'
    r'qemu_add_vm_change_state_handler|qemu_set_fd_handler|'
    r'main_loop_poll_add_notifier|memory_region_init_io|'
    r'thread_pool_submit\w*|\w*run_on_cpu|object_\w*property_add\w*)\s*\(|'
    r'\b(?:pc|dc|rc|oc|class)->([\w.]+)\s*=\s*(?=fakernic_\w+;)')
# Registrations that are allowed outside of doors.c: the function is in doors.c, or does not
# use the device. The methods and properties of the device, by which the configuration, a
# reset and the monitor enter, are in fakernic.c.
HANDED_DOWN = {('clock', 'timer_new_ns'), ('fakernic', 'memory_region_init_io'),
               ('persist', 'thread_pool_submit_aio'),
               ('vcpus', 'async_run_on_cpu'),
               *(('fakernic', way) for way in (
                   'realize', 'exit', 'config_read', 'config_write', 'phases.hold',
                   'object_property_add_uint32_ptr',
                   'object_property_add_const_link',
                   'object_class_property_add', 'object_class_property_add_str',
                   'object_class_property_add_bool'))}


def ways_in(tree):
    """QEMU calls the device back at doors.c, or what laws.py lists, alone"""
    found = {(path.stem, call or method)
             for path in sorted(tree.path(callgraph.DEVICE).rglob('*.c'))
             for call, method in REGISTERS.findall(
                 strip_comments(path.read_text('utf-8')))
             if path.stem != 'doors'}
    return [(file, f'{file}.c has {name}: ways in are of doors.c')
            for file, name in sorted(found - HANDED_DOWN)] + [
        (file, f'laws.py: {file}.c no longer has {name}')
        for file, name in sorted(HANDED_DOWN - found)]


PLUGGED = re.compile(r'\bfakernic_(?:is_plugged|enter|is_there)\(')
# Functions that need not check: the end of the device, QOM's type functions, and a callback
# of the engine.
NO_DOORS = ('fakernic_end', 'fakernic_end_some', 'fakernic_exit',
            'fakernic_vf_exit', 'fakernic_vf_class_init',
            'fakernic_finalize', 'fakernic_function_init',
            'fakernic_instance_init', 'fakernic_function_class_init',
            'fakernic_class_init', 'fakernic_register_types',
            'fakernic_engine_trace')


def ungated(text, more=()):
    """The functions of a file that are passed as pointers or are in MORE, and that do not
    check whether the device is plugged in. A call to another function of the file that
    checks it is enough."""
    code = strip_comments(text)
    lines = code.split('\n')
    bodies = {name: '\n'.join(lines[line - 1:line - 1 + count])
              for name, line, count in functions(code)}
    passes, before = set(), None
    while passes != before:
        before = set(passes)
        passes |= {name for name, body in bodies.items() if PLUGGED.search(body) or
                   any(f'{other}(' in body for other in passes - {name}
                       if not other.startswith('fakernic_leave'))}
    return sorted(name for name in bodies if name not in passes and
                  (name in more or re.search(rf'\b{name}\b(?!\()', code)))


def doors_gated(tree):
    """each way into the device checks that it is plugged in"""
    more = {name for header in ('doors', 'watch/qmp') for name, *_ in prototypes(
        tree.read(f'{callgraph.DEVICE}/{header}.h'))} - {
            'fakernic_doors_open', 'fakernic_doors_close',
            'fakernic_msix_doors'}
    return [(name, f'{file}.c: {name}() does not check that the device is plugged in')
            for file in ('doors', 'fakernic')
            for name in ungated(tree.read(f'{callgraph.DEVICE}/{file}.c'), more)
            if name not in (*NO_DOORS, 'fakernic_is_plugged')]


# ---- names -------------------------------------------------------------------

PROGRAMS = ('qemu-hw', callgraph.DRIVER, callgraph.PROVIDER)


def names_apart(tree):
    """device, driver and provider define no function of the same name"""
    owner, problems = {}, []
    for program in PROGRAMS:
        names = {name for path in tree.path(program).rglob('*.[ch]')
                 for name, *_ in functions(strip_comments(path.read_text('utf-8')))}
        problems += [(name, f'{name} is in {owner[name]} and in {program}')
                     for name in sorted(names & set(owner))]
        owner.update(dict.fromkeys(names, program))
    return problems


# ---- headers -------------------------------------------------------------------

# Folder -> maximum depth of nested headers below its C files, including those of
# firmware-spec.
DEPTH = {callgraph.ENGINE: 6, callgraph.DEVICE: 7, 'qemu-hw/link': 6,
         SWITCH: 6, callgraph.DRIVER: 7}
INCLUDE_FOLDERS = (HW_INCLUDE, 'qemu-hw/roce', 'kernel-driver',
                   'kernel-driver/uapi')


def chain(tree, name, known):
    """The longest chain of nested headers of this tree that a file includes."""
    if name not in known:
        known[name] = []
        for path in sorted(callgraph.included(tree, name, INCLUDE_FOLDERS)):
            known[name] = max(known[name], [path, *chain(tree, path, known)],
                              key=len)
    return known[name]


def include_depth(tree):
    """a C file includes headers of headers to a bounded depth"""
    known = {}
    return [(path.stem, f'{folder}: {path.stem}.c > {" > ".join(found)}')
            for folder, most in DEPTH.items()
            for path in sorted(tree.path(folder).rglob('*.c'))
            for found in [chain(tree, str(path.relative_to(tree.top)), known)]
            if len(found) > most]


# ---- guest memory --------------------------------------------------------------

REACHES_MEMORY = re.compile(r'\b((?:pci_dma|address_space|dma_memory|'
                            r'cpu_physical_memory)_\w+)\s*\(')


def memory_of_dma(tree):
    """dma.c alone reaches guest memory"""
    return [(path.stem, f'{path.stem}.c calls {name}(): memory is of dma.c')
            for path in sorted(tree.path(callgraph.DEVICE).rglob('*.c'))
            if path.stem != 'dma'
            for name in sorted(set(REACHES_MEMORY.findall(
                strip_comments(path.read_text('utf-8')))))]


# ---- entries of the device -----------------------------------------------------

# A local pointer to an entry, or a function that returns one.
KEEPS_ENTRY = re.compile(r'struct (fakernic_(?:cqe|eqe|cmd_completion)) \*\s*'
                         r'(?:\w+\s*[=;]|fakernic_\w+\s*\()')


def entries_copied(tree):
    """the driver copies what a device completed before it uses it"""
    return [(path.stem, f'{path.stem}.c points to struct {name} in a ring, '
             'which the device may change: copy it')
            for path in sorted(tree.path(callgraph.DRIVER).rglob('*.c'))
            for name in sorted(set(KEEPS_ENTRY.findall(
                strip_comments(path.read_text('utf-8')))))]


# ---- barriers ----------------------------------------------------------------

BARRIER = re.compile(r'\b(?:smp_(?:r|w)?mb|smp_load_acquire|smp_store_release|'
                     r'dma_(?:r|w)?mb|udma_\w+_barrier|mmio_flush_writes|'
                     r'atomic_(?:thread|signal)_fence|full_barrier(?=\(\)))\s*\(|'
                     r'\bmemory_order_(?:acquire|release|acq_rel)\b|'
                     r'\b__ATOMIC_(?:ACQUIRE|RELEASE|ACQ_REL|SEQ_CST)\b')
STATEMENT_ENDS = (';', '{', '}', '*/', ':')


def barriers_bare(text):
    """The barriers that have no comment in their statement or directly above it."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        found = BARRIER.search(line)
        if not found or line.lstrip().startswith(('*', '/*', '//')):
            continue
        first = number
        while first and lines[first - 1].strip() and not lines[
                first - 1].rstrip().endswith(STATEMENT_ENDS):
            first -= 1
        if not any('*/' in part for part in lines[max(first - 1, 0):number + 1]):
            yield number + 1, found[0].rstrip('( ')


def barriers_explained(tree):
    """each barrier says what it orders"""
    return [(name, f'{name}:{number}: {barrier} has no comment that says what it '
             'orders before what')
            for name in texts.files_below(tree, 'kernel-driver', 'rdma-provider',
                                          'qemu-hw')
            if name.endswith(('.c', '.h'))
            for number, barrier in barriers_bare(
                tree.path(name).read_text('utf-8'))]


# ---- tests -------------------------------------------------------------------

CELLS = '''
#include <stdio.h>
#include "fault/rules.h"
int main(void)
{
    for (unsigned at = 0; at < ROCE_FAULT_POINTS; at++) {
        for (unsigned act = 0; act < ROCE_FAULT_ACTIONS; act++) {
            if (roce_fault_offers(at, act)) {
                printf("%s-%s\\n", roce_fault_point_name(at),
                       roce_fault_action_name(act));
            }
        }
    }
    return 0;
}
'''
# The files that a program with roce_fault_offers() is linked with.
CELLS_FILES = ('fault/rules', 'roce/opcode', 'roce/icrc')


def cells(tree):
    """POINT-ACTION for each action that fault rules offer at each point."""
    hardware = tree.path('qemu-hw')
    with tempfile.TemporaryDirectory() as work:
        program = Path(work, 'cells')
        built = subprocess.run(
            ['gcc', '-std=c11', '-I', hardware, '-I', tree.path(HW_INCLUDE),
             '-o', program, *(hardware / f'{name}.c' for name in CELLS_FILES),
             '-x', 'c', '-', '-x', 'none', '-ldeflate'],
            input=CELLS, capture_output=True, text=True, check=False)
        if built.returncode:
            raise SpecError(f'the table of faults: {built.stderr}')
        return subprocess.run([program], capture_output=True, text=True,
                              check=True).stdout.split()


def fault_cells(tree):
    """what fault rules can do at a point has a test in the qtest of its name"""
    tests = re.findall(r'\{ "fault/([\w-]+)",\s+[^{}]*\btest_\w+',
                       tree.read('tests/qtest/fakernic-fault.c'))
    return [(cell, f'tests/qtest/fakernic-fault.c has no fault/{cell}')
            for cell in cells(tree) if cell not in tests]


# The device's folder of fault rules, and other files that may use their names: the recorder
# with its table of names, the interface of QMP, and fakernic.c for FAULT_WIRING.
FAULT_WING = 'fault'
NAMES_RULES = ('watch/record.c', 'watch/qmp.h')
FAULT_NAMES = re.compile(
    r'\b(RoceFault\w*|ROCE_FAULT_\w+|roce_fault_\w+|\w+_(?:faulty|spoilt)|'
    r'fakernic_fault_(?!add|init|reset|text|refused|req|save|unsaved)\w+|faults\.\w+)\b')
FAULT_WIRING = ('faults.rules', 'faults.listener')


def rules_behind_gate(tree):
    """only the device's fault/ names fault rules: stations use the gate"""
    top = tree.path(callgraph.DEVICE)
    files = {path.relative_to(top).as_posix(): path
             for path in sorted(top.rglob('*.[ch]'))}
    return [(file, f'{file}: {name} is not for stations, see fault/gate.h')
            for file, path in files.items()
            if not file.startswith(f'{FAULT_WING}/') and file not in NAMES_RULES
            for name in FAULT_NAMES.findall(strip_comments(
                path.read_text(encoding='utf-8')))
            if file != 'fakernic.c' or name not in FAULT_WIRING]


STATUS = 'tests/STATUS.md'


def tests_named(tree):
    """each file of tests that the tables of STATUS.md name exists"""
    known = {path.stem for folder in ('tests/unit', 'tests/vm')
             for path in tree.path(folder).glob('test_*.*')}
    known |= set(re.findall(r'^(test_\w+)\.', tree.read('tests/vm/pyverbs_main.txt'),
                            re.M))
    return [(name, f'{STATUS}: no {name} in tests/unit or tests/vm')
            for row in re.findall(r'^\|.*', tree.read(STATUS), re.M)
            for name in re.findall(r'\btest_\w+', row) if name not in known]


LAWS = (engine_calls, device_calls, driver_calls, provider_calls,
        fields_written, fields_saved, engine_headers_alone, switch_alone,
        *(contracts(folder) for folder in (
            callgraph.ENGINE, callgraph.DEVICE, 'qemu-hw/fault', SWITCH,
            callgraph.DRIVER, callgraph.PROVIDER)),
        formatted, columns, schema_comments, checkpatch, function_length,
        parameter_count, no_todo, document_links, recipe_files, readme_length,
        change_log, make_targets, run_builds_little, targets_tell, unit_map,
        ways_in, doors_gated, memory_of_dma, entries_copied,
        barriers_explained, fault_cells, rules_behind_gate, tests_named,
        texts.plain_english, texts.versions_listed, names_apart, include_depth)


def run(law, tree):
    try:
        return law(tree)
    except SpecError as error:
        return [('', str(error))]
