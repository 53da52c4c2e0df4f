#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""
Indentation and spacing of the C files, by clang-format.

The author breaks lines and aligns columns. clang-format decides the indentation and
the blanks of a line. Its line replaces the author's if both have the same words and it
fits into 80 columns. Lines of macros, and of comments that begin after code, are not
changed. In a line with columns (several blanks in a row) only the indentation changes.

Comments with a line that is too long are filled again, and rulers are cut.
"""

import difflib
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / 'spec'))

from headers import SpecError, Tree

CODE = ('qemu-hw', 'kernel-driver', 'rdma-provider', 'firmware-spec', 'tests')
COLUMNS = 80


def files(tree):
    return sorted(path.relative_to(tree.top).as_posix() for area in CODE
                  for path in tree.path(area).rglob('*.[ch]')
                  if not path.is_symlink())


def words(line):
    return ''.join(line.split())


def own_lines(lines):
    """Numbers of the lines that are not changed: macros, and comments that begin after
    code."""
    kept, macro, comment = set(), False, False
    for number, line in enumerate(lines):
        if macro or comment or re.match(r'\s*#', line):
            kept.add(number)
        if comment:
            comment = '*/' not in line
            continue
        macro = (macro or bool(re.match(r'\s*#', line))) and line.endswith('\\')
        code = re.sub(r'/\*.*?\*/|"(\\.|[^"\\])*"', '', line)
        comment = '/*' in code and bool(words(code.split('/*')[0]))
    return kept


def indentation(line):
    return line[:len(line) - len(line.lstrip())]


def has_columns(line):
    return bool(re.search(r'\t|  ', re.sub(r'"(\\.|[^"\\])*"', '', line.strip())))


def taken(own, proposed):
    """The author's line with the permitted changes of the proposed one."""
    blanks = re.compile(r'\s*([&*])\s*')
    # clang-format can only guess whether "a * b" is a pointer or a product.
    guess = blanks.sub(r'\1', own.strip()) == blanks.sub(r'\1', proposed.strip())
    line = (indentation(proposed) + own.lstrip()
            if guess or has_columns(own) or has_columns(proposed) else proposed)
    return line if width(line) <= COLUMNS else own


def merge(text, proposed):
    """The author's text with the permitted changes of the proposed text."""
    own, other = text.split('\n'), proposed.split('\n')
    kept = own_lines(own)
    matcher = difflib.SequenceMatcher(None, [words(line) for line in own],
                                      [words(line) for line in other], False)
    for first, second, count in matcher.get_matching_blocks():
        for offset in range(count):
            if first + offset not in kept:
                number = first + offset
                own[number] = taken(own[number], other[second + offset])
    return '\n'.join(own)


def width(line):
    return len(line.expandtabs(8))


def cut_ruler(line):
    """The line, or if it is a ruler ("---- title ----") that is too long, a shorter one."""
    found = re.fullmatch(r'(/\* ---- .*? )-+( \*/)', line)
    return (found.group(1) + '-' * (COLUMNS - len(found.group(1)) - 3) + ' */'
            if found and width(line) > COLUMNS else line)


def refill(text):
    """Fills paragraphs of block comments again if a line is too long."""
    result, paragraph, prefix = [], [], None

    def flush():
        if any(width(line) > COLUMNS for line in paragraph):
            body = ' '.join(line[len(prefix):].strip() for line in paragraph)
            room = COLUMNS - 1 - width(prefix)
            result.extend(prefix + line for line in textwrap.wrap(
                body, room, break_long_words=False, break_on_hyphens=False))
        else:
            result.extend(paragraph)
        paragraph.clear()

    for line in text.split('\n'):
        line = cut_ruler(line)
        single = re.fullmatch(r'([ \t]*)/\* (.*) \*/', line)
        if single and width(line) > COLUMNS:
            flush()
            indent, prefix = single.group(1), single.group(1) + ' * '
            paragraph.append(prefix + single.group(2) + ' ' * COLUMNS)
            result.append(indent + '/*')
            flush()
            result.append(indent + ' */')
            continue
        found = re.match(r'[ \t]* \* (?=\S)', line)
        if not found or has_columns(line[found.end():]) or '*/' in line:
            flush()
            result.append(line)
            continue
        if found.group() != prefix:
            flush()
            prefix = found.group()
        paragraph.append(line)
    flush()
    return '\n'.join(result)


def formatted(tree, names=()):
    """{file: its formatted text} for all files, or for NAMES."""
    names = names or files(tree)
    with tempfile.TemporaryDirectory() as work:
        for name in names:
            Path(work, name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(tree.path(name), Path(work, name))
        for style in [Path('.clang-format'), *(
                path.relative_to(tree.top) for area in CODE
                for path in tree.path(area).rglob('.clang-format'))]:
            Path(work, style).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(tree.path(style), Path(work, style))
        half = len(names) // 2
        running = [subprocess.Popen(['clang-format', '-i', '--style=file',
                                     *part], cwd=work)
                   for part in (names[:half], names[half:]) if part]
        if any([process.wait() for process in running]):
            raise SpecError('clang-format failed')
        return {name: refill(merge(tree.read(name), Path(work, name).read_text(
            encoding='utf-8'))) for name in names}


def main():
    """The program of "make format"."""
    tree = Tree(Path(__file__).resolve().parents[2])
    for name, text in formatted(tree).items():
        if text != tree.read(name):
            tree.path(name).write_text(text, encoding='utf-8')
            print(name)


if __name__ == '__main__':
    main()
