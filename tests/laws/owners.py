# SPDX-License-Identifier: GPL-2.0-or-later
"""
Finds the files that write a structure's fields, by compiling. In a copy of the engine
the fields are const. Every file except the owner's must still compile.
"""

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from callgraph import ENGINE
from headers import HW_INCLUDE, SpecError

# Structure -> (its header, the file that writes it).
OWNERS = {
    'RoceSendq': ('sendq.h', 'sendq.c'),
    'RoceRetry': ('retry.h', 'retry.c'),
    'RoceWindow': ('window.h', 'window.c'),
}


def freeze(text, struct):
    """The header's text with the structure's fields const."""
    found = re.search(r'struct ' + struct + r' \{\n(.*?)^\}', text, re.S | re.M)
    if not found:
        raise SpecError(f'no struct {struct} in its header')
    body = re.sub(r'^    (\w[^;(]*;)', r'    const \1', found.group(1),
                  flags=re.M)
    # In a declaration: const for the target of a pointer, and for the field itself.
    body = re.sub(r'\*(?=\w)', '*const ', body)
    return text[:found.start(1)] + body + text[found.end(1):]


def writers(tree, struct):
    """(file, complaint) of every place that writes a field and may not."""
    header, owner = OWNERS[struct]
    problems = []
    with tempfile.TemporaryDirectory() as work:
        copy = Path(work, 'roce')
        shutil.copytree(tree.path(ENGINE), copy)
        text = (copy / header).read_text(encoding='utf-8')
        (copy / header).write_text(freeze(text, struct), encoding='utf-8')
        running = [(path.name, subprocess.Popen(
            ['gcc', '-std=c11', '-fsyntax-only', '-fmax-errors=0',
             '-Wdiscarded-qualifiers', '-I', copy,
             '-I', tree.path(HW_INCLUDE), path], cwd=copy, text=True,
            stderr=subprocess.PIPE)) for path in sorted(copy.glob('*.c'))]
        for name, process in running:
            for line in process.communicate()[1].splitlines():
                found = re.match(r'\S*?([\w.]+):(\d+):\d+: (?:error|warning): '
                                 r'(.*)', line)
                if (found and name != owner
                        and found.group(1) != header):
                    problems.append((found.group(1), ':'.join(found.groups())))
    return sorted(set(problems))
