# SPDX-License-Identifier: GPL-2.0-or-later
"""One line of TAP, and remarks of what is wrong."""


def tap(number, problems, description):
    print(f'{"not " if problems else ""}ok {number} - {description}',
          flush=True)
    for problem in problems:
        for line in problem.splitlines():
            print(f'# {line}')
    return bool(problems)
