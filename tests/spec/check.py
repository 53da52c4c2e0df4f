#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""
The interface tests: prints TAP, exits 1 when a test fails.

    check.py            run all checks and their self-test
    check.py --layout   write firmware-spec/layout.txt again
"""

import sys
from pathlib import Path

sys.dont_write_bytecode = True

import checks
import selftest
from check_tap import tap
from headers import LAYOUT, SpecError, Tree, render_layout


def main():
    tree = Tree(Path(__file__).resolve().parents[2])
    if sys.argv[1:] == ['--layout']:
        try:
            text = render_layout(*tree.measure())
        except SpecError as error:
            sys.exit(str(error))
        tree.path(LAYOUT).write_text(text, encoding='utf-8')
        return 0
    if sys.argv[1:]:
        sys.exit(__doc__.strip())
    print('TAP version 13')
    total = len(checks.CHECKS) + len(selftest.MUTATIONS)
    print(f'1..{total}')
    number, failed = 0, 0
    for check in checks.CHECKS:
        number += 1
        failed += tap(number, checks.run(check, tree), check.__doc__)
    for description, problems in selftest.run(tree):
        number += 1
        failed += tap(number, problems, description)
    print(f'# {total - failed} passed, {failed} failed')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
