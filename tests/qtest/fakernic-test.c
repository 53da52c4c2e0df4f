/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * QTest of the fakernic device, as a driver sees it, without a guest. One file
 * per chapter. firmware-spec/fakernic.rst is the source of what tests expect.
 */
#include "qemu/osdep.h"
#include "fakernic-setup.h"

static void run_on_rig(const void *data)
{
    const FakernicTest *test = data;
    Rig r = { 0 };

    test->begin(&r);
    test->on(&r);
    g_free(r.n.pci);
    machine_stop(&r.m);
}

static void add_tests(const FakernicTest *tests)
{
    for (const FakernicTest *test = tests; test->name; test++) {
        g_autofree char *path = g_strdup_printf("fakernic/%s", test->name);

        if (test->run) {
            qtest_add_func(path, test->run);
        } else {
            qtest_add_data_func(path, test, run_on_rig);
        }
    }
}

int main(int argc, char **argv)
{
    static const FakernicTest *const chapters[] = {
        fakernic_registers_tests,
        fakernic_commands_tests,
        fakernic_queues_tests,
        fakernic_traffic_tests,
        fakernic_srq_tests,
        fakernic_xrc_tests,
        fakernic_dm_tests,
        fakernic_flow_tests,
        fakernic_odp_tests,
        fakernic_rss_tests,
        fakernic_port_tests,
        fakernic_resets_tests,
        fakernic_life_tests,
        fakernic_save_tests,
        fakernic_fault_tests,
        fakernic_query_tests,
        fakernic_qmp_tests,
        fakernic_record_tests,
        fakernic_sheet_tests,
        fakernic_cost_tests,
        fakernic_persist_tests,
        fakernic_peer_tests,
        fakernic_link_tests,
        fakernic_vf_tests,
        fakernic_example_tests,
    };

    g_test_init(&argc, &argv, NULL);
    for (unsigned i = 0; i < ARRAY_SIZE(chapters); i++) {
        add_tests(chapters[i]);
    }
    if (g_test_perf()) {
        add_tests(fakernic_rates);
    }
    return g_test_run();
}
