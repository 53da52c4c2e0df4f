#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""
The laws of the code and their self-test: prints TAP, exits 1 when one is broken.

    check.py            all laws
    check.py LAW...     these, by their functions' names in laws.py
"""

import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.append(str(Path(__file__).resolve().parents[1] / 'spec'))

import known
import laws
import selftest
from check_tap import tap
from headers import Tree

# Of complaints that are only counted.
SHOWN = 20


def judge(law, found):
    """(problems, remarks) of what a law found, with what is known of it."""
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


def main(names):
    tree = Tree(Path(__file__).resolve().parents[2])
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
