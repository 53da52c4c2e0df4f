# SPDX-License-Identifier: GPL-2.0-or-later
"""
Finds fields of structures of the engine and the device that are neither saved nor loaded. Every
function with a RoceStream moves the structures that it has a pointer to. Together,
the functions of a structure name all of its fields: in ROCE_FIELD and its like, or in
ROCE_DERIVED.
"""

import re

from callgraph import DEVICE, ENGINE

# save.c saves its registers as VMState fields. The rest is wiring.
NOT_HERE = ('FakernicState',)
STRUCT = re.compile(r'^(?:typedef )?struct (\w+) \{\n(.*?)^\}', re.S | re.M)
FUNCTION = re.compile(r'^(?:static )?\w+ (\w+)\(RoceStream \*s,([^)]*)\)\n\{\n(.*?)^\}',
                      re.S | re.M)
COMMENT = re.compile(r'/\*.*?\*/', re.S)
FIELD = re.compile(r'(\w+)\s*(?:\[[^\]]*\]\s*)*(?=[,;])')


def structures(texts):
    """Each structure's fields, with those of the structures inside it."""
    return {name: FIELD.findall(COMMENT.sub('', body))
            for text in texts for name, body in STRUCT.findall(text)}


def bodies(texts):
    """What the functions of each structure say."""
    found = {}
    for text in texts:
        for _, parameters, body in FUNCTION.findall(text):
            # The functions of a table's objects get any object.
            cast = re.findall(r'()(\w+) \*\w+ = object;', body)
            for const, name in cast + re.findall(r'(const )?\b(\w+) \*\w', parameters):
                if not const:
                    found[name] = found.get(name, '') + COMMENT.sub('', body)
    return found


def forgotten(tree):
    """(structure, complaint) of every field that no function names."""
    texts = [path.read_text(encoding='utf-8') for folder in (ENGINE, DEVICE)
             for path in sorted(tree.path(folder).rglob('*.[ch]'))]
    known = structures(texts)
    return [(name, f'{name}.{field} is neither saved nor marked as derived')
            for name, body in sorted(bodies(texts).items())
            if name in known and name not in NOT_HERE
            for field in known[name]
            if not re.search(r'(?:->|\.)' + field + r'\b', body)]
