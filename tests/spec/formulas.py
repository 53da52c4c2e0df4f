# SPDX-License-Identifier: GPL-2.0-or-later
"""
Compares the data sheet's tables of numbers with those of the engine, and its formulas
with the bytes of its examples. tests/qtest compares these with a running device.
"""

import re
import zlib

import document
from headers import SpecError, strip_comments

RNR_TIMERS = 'qemu-hw/roce/retry.c'
CREDITS = 'qemu-hw/roce/credit.c'
RATES = 'qemu-hw/roce/rate.c'
DCQCN = 'qemu-hw/roce/rate.h'


def engine_table(tree, of, name):
    """{index: number} from an array of the engine."""
    found = re.search(rf'\b{name}\[\w*\] = \{{(.*?)\}};',
                      strip_comments(tree.read(of)), re.S)
    if not found:
        raise SpecError(f'{of}: no table {name}')
    numbers, index = {}, 0
    for place, number in re.findall(r'(?:\[(\d+)\] = )?(\d+),',
                                    found.group(1)):
        index = int(place or index)
        numbers[index] = int(number)
        index += 1
    return numbers


def printed_table(tree, *heads):
    """{n: number} from the data sheet's table whose column heads repeat HEADS."""
    printed = {}
    for _, found, rows in document.tables(tree):
        if tuple(found[:2]) == heads:
            for row in rows:
                printed |= {int(n): float(value) for n, value
                            in zip(row[::2], row[1::2]) if n.isdigit()}
    return printed


def compare(what, printed, engine, unit):
    problems = [f'{what} {n}: the data sheet says {printed.get(n)}, the engine '
                f'{engine.get(n)}{unit}'
                for n in sorted(printed.keys() | engine.keys())
                if printed.get(n) != engine.get(n)]
    return problems or ([] if engine else [f'no {what} at all'])


def rnr_timers(tree):
    """the data sheet's RNR timers (IBTA table 45) are those of the engine"""
    engine = {n: tens / 100 for n, tens in engine_table(
        tree, RNR_TIMERS, 'roce_rnr_10us').items()}
    return compare('RNR timer', printed_table(tree, 'n', 'ms'), engine, ' ms')


def credits(tree):
    """the data sheet's credits (IBTA table 46) are those of the engine"""
    return compare('credit code', printed_table(tree, 'code', 'receives'),
                   engine_table(tree, CREDITS, 'roce_credit_table'), '')


def static_rates(tree):
    """the data sheet's static rates are those of the engine"""
    engine = {n: kbps / 1000 for n, kbps in engine_table(
        tree, RATES, 'roce_rate_table').items()}
    return compare('static rate', printed_table(tree, 'n', 'Mbit/s'), engine,
                   ' Mbit/s')


def dcqcn(tree):
    """the data sheet's numbers of DCQCN are those of the engine"""
    text = tree.read(DCQCN)
    number = {name: int(value, 0) for name, value in re.findall(
        r'#define ROCE_DCQCN_(\w+) (\w+?)u?$', text, re.M)}
    due = {'alpha gain': f"1/{1 << number['GAIN_SHIFT']}",
           'alpha decay': f"{number['ALPHA_NS'] // 1000} us",
           'cut interval': f"{number['CUT_NS'] // 1000} us",
           'timer step': f"{number['INCREASE_NS'] // 1000} us",
           'byte step': f"{number['INCREASE_BYTES'] // 1000000} MB",
           'fast recovery': f"{number['RECOVERY_STEPS']} steps",
           'additive step': f"{number['ADDITIVE_KBPS'] // 1000} Mbit/s",
           'hyper step': f"{number['HYPER_KBPS'] // 1000} Mbit/s",
           'least rate': f"{number['MIN_KBPS'] // 1000} Mbit/s"}
    printed = {}
    for _, heads, rows in document.tables(tree):
        if heads[:2] == ['DCQCN', 'value']:
            printed = {row[0]: row[1] for row in rows}
    return [f'DCQCN, {what}: the data sheet says {printed.get(what)}, the '
            f'engine {value}' for what, value in due.items()
            if printed.get(what) != value]


# ---- formulas ---------------------------------------------------------------

def udp_source_port(qpn, dest_qpn):
    mix = qpn * 0x9e3779b1 ^ dest_qpn * 0x85ebca6b
    label = (mix ^ mix >> 20 ^ mix >> 40) & 0xfffff
    return 0xc000 | ((label & 0x3fff) ^ label >> 14)


def icrc(packet):
    """The ICRC of an IPv4 packet that has none yet."""
    masked = bytearray(packet)
    for place in (1, 8, 10, 11, 26, 27, 32):
        masked[place] = 0xff
    return zlib.crc32(bytes(8 * [0xff]) + masked).to_bytes(4, 'little')


def frame_formulas(tree):
    """UDP port and ICRC of the sheet's frame follow from its formulas"""
    frame = document.example(tree, 'frame')
    wqe = document.example(tree, 'cqe')
    port = udp_source_port(int.from_bytes(wqe[8:12], 'little'),
                           int.from_bytes(frame[0x2f:0x32], 'big'))
    problems = []
    if int.from_bytes(frame[0x22:0x24], 'big') != port:
        problems.append(f'the UDP source port of the frame should be {port:x}')
    if frame[-4:] != icrc(frame[14:-4]):
        problems.append('the ICRC of the frame should be '
                        f'{icrc(frame[14:-4]).hex()}')
    return problems


def toeplitz(key, data):
    key_bits = int.from_bytes(key, 'big')
    value = 0
    for n in range(8 * len(data)):
        if data[n // 8] & 0x80 >> n % 8:
            value ^= key_bits >> 8 * len(key) - 32 - n & 0xffffffff
    return value


def rss_formula(tree):
    """the hash of the sheet's example follows from its formula"""
    data = document.example(tree, 'rss-input')
    value = toeplitz(document.example(tree, 'rss-key'), data)
    said = re.search(r'The hash is (0x\w+)', tree.read(document.DOCUMENT))
    if len(data) != 12 or not said or int(said.group(1), 16) != value:
        return [f'the hash of {data.hex()} is {value:#x}']
    return []


CHECKS = (rnr_timers, credits, static_rates, dcqcn, frame_formulas, rss_formula)
