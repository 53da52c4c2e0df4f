# SPDX-License-Identifier: GPL-2.0-or-later
"""
Proof that every check can fail: each mutation changes one file of a copy of
the checkout, and the named check must complain, with the given words.
"""

import shutil
import tempfile
from pathlib import Path

import checks
import formulas
import inside
from headers import DOCUMENT, HW_INCLUDE, UAPI_HEADER, UAPI_INCLUDE, Tree

BASE = f'{HW_INCLUDE}/fakernic'
UAPI = f'{UAPI_INCLUDE}/{UAPI_HEADER}'

# (check, file, old text, new text, words that the complaint must contain)
MUTATIONS = (
    (checks.headers_alone, f'{BASE}/eq.h', '#include "base.h"', '',
     'eq.h: gcc'),
    (checks.headers_alone, f'{BASE}/eq.h', '__u8 owner;', '__u16 owner;',
     'clang -std=c11'),
    (checks.headers_alone, f'{BASE}/rq.h', '__le32 lkey;',
     '__le32 lkey;\n\t__u8 more;', 'padding'),
    (checks.headers_off_linux, f'{BASE}/base.h', '#elif defined(__KERNEL__) ||',
     '#elif 1 ||', 'windows -nostdlibinc'),
    (checks.headers_off_linux, f'{BASE}/base.h', '#if defined(FAKERNIC_TYPES)',
     '#if 0', 'riscv64-unknown-elf -nostdinc'),
    (checks.headers_off_linux, checks.DRIVER, '#include <string.h>',
     '#include <unistd.h>', 'unistd.h'),
    (checks.headers_off_linux, f'{BASE}/eq.h', '__u8 owner;', '__s8 owner;',
     'eq.h:'),
    (checks.uapi_alone, UAPI, '#include <linux/types.h>', '', 'gcc'),
    (checks.header_includes, f'{BASE}/mr.h', '#include "base.h"',
     '#include "base.h"\n#include <stdint.h>', 'mr.h includes <stdint.h>'),
    (checks.hw_data_rules, f'{BASE}/cq.h',
     'FAKERNIC_SIZE(struct fakernic_cqe, 64);', '', 'no FAKERNIC_SIZE'),
    (checks.hw_data_rules, f'{BASE}/cq.h', '__le32 srqn;', '__u32 srqn;',
     'no field of HW DATA'),
    (checks.hw_data_rules, f'{BASE}/cq.h', '__le32 srqn;', '__le32 srqn : 24;',
     'cannot read the field'),
    (checks.uapi_rules, UAPI, '__u32 pdn;\n\t__u32 reserved;', '__u32 pdn;',
     'no multiple'),
    (checks.uapi_rules, UAPI, '__aligned_u64 sq_va;', '__u64 sq_va;',
     '__aligned_u64'),
    (checks.uapi_rules, UAPI, '__aligned_u64 sq_va;',
     '__u32 x;\n\t__u64 sq_va;', '32-bit'),
    (checks.layout_golden, f'{BASE}/cq.h', '__le32 qpn;', '__le32 qp_number;',
     'qp_number'),
    (checks.layout_golden, f'{BASE}/eq.h', '= 16,', '= 17,',
     'FAKERNIC_EVENT_PAGE_REQUEST 0x11'),
    (checks.changes_version, f'{BASE}/regs.h',
     'FAKERNIC_INTERFACE_MINOR\t1', 'FAKERNIC_INTERFACE_MINOR\t2', '## 1.2'),
    (checks.changes_version, DOCUMENT, 'RO      0x00010001 ',
     'RO      0x00010000 ', 'does not read 0x00010001'),
    (checks.document_syntax, DOCUMENT, '``FAKERNIC_CMD_OK``',
     '``FAKERNIC_CMD_OK', 'Malformed table'),
    (checks.document_syntax, DOCUMENT, 'include:: driver.c',
     'include:: nothing.c', 'nothing.c'),
    (checks.document_driver, checks.DRIVER, 'q->index++;', 'q->index--',
     'driver.c: gcc'),
    (checks.document_driver, checks.DRIVER, '\tmake(&answers, 8);\n', '',
     'does not say'),
    (checks.document_driver, checks.DRIVER, 'make(&answers, 8);\n',
     'make(&answers, 8);\n\trelax();\n', 'driver in 151 lines'),
    (checks.conformance_rules, DOCUMENT, 'sheet/d3hot', 'sheet/d3cold',
     'there is no test sheet/d3cold'),
    (checks.conformance_rules, DOCUMENT, '\nD2 ', '\nD3 ', 'not in order'),
    (checks.document_names, DOCUMENT, 'FAKERNIC_CMD_BAD_STATE',
     'FAKERNIC_CMD_WRONG_STATE', 'not in any header'),
    (checks.document_names, f'{BASE}/eq.h', '= 16,',
     '= 16,\n\tFAKERNIC_EVENT_UNHEARD_OF = 17,', 'not in the data sheet'),
    (checks.document_values, DOCUMENT, '0x054 ', '0x058 ',
     'FAKERNIC_REG_CMDQ_DOORBELL: the data sheet says 0x058'),
    (checks.document_values, f'{BASE}/regs.h', 'FAKERNIC_BITS(22, 22)',
     'FAKERNIC_BITS(42, 42)', 'FAKERNIC_FEATURE_CNP'),
    (checks.document_values, f'{BASE}/stats.h', '\tFAKERNIC_STAT_TX_BYTES,',
     '', 'FAKERNIC_STAT_RX_FRAMES'),
    (checks.counter_names, f'{BASE}/stat_names.h', '"tx_bytes"', '"bytes"',
     "('TX_BYTES', 'tx_bytes') is due"),
    (checks.document_structs, f'{BASE}/cq.h', '__le32 qpn;',
     '__le32 qp_number;', '+ 8 4 qp_number'),
    (checks.document_structs, DOCUMENT, 'struct fakernic_eqe, 16 bytes',
     'struct fakernic_eqe, 24 bytes', '24 bytes in the data sheet'),
    (formulas.rnr_timers, DOCUMENT, '30   327.68', '30   327.86',
     'RNR timer 30: the data sheet says 327.86, the engine 327.68 ms'),
    (formulas.rnr_timers, formulas.RNR_TIMERS, '65536, 1, 2,', '65536, 2, 2,',
     'RNR timer 1: the data sheet says 0.01, the engine 0.02 ms'),
    (formulas.rnr_timers, DOCUMENT, '0    655.36  4    0.04',
     '32   655.36  4    0.04', 'RNR timer 0: the data sheet says None'),
    (formulas.credits, formulas.CREDITS, '24576, 32768', '24576, 32769',
     'credit code 30: the data sheet says 32768.0, the engine 32769'),
    (formulas.static_rates, formulas.RATES, '[11] = 14062500',
     '[11] = 14000000', 'static rate 11: the data sheet says 14062.5'),
    (formulas.dcqcn, formulas.DCQCN, 'HYPER_KBPS 400000', 'HYPER_KBPS 500000',
     'hyper step: the data sheet says 400 Mbit/s, the engine 500'),
    (formulas.frame_formulas, DOCUMENT, '0022  cf d2', '0022  df d2',
     'port of the frame should be cfd2'),
    (formulas.frame_formulas, DOCUMENT, '00 00 2a 17', '00 00 2a 18',
     'the ICRC of the frame'),
    (formulas.rss_formula, DOCUMENT, 'The hash is 0x5', 'The hash is 0x6',
     'is 0x51ccc178'),
    (checks.spdx_lines, 'qemu-hw/roce/roce.h', 'SPDX', 'XPDS', 'no SPDX'),
    (checks.spdx_lines, 'qemu-hw/roce/roce.h', 'GPL-2.0-or-later', 'MIT',
     'MIT is not the licence'),
    (checks.licence_texts, 'qemu-hw/roce/roce.h', 'GPL-2.0-or-later',
     'LGPL-3.0-only', 'LICENSES/LGPL-3.0-only.txt'),
    (checks.engine_includes, 'qemu-hw/roce/roce.h', '#include <stdint.h>',
     '#include <stdint.h>\n#include "qemu/osdep.h"', 'qemu/osdep.h'),
    (checks.one_definition, 'qemu-hw/roce/roce.h', '#include <stdint.h>',
     '#include <stdint.h>\nstruct fakernic_cqe {\n};', 'fakernic_cqe again'),
    (checks.one_definition, 'qemu-hw/roce/roce.h', '#include <stdint.h>',
     '#include <stdint.h>\n#define FAKERNIC_EVENT_NONE 0',
     'FAKERNIC_EVENT_NONE again'),
    (checks.requests_reserved, 'qemu-hw/device/cmd/cmdq.c',
     'RSVD(struct fakernic_create_eq_req, rsvd2)', '{ 0, 0 }',
     'fakernic_create_eq_req.rsvd2'),
    (inside.schema_names, inside.FAULTS, '= "overrun"', '= "overflow"',
     'FakernicFaultAction is'),
    (inside.schema_names, inside.FAULTS, '{ "mbps", KIND_NUMBER',
     '{ "gbps", KIND_NUMBER', 'differ in gbps'),
    (inside.schema_names, inside.QUERIES, '"retry-left"', '"tries-left"',
     'objects.c tells tries-left'),
    (inside.schema_names, inside.SCHEMA, "'raw-packet'", "'raw'",
     'FakernicQpType is'),
    (inside.documented_inside, inside.INSIDE, '| `x-counters` |', '| |',
     'no property x-counters'),
    (inside.documented_inside, inside.RULES, '`every`', '',
     'no word every'),
    (inside.documented_actions, inside.FAULTS, '"eqe", ON_STORES | DO(CORRUPT)',
     '"eqe", ON_STORES', 'at eqe: qemu-hw/FAULTS.md has'),
    (inside.documented_inside, inside.SCHEMA, "'x-query-fakernic-eqs'",
     "'x-query-fakernic-event-queues'", 'x-query-fakernic-event-queues'),
    (inside.traced_devices, inside.EVENTS, '(const char *dev, unsigned vector)',
     '(unsigned vector)', 'fakernic_interrupt'),
)


