# SPDX-License-Identifier: GPL-2.0-or-later
"""Prints one line of TAP, and the problems as remarks."""


def tap(number, problems, description):
    print(f'{"not " if problems else ""}ok {number} - {description}',
          flush=True)
    for problem in problems:
        for line in problem.splitlines():
            print(f'# {line}')
    return bool(problems)
