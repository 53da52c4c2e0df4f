#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""
Checks the laws of the code and runs their self-test. Prints TAP; exits 1 if one fails.

    check.py            all laws
    check.py LAW...     these laws, by the names of their functions in laws.py
    check.py --tighten  remove from known.py the violations that no longer exist
"""

import sys
import textwrap
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.append(str(Path(__file__).resolve().parents[1] / 'spec'))

import known
import laws
import selftest
from check_tap import tap
from headers import Tree

# Maximum number of complaints shown of a law whose known violations are only counted.
SHOWN = 20


def judge(law, found):
    """(problems, remarks) from the complaints of a law, without its known violations."""
    excuse = known.KNOWN.get(law.__name__, set())
    if excuse == known.PENDING:
        return [], [f'pending: {len(found)} to go'] if found else []
    if isinstance(excuse, int):
        over = len(found) > excuse
        return ([text for _, text in found[:SHOWN]] +
                [f'{len(found)} in all: {excuse} are known'] if over else [],
                [f'known.py: {law.__name__} is {len(found)} by now'] if
                len(found) < excuse else [])
    gone = excuse - {key for key, _ in found}
    return ([text for key, text in found if key not in excuse],
            [f'known.py: strike off {law.__name__} {key}'
             for key in sorted(gone)])


def tightened(excuse, found):
    """The entry of known.py, without violations that no longer exist."""
    if excuse == known.PENDING:
        return excuse if found else None
    if isinstance(excuse, int):
        return min(excuse, len(found))
    return excuse & {key for key, _ in found}


def render(excuse):
    if not isinstance(excuse, set):
        return repr(excuse)
    keys = ', '.join(repr(key) for key in sorted(excuse))
    return '{\n' + textwrap.fill(keys, 78, initial_indent=' ' * 8,
                                 subsequent_indent=' ' * 8,
                                 break_long_words=False,
                                 break_on_hyphens=False) + '}'


def tighten(tree):
    path = Path(known.__file__)
    head = path.read_text(encoding='utf-8').split('KNOWN = {')[0]
    lines = ['KNOWN = {']
    for law in laws.LAWS:
        if law.__name__ in known.KNOWN:
            left = tightened(known.KNOWN[law.__name__], laws.run(law, tree))
            if left:
                lines.append(f"    '{law.__name__}': {render(left)},")
    path.write_text(head + '\n'.join(lines) + '\n}\n', encoding='utf-8')


def main(names):
    tree = Tree(Path(__file__).resolve().parents[2])
    if names == ['--tighten']:
        return tighten(tree)
    chosen = [law for law in laws.LAWS if not names or law.__name__ in names]
    if len(chosen) < len(names):
        sys.exit(__doc__.strip())
    total = len(chosen) + (0 if names else len(selftest.TESTS))
    print('TAP version 13')
    print(f'1..{total}')
    failed = 0
    for number, law in enumerate(chosen, 1):
        problems, remarks = judge(law, laws.run(law, tree))
        failed += tap(number, problems, law.__doc__)
        for remark in remarks:
            print(f'# {remark}')
    if not names:
        for number, (description, problems) in enumerate(
                selftest.run(tree), len(chosen) + 1):
            failed += tap(number, problems, description)
    print(f'# {total - failed} passed, {failed} failed')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
