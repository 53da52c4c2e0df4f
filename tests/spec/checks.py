# SPDX-License-Identifier: GPL-2.0-or-later
"""
The checks. Each takes a Tree and returns a list of problems, empty if there is none.
Its docstring states what it checks. check.py runs them on the checkout, selftest.py
on mutated copies, to show that they can fail.
"""

import difflib
import itertools
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import document
import formulas
import inside
from headers import (HW_INCLUDE, LAYOUT, UAPI_HEADER, UAPI_INCLUDE, SpecError,
                     parse_constants, parse_structs, render_layout,
                     strip_comments)

COMPILERS = ('gcc', 'clang')
STANDARDS = ('c11', 'gnu11', 'gnu17')
WARNINGS = ('-Wall', '-Wextra', '-Wpedantic', '-Wpadded', '-Werror')
DRIVER = 'firmware-spec/driver.c'
DRIVER_FLAGS = ('-std=gnu11', '-Wall', '-Wextra', '-Wmissing-prototypes',
                '-Werror')

AREAS = ('firmware-spec', 'qemu-hw', 'kernel-driver', 'rdma-provider',
         'tests', 'ci')
DUAL = '(GPL-2.0-only OR BSD-2-Clause)'
LICENCES = {
    'firmware-spec': {DUAL, 'GPL-2.0-only OR BSD-2-Clause'},
    'rdma-provider': {DUAL, 'GPL-2.0-only OR BSD-2-Clause'},
    'kernel-driver': {'GPL-2.0-only'},
    'kernel-driver/uapi':
        {'((GPL-2.0 WITH Linux-syscall-note) OR BSD-2-Clause)'},
    'qemu-hw': {'GPL-2.0-or-later'},
    'tests': {'GPL-2.0-or-later'},
    'ci': {'GPL-2.0-or-later'},
}
SOURCE_SUFFIXES = {'.c', '.h', '.py', '.sh', '.rst', '.map', '.build',
                   '.cmake', '.mk'}
SOURCE_NAMES = {'Makefile', 'Kbuild', 'Kconfig', 'CMakeLists.txt',
                'trace-events'}


def syntax_check(tree, compiler, flags, source):
    """The messages of a compiler about a source text; '' if there is none."""
    if not shutil.which(compiler):
        raise SpecError(f'{compiler} is missing: install it (ci/packages.txt)')
    result = subprocess.run(
        [compiler, '-fsyntax-only', '-x', 'c', *flags, *tree.include_flags(),
         '-'], input=source, capture_output=True, text=True, check=False)
    return result.stderr.strip() if result.returncode else ''


def compiles_alone(tree, header):
    problems = []
    for compiler in COMPILERS:
        for standard in STANDARDS:
            flags = [f'-std={standard}', *WARNINGS]
            said = syntax_check(tree, compiler, flags,
                                f'#include <{header}>\n')
            if said:
                problems.append(f'{compiler} -std={standard}:\n{said}')
    return problems


def headers_alone(tree):
    """every hardware header compiles alone: gcc, clang; c11, gnu11, gnu17"""
    return [f'{h}: {p}' for h in tree.hw_headers()
            for p in compiles_alone(tree, h)]


def uapi_alone(tree):
    """the uverbs ABI header compiles alone: gcc, clang; c11, gnu11, gnu17"""
    return [f'{UAPI_HEADER}: {p}' for p in compiles_alone(tree, UAPI_HEADER)]


# Types for FAKERNIC_TYPES, as the data sheet lists them.
TYPES = """
typedef unsigned char __u8;
typedef unsigned short __u16, __le16;
typedef unsigned int __u32, __le32;
typedef unsigned long long __u64, __le64;
"""
# The part of the C library that driver.c needs.
STDDEF = """
typedef __SIZE_TYPE__ size_t;
#define offsetof(type, field) __builtin_offsetof(type, field)
"""
STRING = """
#include <stddef.h>
void *memcpy(void *, const void *, size_t);
int memcmp(const void *, const void *, size_t);
char *strcpy(char *, const char *);
"""
# UEFI, two kinds of firmware, and a 32-bit big-endian machine.
FOREIGN = {'x86_64-unknown-windows': '-nostdlibinc',
           'riscv64-unknown-elf': '-nostdinc',
           'aarch64-none-elf': '-nostdlibinc',
           'powerpc-none-eabi': '-nostdinc'}


