# SPDX-License-Identifier: GPL-2.0-or-later
"""
Checks that names of fault rules, and of what QMP shows, are the same in the device's
tables, in the schema of QMP and in the documents of qemu-hw.
"""

import json
import re

from headers import SpecError

SCHEMA = 'qemu-hw/qmp/fakernic.json'
RULES = 'qemu-hw/FAULTS.md'
INSIDE = 'qemu-hw/INSPECTION.md'
README = 'qemu-hw/README.md'
FAULTS = 'qemu-hw/fault/rules.c'
QUERIES = 'qemu-hw/device/watch/objects.c'
LOOKS = 'qemu-hw/device/watch/rings.c'
DEVICE = 'qemu-hw/device/fakernic.c'
EVENTS = 'qemu-hw/trace-events'
# Trace events that do not belong to a device.
NAMELESS = {'fakernic_cpu_yields', 'fakernic_link_peer'}


def schema(tree):
    """{name: definition} from the schema."""
    text = re.sub(r'^#.*$', '', tree.read(SCHEMA), flags=re.M)
    text = text.replace("'", '"')
    decoder, at, found = json.JSONDecoder(), 0, {}
    while text[at:].strip():
        at += len(text[at:]) - len(text[at:].lstrip())
        one, at = decoder.raw_decode(text, at)
        kind = next(iter(one))
        found[one[kind]] = one
    return found


def table(tree, name, of):
    """The strings of a C array, in its order."""
    body = re.search(rf'\b{name}\[\w*\]\s*=\s*\{{(.*?)\}};', tree.read(of),
                     re.S)
    if not body:
        raise SpecError(f'{of}: no table {name}')
    return re.findall(r'(?:=|\{|,|^)\s*\{?\s*"([^"]+)"', body.group(1))


def points(tree):
    """The points of fault rules, in the order of the enumeration."""
    order = re.findall(r'^    ROCE_FAULT_(\w+),', tree.read(
        'qemu-hw/fault/rules.h').split('RoceFaultPoint;')[0], re.M)[:-1]
    rows = dict(re.findall(r'\[ROCE_FAULT_(\w+)\] = \{ "([\w-]+)"',
                           tree.read(FAULTS)))
    return [rows[name] for name in order]


def words(tree):
    """The words of a fault rule (the part before "=")."""
    return re.findall(r'^    \{ "([\w-]+)", KIND_', tree.read(FAULTS), re.M)


def members(definition):
    return [name.lstrip('*') for name in definition['data']]


def of_schema(name):
    return name.lower().replace('_', '-')


def enums(tree):
    """{enumeration of the schema: the names that it must have}"""
    def known(of, *tables):
        return ['unknown', *(of_schema(name) for found in tables
                             for name in table(tree, found, of))]

    kinds = re.findall(r'types\[\] = \{(.*?)\};', tree.read(QUERIES), re.S)
    found = {'FakernicQpType': kinds[0], 'FakernicKeyType': kinds[1] + kinds[2],
             'FakernicGidType': kinds[3], 'FakernicFlowType': kinds[4]}
    found = {name: ['unknown', *map(of_schema, re.findall(r'"(\w+)"', body))]
             for name, body in found.items()}
    return found | {
        'FakernicFaultPoint': points(tree),
        'FakernicFaultAction': table(tree, 'fault_actions', FAULTS),
        'FakernicFaultClass': table(tree, 'fault_classes', FAULTS),
        'FakernicFaultWhy': table(tree, 'fault_reasons', FAULTS),
        'FakernicFaultSeverity': table(tree, 'fault_severities', FAULTS),
        'FakernicQpState': known(QUERIES, 'fakernic_query_states'),
        'FakernicArm': known(QUERIES, 'arms'),
        'FakernicRingKind': table(tree, 'fakernic_look_kinds', LOOKS),
    }


