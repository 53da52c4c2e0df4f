# SPDX-License-Identifier: GPL-2.0-or-later
"""
What does not obey its law yet. These lists only shrink: a set of keys, or the
number of complaints there may be at most.
"""

PENDING = 'pending'

KNOWN = {
    'driver_calls': {
        'dm', 'mr', 'odp', 'ucontext', 'device', 'netdev', 'rx', 'tx', 'cq',
        'qp', 'wq', 'counter', 'stats', 'eq', 'srq'},
    'provider_calls': {'cq', 'srq'},
    'formatted': PENDING,
    'columns': 330,
    'checkpatch': 31,
    'contracts_roce': 64,
    'contracts_device': 30,
    'contracts_kernel_driver': 157,
    'contracts_rdma_provider': 56,
    'function_length': {
        'test_dm_traffic', 'roce_response_answer', 'test_xrc_create',
        'step_command', 'fakernic_check_create_mr', 'test_cmd_reserved',
        'test_wqe_malformed'},
}