def headers_off_linux(tree):
    """headers and driver.c compile off Linux, with the reader's types or not"""
    problems = []
    source = ''.join(f'#include <{h}>\n' for h in tree.hw_headers())
    with tempfile.TemporaryDirectory() as work:
        types = Path(work, 'types.h')
        types.write_text(TYPES, encoding='utf-8')
        Path(work, 'stddef.h').write_text(STDDEF, encoding='utf-8')
        Path(work, 'string.h').write_text(STRING, encoding='utf-8')
        for target, way in FOREIGN.items():
            flags = [f'--target={target}', '-ffreestanding', '-std=gnu11',
                     '-Wall', '-Wextra', '-Werror', f'-I{work}', way]
            if way == '-nostdinc':
                flags.append(f'-DFAKERNIC_TYPES="{types}"')
            if said := syntax_check(tree, 'clang', flags,
                                    source + tree.read(DRIVER)):
                problems.append(f'{target} {way}:\n{said}')
    return problems


BASE_INCLUDES = ('<linux/types.h>', '<stdint.h>', 'FAKERNIC_TYPES')


def header_includes(tree):
    """base.h includes the types, headers one another, nothing else"""
    problems = []
    for header in tree.hw_headers():
        for name in re.findall(r'^#include (\S+)', tree.hw_text(header), re.M):
            own = f'fakernic/{name.strip(chr(34))}'
            if own not in tree.hw_headers() and not (
                    header == 'fakernic/base.h' and name in BASE_INCLUDES):
                problems.append(f'{header} includes {name}')
    for name in re.findall(r'^#include (\S+)', tree.uapi_text(), re.M):
        if name != '<linux/types.h>':
            problems.append(f'{UAPI_HEADER} includes {name}')
    return problems


def hw_data_rules(tree):
    """HW DATA: size stated, little-endian types, no bit-fields or packing"""
    problems = []
    for header in tree.hw_headers():
        code = strip_comments(tree.hw_text(header))
        for struct in parse_structs(tree.hw_text(header), header):
            if not re.search(rf'FAKERNIC_SIZE\(struct {struct.name}, \d+\);',
                             code):
                problems.append(f'{header}: struct {struct.name} has no '
                                'FAKERNIC_SIZE()')
        for body in re.findall(r'^struct \w+ \{(.*?)^\};', code, re.S | re.M):
            body = re.sub(r'^\s*#.*(?:\\\n.*)*$', '', body, flags=re.M)
            for declaration in body.split(';'):
                declaration = declaration.strip()
                if declaration and not re.match(
                        r'(__u8|__le(16|32|64)|struct fakernic_\w+) \w+'
                        r'(\[[\w ]*\])?$', declaration):
                    problems.append(f'{header}: "{declaration}" is no field '
                                    'of HW DATA')
        if re.search(r'\bpacked\b|__attribute__', code):
            problems.append(f'{header}: attributes change the layout')
    return problems


def uapi_rules(tree):
    """ABI structures: 8-byte multiples, the same for 32-bit programs"""
    problems = []
    structs, _ = tree.measure()
    asserts = ['#include <stddef.h>', f'#include <{UAPI_HEADER}>']
    for s in structs:
        if s.header != UAPI_HEADER:
            continue
        if s.size % 8:
            problems.append(f'struct {s.name}: {s.size} bytes are no multiple '
                            'of 8')
        asserts.append(f'_Static_assert(sizeof(struct {s.name}) == {s.size},'
                       f' "sizeof(struct {s.name}) differs");')
        asserts += [f'_Static_assert(offsetof(struct {s.name}, {f.name}) =='
                    f' {f.offset}, "offset of {s.name}.{f.name} differs");'
                    for f in s.fields]
    if re.search(r'\b__[us]64\b', strip_comments(tree.uapi_text())):
        problems.append(f'{UAPI_HEADER}: 64-bit fields are __aligned_u64')
    # -m32 looks for <asm/types.h> in another folder; the 64-bit one serves.
    multiarch = subprocess.run(['gcc', '-print-multiarch'], text=True,
                               capture_output=True, check=True).stdout.strip()
    said = syntax_check(tree, 'gcc',
                        ['-m32', '-std=gnu11', '-idirafter',
                         f'/usr/include/{multiarch}'],
                        '\n'.join(asserts) + '\n')
    if said:
        problems.append(f'32-bit: {said}')
    return problems