def schema_names(tree):
    """QMP's schema has the names of the device's tables"""
    types = schema(tree)
    problems = []
    for name, due in enums(tree).items():
        if types[name]['data'] != due:
            problems.append(f'{name} is {types[name]["data"]}, the device has '
                            f'{due}')
    rule = set(members(types['FakernicFaultRule']))
    for name in sorted(rule ^ set(words(tree))):
        problems.append(f'FakernicFaultRule and {FAULTS} differ in {name}')
    said = {member for one in types.values() if 'data' in one
            for member in one['data'] if not isinstance(member, dict)}
    said |= {member for one in types.values() for member in one.get('base', {})}
    said = {member.lstrip('*') for member in said}
    for of in (QUERIES, LOOKS):
        shown = re.findall(r'fakernic_(?:json_\w+|query_use|query_table)\('
                           r'text, "([\w-]+)"', tree.read(of))
        problems += [f'{of} tells {name}, of which the schema knows nothing'
                     for name in sorted(set(shown) - said)]
    return problems


def properties(tree):
    """The device's properties that begin with x-."""
    text = tree.read(DEVICE)
    return sorted({*re.findall(r'"(x-[\w-]+)"', text),
                   *re.findall(r'^    \{ "(x-[\w-]+)"', tree.read(QUERIES),
                               re.M)})


def unnamed(tree, names, *documents):
    """A problem for each of {kind: names} that the documents do not quote."""
    quoted = set(re.findall(r'[\w-]+', ' '.join(
        re.findall(r'`+([^`]+)`+', ''.join(map(tree.read, documents))))))
    return [f'{", ".join(documents)}: no {kind} {name}'
            for kind, of_kind in names.items() for name in of_kind
            if name not in quoted]


def documented_inside(tree):
    """the documents name all that is seen and broken from outside"""
    language = {'point': points(tree), 'word': words(tree),
                'action': table(tree, 'fault_actions', FAULTS),
                'class': table(tree, 'fault_classes', FAULTS),
                'reason': table(tree, 'fault_reasons', FAULTS)}
    seen = {'property': properties(tree),
            'command or event': [
                name for name, one in schema(tree).items()
                if 'command' in one or 'event' in one]}
    return (unnamed(tree, language, RULES) +
            unnamed(tree, seen, README, RULES, INSIDE))


def offered(tree):
    """{point: actions} from the engine, without the actions that every point has."""
    text = tree.read(FAULTS)
    macros = {name: set(re.findall(r'DO\((\w+)\)', body)) for name, body in
              re.findall(r'#define (ON_\w+) +\(((?:.*\\\n)*.*)\)', text)}
    rows = re.search(r'fault_points\[\w+\] = \{(.*?)\n\};', text, re.S)
    found = {}
    for point, body in re.findall(r'\{ "([\w-]+)",(.*?)\}', rows.group(1),
                                  re.S):
        names = set(re.findall(r'DO\((\w+)\)', body)).union(
            *(macros[name] for name in re.findall(r'ON_\w+', body)))
        found[point] = {of_schema(name) for name in names} - {'count', 'pause'}
    return found


def documented_actions(tree):
    """the documented actions at each point of fault rules are the engine's"""
    every = set(table(tree, 'fault_actions', FAULTS))
    found = {}
    rows = tree.read(RULES).split('| at | when | do |')[1].split('\n\n')[0]
    for at, _, text in re.findall(r'^\| (.*?) \| (.*?) \| (.*?) \|$', rows, re.M):
        common, *also = text.split(';')
        for point in re.findall(r'`([\w-]+)`', at):
            said = ' '.join([common] + [words for words in also if
                                        words.strip().startswith(f'`{point}`')])
            found[point] = every.intersection(re.findall(r'`([\w-]+)`', said))
    engine = offered(tree)
    return [f'at {point}: {RULES} has {sorted(found.get(point, ()))}, the '
            f'engine {sorted(engine.get(point, ()))}'
            for point in sorted(found.keys() | engine.keys())
            if found.get(point) != engine.get(point)]


def traced_devices(tree):
    """each trace event begins with the device that it is of"""
    events = re.findall(r'^(fakernic_\w+)\((.*?)\) (.*)$', tree.read(EVENTS),
                        re.M)
    return [f'{EVENTS}: {name} does not begin with its device'
            for name, arguments, form in events if name not in NAMELESS and
            not (arguments.startswith('const char *dev') and
                 form.startswith('"%s'))]


CHECKS = (schema_names, documented_inside, documented_actions, traced_devices)
