# SPDX-License-Identifier: GPL-2.0-or-later
"""
Reads the interface headers: names from their text, numbers from a compiler.

A Tree is a checkout (or a mutated copy of one). Its HW DATA structures, macros
and enum constants are found with regular expressions that know the house style
of these headers; offsets, sizes and values come from a generated C program, so
nothing here knows how C lays out a structure.
"""

import re
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

HW_INCLUDE = 'firmware-spec/include'
UAPI_INCLUDE = 'kernel-driver/uapi'
UAPI_HEADER = 'rdma/fakernic-abi.h'
DOCUMENT = 'firmware-spec/fakernic.rst'
LAYOUT = 'firmware-spec/layout.txt'


@dataclass
class Field:
    name: str
    flexible: bool
    offset: int = 0
    size: int = 0


@dataclass
class Struct:
    name: str
    header: str
    fields: list = field(default_factory=list)
    size: int = 0


class SpecError(Exception):
    """Something that a check needs is missing."""


def strip_comments(text):
    """Removes comments, but keeps their line breaks."""
    return re.sub(r'/\*.*?\*/', lambda m: '\n' * m.group().count('\n'),
                  text, flags=re.S)


def parse_structs(text, header):
    code = strip_comments(text)
    code = re.sub(r'^[ \t]*#(?:.*\\\n)*.*$', '', code, flags=re.M)
    structs = []
    for match in re.finditer(r'^struct (\w+) \{(.*?)^\};', code, re.S | re.M):
        struct = Struct(match.group(1), header)
        for declaration in match.group(2).split(';'):
            declaration = ' '.join(declaration.split())
            if not declaration:
                continue
            found = re.fullmatch(r'(?:struct )?\w+ (\w+)((?:\[[^]]*\])*)',
                                 declaration)
            if not found:
                raise SpecError(f'{header}: struct {struct.name}: cannot '
                                f'read the field "{declaration}"')
            struct.fields.append(
                Field(found.group(1), found.group(2) == '[]'))
        structs.append(struct)
    return structs


def parse_constants(text):
    """Names of object-like macros with a value, and of enum constants."""
    code = strip_comments(text)
    names = re.findall(r'^#define (FAKERNIC_\w+)[ \t]+\S', code, re.M)
    for body in re.findall(r'\benum \w+ \{(.*?)\}', code, re.S):
        body = re.sub(r'^#.*$', '', body, flags=re.M)
        names += re.findall(r'\b(FAKERNIC_\w+)\s*(?:=[^,}]*)?(?:,|$)', body)
    return names


def parse_other_names(text):
    """
    Enum tags, function-like macros, macros that the reader may define: they
    have a name but no value.
    """
    code = strip_comments(text)
    return set(re.findall(r'\benum (fakernic_\w+)', code) +
               re.findall(r'\bdefined\((FAKERNIC_\w+)\)', code) +
               re.findall(r'^#define (FAKERNIC_\w+)\(', code, re.M))


class Tree:
    def __init__(self, top):
        self.top = Path(top)

    def path(self, name):
        return self.top / name

    def read(self, name):
        try:
            return self.path(name).read_text(encoding='utf-8')
        except OSError as error:
            raise SpecError(f'{name}: {error.strerror}') from error

    def hw_headers(self):
        base = self.path(HW_INCLUDE)
        headers = sorted(p.relative_to(base).as_posix()
                         for p in base.glob('fakernic/*.h'))
        if not headers:
            raise SpecError(f'no headers in {HW_INCLUDE}/fakernic')
        return headers

    def hw_text(self, header):
        return self.read(f'{HW_INCLUDE}/{header}')

    def uapi_text(self):
        return self.read(f'{UAPI_INCLUDE}/{UAPI_HEADER}')

    def hw_structs(self):
        return [s for h in self.hw_headers()
                for s in parse_structs(self.hw_text(h), h)]

    def uapi_structs(self):
        return parse_structs(self.uapi_text(), UAPI_HEADER)

    def hw_constants(self):
        return [n for h in self.hw_headers()
                for n in parse_constants(self.hw_text(h))]

    def uapi_constants(self):
        return parse_constants(self.uapi_text())

    def other_names(self):
        names = parse_other_names(self.uapi_text())
        for header in self.hw_headers():
            names |= parse_other_names(self.hw_text(header))
        return names

    def include_flags(self):
        return ['-I', str(self.path(HW_INCLUDE)),
                '-I', str(self.path(UAPI_INCLUDE))]

    def measure(self):
        """(structs with offsets and sizes, {constant: value}), hw then uapi."""
        structs = self.hw_structs() + self.uapi_structs()
        constants = self.hw_constants() + self.uapi_constants()
        output = self._run_probe(structs, constants)
        by_name = {s.name: s for s in structs}
        values = {}
        for line in output.splitlines():
            kind, name, *numbers = line.split()
            if kind == 's':
                by_name[name].size = int(numbers[0])
            elif kind == 'f':
                struct, index = name.split('.')
                entry = by_name[struct].fields[int(index)]
                entry.offset, entry.size = map(int, numbers)
            else:
                values[name] = int(numbers[0])
        return structs, values

    def _run_probe(self, structs, constants):
        lines = ['#include <stddef.h>', '#include <stdio.h>']
        lines += [f'#include <{h}>' for h in self.hw_headers()]
        lines += [f'#include <{UAPI_HEADER}>', 'int main(void)', '{']
        for s in structs:
            lines.append(f'printf("s {s.name} %zu\\n",'
                         f' sizeof(struct {s.name}));')
            for index, f in enumerate(s.fields):
                size = ('(size_t)0' if f.flexible else
                        f'sizeof(((struct {s.name} *)0)->{f.name})')
                lines.append(f'printf("f {s.name}.{index} %zu %zu\\n",'
                             f' offsetof(struct {s.name}, {f.name}), {size});')
        for name in constants:
            lines.append(f'printf("c {name} %llu\\n",'
                         f' (unsigned long long)({name}));')
        lines += ['return 0;', '}', '']
        with tempfile.TemporaryDirectory() as work:
            source = Path(work, 'probe.c')
            source.write_text('\n'.join(lines), encoding='utf-8')
            program = Path(work, 'probe')
            result = subprocess.run(
                ['gcc', '-std=gnu11', *self.include_flags(), '-o', program,
                 source], capture_output=True, text=True, check=False)
            if result.returncode:
                raise SpecError('the headers do not compile:\n'
                                + result.stderr)
            return subprocess.run([program], capture_output=True, text=True,
                                  check=True).stdout


def render_layout(structs, values):
    """The text of layout.txt."""
    lines = ['# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)',
             '# Generated by "make -C tests/spec layout"; do not edit.',
             '# Every structure (offset, size, field) and every constant of',
             '# the hardware interface and of the uverbs ABI. A change here',
             '# is a change of an interface: see CHANGES.md.']
    header = None
    for s in structs:
        if s.header != header:
            header = s.header
            lines += ['', f'[{header}]']
        lines.append(f'struct {s.name} {s.size}')
        lines += [f'  {f.offset:4} {f.size:4} {f.name}' for f in s.fields]
    lines += ['', '[constants]']
    lines += [f'{name} {value:#x}' for name, value in values.items()]
    return '\n'.join(lines) + '\n'