def layout_golden(tree):
    """layout.txt is what the compiler makes of the headers"""
    expected = render_layout(*tree.measure())
    diff = difflib.unified_diff(tree.read(LAYOUT).splitlines(),
                                expected.splitlines(), LAYOUT, 'headers',
                                lineterm='', n=1)
    lines = list(diff)
    if lines:
        lines.append('a wanted change: "make -C tests/spec layout", and say '
                     'it in CHANGES.md')
    return lines


def changes_version(tree):
    """CHANGES.md and the data sheet have the interface version of regs.h"""
    _, values = tree.measure()
    version = (f"{values['FAKERNIC_INTERFACE_MAJOR']}."
               f"{values['FAKERNIC_INTERFACE_MINOR']}")
    found = re.search(r'^## (\S+)', tree.read('firmware-spec/CHANGES.md'),
                      re.M)
    problems = []
    if not found or found.group(1) != version:
        problems.append(f'CHANGES.md does not begin with "## {version}"')
    if f'hardware interface, {version}\n' not in tree.read(document.DOCUMENT):
        problems.append(f'the title of fakernic.rst does not say {version}')
    word = f'0x{values["FAKERNIC_INTERFACE_MAJOR"]:04x}' \
           f'{values["FAKERNIC_INTERFACE_MINOR"]:04x}'
    if not re.search(rf'FAKERNIC_REG_INTERFACE_VERSION`` +RO +{word} ',
                     tree.read(document.DOCUMENT)):
        problems.append(f'INTERFACE_VERSION does not read {word} in the table '
                        'of registers')
    return problems


def counter_names(tree):
    """every counter has its name, which is the enumerator's in lower case"""
    enumerators = re.findall(r'^\tFAKERNIC_STAT_(\w+)', strip_comments(
        tree.hw_text('fakernic/stats.h')), re.M)[:-1]
    rows = re.findall(r'row\((\w+), "(\w+)"\)',
                      tree.hw_text('fakernic/stat_names.h'))
    wanted = [(name, name.lower()) for name in enumerators]
    return [f'fakernic/stat_names.h: {row} where {want} is due'
            for row, want in itertools.zip_longest(rows, wanted) if row != want]


def document_syntax(tree):
    """the data sheet is valid reStructuredText"""
    return document.doctree(tree)[2]


def document_driver(tree):
    """the data sheet's driver compiles alone, in 150 lines of code"""
    source = tree.read(DRIVER)
    problems = [f'{DRIVER}: {compiler}:\n{said}' for compiler in COMPILERS
                if (said := syntax_check(tree, compiler, DRIVER_FLAGS, source))]
    minimal = strip_comments(source.split('/* ---- an RDMA WRITE')[0])
    lines = sum(bool(line.strip()) for line in minimal.splitlines())
    if lines > 150:
        problems.append(f'{DRIVER} is a driver in {lines} lines')
    if not re.search(rf'^``{Path(DRIVER).name}``[^`]* in\s+{lines}\s+lines',
                     tree.read(document.DOCUMENT), re.M):
        problems.append(f'the data sheet does not say that {DRIVER} has '
                        f'{lines} lines')
    return problems


def document_names(tree):
    """every name of the headers is in the data sheet and the reverse"""
    structs = {s.name for s in tree.hw_structs()}
    constants = set(tree.hw_constants())
    known = (structs | constants | tree.other_names()
             | {s.name for s in tree.uapi_structs()}
             | set(tree.uapi_constants()))
    used, prefixes = document.names_used(tree)
    problems = [f'not in the data sheet: {n}'
                for n in sorted((structs | constants) - used)]
    problems += [f'not in any header: {n}' for n in sorted(used - known)]
    problems += [f'no header has a name that begins with {p}'
                 for p in sorted(prefixes)
                 if not any(n.startswith(p) for n in known)]
    return problems


