# SPDX-License-Identifier: GPL-2.0-or-later
"""
Known violations of the laws: for each law a set of keys, or the maximum number of
complaints. The lists must not grow.
"""

PENDING = 'pending'

KNOWN = {
    'columns': 56,
    'function_length': {
        'step_command', 'test_cmd_reserved', 'test_wqe_malformed',
        'test_xrc_create'},
    'parameter_count': {
        'LLVMFuzzerCustomCrossOver', 'connect_qp_at', 'connect_rc',
        'create_wq', 'dump_is', 'fakernic_pin_user_mr',
        'fakernic_process_mad', 'fakernic_recreate_mr',
        'fakernic_reg_dmabuf_attrs', 'fakernic_reg_dmabuf_udata',
        'fakernic_reg_user_mr', 'fakernic_reg_user_mr_dmabuf',
        'fakernic_rereg_user_mr', 'fakernic_ring_init_some', 'fuzz_crossover',
        'go', 'ibv_cmd_alloc_mw', 'ibv_cmd_create_cq_ex',
        'ibv_cmd_create_qp_ex2', 'ibv_cmd_create_srq_ex', 'ibv_cmd_create_wq',
        'ibv_cmd_modify_qp_ex', 'ibv_cmd_open_qp', 'ibv_cmd_open_xrcd',
        'ibv_cmd_reg_dm_mr', 'ibv_cmd_reg_dmabuf_mr', 'ibv_cmd_reg_mr',
        'ibv_cmd_rereg_mr', 'moves', 'nic_command', 'paging_update',
        'roce_mr_set_translation', 'tagged_receive', 'tcp_receive',
        'world_add_mr', 'world_log'},
    'plain_english': 37,
    'targets_tell': {'test-debug-kernel', 'test-failing'},
}
