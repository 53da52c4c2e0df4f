# SPDX-License-Identifier: GPL-2.0-or-later
"""
The data sheet, read with docutils: its tables and the names it uses.

Two kinds of tables are compared with the headers. A table titled
"struct NAME, SIZE bytes" lists every field of a structure; a table with a
column "Name" and one of VALUE_COLUMNS gives the numbers of constants.
"""

import functools
import re

from headers import DOCUMENT, SpecError

VALUE_COLUMNS = ('Offset', 'Value', 'Opcode', 'Bits')
STRUCT_TITLE = re.compile(r'struct (fakernic_\w+), (\d+) bytes\b')
NAME = re.compile(r'\b(fakernic_[a-z0-9_]+|FAKERNIC_[A-Z0-9_]+)(\*?)')


def doctree(tree):
    """Parses the document. Returns (doctree, messages of docutils)."""
    return parse(tree.read(DOCUMENT), str(tree.path(DOCUMENT)))


@functools.lru_cache(maxsize=2)         # the checkout's, and a mutated one
def parse(text, path):
    try:
        from docutils import core, nodes, utils
    except ImportError as error:
        raise SpecError('docutils is missing: install python3-docutils '
                        '(ci/packages.txt)') from error
    problems = []

    class Reporter:
        def write(self, text):
            if text.strip():
                problems.append(text.strip())

    settings = {'report_level': utils.Reporter.WARNING_LEVEL,
                'halt_level': utils.Reporter.SEVERE_LEVEL + 1,
                'warning_stream': Reporter(), 'syntax_highlight': 'none',
                'input_encoding': 'utf-8'}
    tree_nodes = core.publish_doctree(text.encode(), source_path=path,
                                      settings_overrides=settings)
    return tree_nodes, nodes, problems


def tables(tree):
    """Yields (title or None, column heads, rows of cell texts)."""
    root, nodes, _ = doctree(tree)
    for table in root.findall(nodes.table):
        title = None
        for child in table.findall(nodes.title):
            title = child.astext()
        rows = [[entry.astext() for entry in row.findall(nodes.entry)]
                for row in table.findall(nodes.row)]
        if rows:
            yield title, rows[0], rows[1:]


def struct_tables(tree):
    """{struct name: (size, [(offset, size text, field)])}."""
    found = {}
    for title, _, rows in tables(tree):
        match = STRUCT_TITLE.match(title or '')
        if match:
            if match.group(1) in found:
                raise SpecError(f'{DOCUMENT}: two tables of struct '
                                f'{match.group(1)}')
            found[match.group(1)] = (int(match.group(2)),
                                     [tuple(row[:3]) for row in rows])
    return found


def quoted_values(tree):
    """Yields (name, column head, text of the number)."""
    for _, heads, rows in tables(tree):
        columns = [h for h in heads if h in VALUE_COLUMNS]
        if 'Name' not in heads or not columns:
            continue
        for row in rows:
            yield (row[heads.index('Name')], columns[0],
                   row[heads.index(columns[0])])


def example(tree, name):
    """The bytes of an example in hex. Bytes that it does not show are zero."""
    found = re.search(rf'^\.\. example: {re.escape(name)}\n\n::\n\n'
                      r'((?: {4}.*\n)+)', tree.read(DOCUMENT), re.M)
    if not found:
        raise SpecError(f'{DOCUMENT}: no example {name}')
    data = bytearray()
    for line in found.group(1).splitlines():
        offset, text = int(line[4:8], 16), line[10:].split('   ')[0]
        part = bytes.fromhex(text)
        data.extend(bytes(max(0, offset + len(part) - len(data))))
        data[offset:offset + len(part)] = part
    return bytes(data)


def bits_of(mask):
    low = (mask & -mask).bit_length() - 1
    high = mask.bit_length() - 1
    return str(low) if low == high else f'{high}..{low}'


def names_used(tree):
    """(full names, prefixes written as PREFIX_*) anywhere in the text."""
    full, prefixes = set(), set()
    for name, star in NAME.findall(tree.read(DOCUMENT)):
        (prefixes if star else full).add(name)
    return full, prefixes