def document_values(tree):
    """numbers in the data sheet's tables are those of the headers"""
    _, values = tree.measure()
    problems, seen = [], set()
    for name, column, text in document.quoted_values(tree):
        if name not in values:
            problems.append(f'a table gives a number to "{name}", which is no '
                            'constant')
            continue
        seen.add(name)
        right = (text == document.bits_of(values[name]) if column == 'Bits'
                 else re.fullmatch(r'0x[0-9a-f]+|\d+', text)
                 and int(text, 0) == values[name])
        if not right:
            problems.append(f'{name}: the data sheet says {text}, the header '
                            f'{values[name]:#x}')
    for name in tree.hw_constants():
        if name not in seen and wants_table(tree, name):
            problems.append(f'{name} stands in no table with its number')
    return problems


def wants_table(tree, name):
    """Registers, features, doorbells and all enum constants."""
    if re.match(r'FAKERNIC_(FEATURE|DOORBELL|CONTROL|STATUS)_', name):
        return True
    if name.startswith('FAKERNIC_REG_'):
        return name != 'FAKERNIC_REG_END'
    for header in tree.hw_headers():
        code = strip_comments(tree.hw_text(header))
        for body in re.findall(r'\benum \w+ (\{.*?\})', code, re.S):
            if name in parse_constants(f'enum x {body}'):
                return True
    return False


def document_structs(tree):
    """every field of HW DATA is in the data sheet, at its offset"""
    structs, _ = tree.measure()
    found = document.struct_tables(tree)
    problems = []
    for s in structs:
        if s.header == UAPI_HEADER:
            continue
        if s.name not in found:
            problems.append(f'no table "struct {s.name}, {s.size} bytes"')
            continue
        size, rows = found.pop(s.name)
        if size != s.size:
            problems.append(f'struct {s.name}: {size} bytes in the data '
                            f'sheet, {s.size} in the header')
        wanted = [(str(f.offset), 'n' if f.flexible else str(f.size), f.name)
                  for f in s.fields]
        problems += [f'struct {s.name}: {line}' for line in difflib.ndiff(
            [' '.join(r) for r in rows], [' '.join(w) for w in wanted])
            if line[0] in '+-']
    problems += [f'struct {name} is in no header' for name in found]
    return problems


def conformance_rules(tree):
    """rules of the data sheet are numbered, and their tests exist"""
    known = set()
    for path in tree.path('tests/qtest').glob('*.c'):
        known |= set(re.findall(r'^    \{ "([\w/-]+)",',
                                path.read_text(encoding='utf-8'), re.M))
    problems, numbers = [], []
    for _, heads, rows in document.tables(tree):
        if heads[0] in ('Rule', 'No.'):
            numbers += [row[0] for row in rows]
        if heads[-1] == 'Tests':
            problems += [f'{row[0]}: there is no test {test}' for row in rows
                         for test in re.split(r',\s+', row[-1])
                         if test not in known]
    for letter in 'DNE':
        own = [n for n in numbers if n[0] == letter]
        if own != [f'{letter}{i + 1}' for i in range(len(own))] or not own:
            problems.append(f'the rules {letter} are not in order: {own}')
    return problems


def source_files(tree):
    for area in AREAS:
        for path in sorted(tree.path(area).rglob('*')):
            if '__pycache__' in path.parts or not path.is_file():
                continue
            if path.suffix in SOURCE_SUFFIXES or path.name in SOURCE_NAMES:
                yield path.relative_to(tree.top)
    for name in ('Makefile', '.editorconfig'):
        if tree.path(name).is_file():
            yield Path(name)