def copy_tree(tree, work):
    ignore = shutil.ignore_patterns('.git', '__pycache__', 'build', '*.o',
                                    '*.ko', '*.pcap')
    for area in (*checks.AREAS, 'LICENSES'):
        if tree.path(area).is_dir():
            shutil.copytree(tree.path(area), Path(work, area), ignore=ignore)
    for name in ('README.md', 'Makefile', '.editorconfig'):
        if tree.path(name).is_file():
            shutil.copy(tree.path(name), work)
    return Tree(work)


def mutation_problem(tree, mutation):
    """None if the check found the mutation; else the problem."""
    check, name, old, new, words = mutation
    path = tree.path(name)
    text = path.read_text(encoding='utf-8')
    if old not in text:
        return f'{name} no longer holds "{old}": update the mutation'
    path.write_text(text.replace(old, new), encoding='utf-8')
    try:
        complaints = '\n'.join(checks.run(check, tree))
    finally:
        path.write_text(text, encoding='utf-8')
    if words not in complaints:
        return (f'{check.__name__} does not notice "{old}" -> "{new}" in '
                f'{name}; it said: {complaints or "nothing"}')
    return None


def run(tree):
    """Yields (description, problems) for every mutation."""
    with tempfile.TemporaryDirectory() as work:
        copy = copy_tree(tree, work)
        for mutation in MUTATIONS:
            problem = mutation_problem(copy, mutation)
            yield (f'{mutation[0].__name__} notices: {mutation[4]}',
                   [problem] if problem else [])