def spdx_lines(tree):
    """every source file names its folder's licence in an SPDX line"""
    problems = []
    for path in source_files(tree):
        with open(tree.path(path), encoding='utf-8') as source:
            head = [next(source, '') for _ in range(3)]
        found = re.search(r'SPDX-License-Identifier: (.*?)\s*(\*/|-->)?$',
                          ''.join(head), re.M)
        if not found:
            problems.append(f'{path}: no SPDX line in its first three lines')
            continue
        area = next((a for a in ('kernel-driver/uapi', path.parts[0])
                     if path.as_posix().startswith(a + '/')), None)
        allowed = LICENCES.get(area, {'GPL-2.0-or-later'})
        if found.group(1) not in allowed:
            problems.append(f'{path}: {found.group(1)} is not the licence of '
                            f'{area or "the top folder"}')
    return problems


def licence_texts(tree):
    """LICENSES holds the text of every licence an SPDX line names"""
    names = set()
    for path in source_files(tree):
        text = tree.path(path).read_text(encoding='utf-8')[:400]
        for line in re.findall(r'SPDX-License-Identifier: ([^*\n]*)', text):
            names |= set(re.findall(r'[A-Z][\w.-]+-[\w.-]+', line))
    # GPL-2.0 is the kernel's spelling of GPL-2.0-only in uapi headers.
    names = {'GPL-2.0-only' if n == 'GPL-2.0' else n for n in names}
    return [f'LICENSES/{n}.txt is missing' for n in sorted(names)
            if not tree.path(f'LICENSES/{n}.txt').is_file()]


def engine_includes(tree):
    """qemu-hw/roce includes itself, C11, libdeflate and the interface only"""
    c11 = {'assert', 'errno', 'inttypes', 'limits', 'stdalign', 'stdarg',
           'stdbool', 'stddef', 'stdint', 'stdio', 'stdlib', 'string',
           'stdatomic'}
    engine = tree.path('qemu-hw/roce')
    own = {p.name for p in engine.glob('*.h')}
    allowed = {f'<{n}.h>' for n in c11} | {'<libdeflate.h>'}
    allowed |= {f'"{n}"' for n in own}
    allowed |= {f'"{h}"' for h in tree.hw_headers()}
    allowed |= {f'<{h}>' for h in tree.hw_headers()}
    if not own:
        return ['qemu-hw/roce has no headers']
    return [f'{path.name} includes {name}'
            for path in sorted(engine.glob('*.[ch]'))
            for name in re.findall(r'^\s*#\s*include\s+(\S+)',
                                   path.read_text(encoding='utf-8'), re.M)
            if name not in allowed]


def one_definition(tree):
    """no second definition of an interface structure or constant"""
    structs = {s.name for s in tree.hw_structs() + tree.uapi_structs()}
    constants = set(tree.hw_constants()) | set(tree.uapi_constants())
    problems = []
    for path in source_files(tree):
        name = path.as_posix()
        if path.suffix not in ('.c', '.h') or name.startswith(
                (HW_INCLUDE, UAPI_INCLUDE)):
            continue
        code = strip_comments(tree.read(name))
        twice = set(re.findall(r'\bstruct (\w+)\s*\{', code)) & structs
        twice |= set(re.findall(r'^\s*#\s*define (\w+)', code,
                                re.M)) & constants
        problems += [f'{name} defines {t} again' for t in sorted(twice)]
    return problems


def requests_reserved(tree):
    """the device's command table names every reserved field of a request"""
    table = tree.read('qemu-hw/device/cmd/cmdq.c')
    return [f'cmdq.c does not check {s.name}.{f.name}'
            for s in tree.hw_structs() for f in s.fields
            if (s.name.endswith('_req') or s.name == 'fakernic_id')
            and f.name.startswith('rsvd')
            and f'RSVD(struct {s.name}, {f.name})' not in table]


CHECKS = (headers_alone, headers_off_linux, uapi_alone, header_includes,
          hw_data_rules, uapi_rules, layout_golden, changes_version,
          counter_names, document_syntax, document_driver, conformance_rules,
          document_names, document_values, document_structs, spdx_lines,
          licence_texts, engine_includes, one_definition, requests_reserved,
          *formulas.CHECKS, *inside.CHECKS)


def run(check, tree):
    try:
        return check(tree)
    except SpecError as error:
        return [str(error)]
