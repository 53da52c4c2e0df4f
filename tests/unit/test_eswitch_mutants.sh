#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Plants bugs in copies of the embedded switch. test_eswitch_model or test_eswitch
# must find each. A line of the list is NAME|SED COMMAND. TAP on stdout.
# Environment: CC, BUILD, HW, SPEC.
set -u
work=$BUILD/mutants
number=0
mkdir -p "$work"

# Without sanitizers, to be fast.
for test in test_eswitch_model test_eswitch; do
    $CC -std=c11 -O1 -w -I. -I"$HW" -I"$SPEC" -c -o "$work/$test.o" "$test.c" || exit 1
done

plant() {       # name command
    sed "$2" "$HW/eswitch/eswitch.c" >"$work/$1.c"
    if cmp -s "$work/$1.c" "$HW/eswitch/eswitch.c"; then
        echo "# the sed command changes nothing"
        return 1
    fi
    $CC -std=c11 -O0 -w -I"$HW/eswitch" -I"$SPEC" -c -o "$work/$1.o" "$work/$1.c"
}

# A crash counts, too.
found() {       # name
    for test in test_eswitch_model test_eswitch; do
        $CC -o "$work/$1" "$work/$test.o" "$work/$1.o" || return 1
        timeout 20 "$work/$1" >"$work/$1.log" 2>&1 || return 0
    done
    return 1
}

while IFS='|' read -r name command; do
    number=$((number + 1))
    if plant "$name" "$command" && found "$name"; then
        echo "ok $number - $name is found"
    else
        echo "not ok $number - $name is found"
    fi
done <<'EOT'
disabled_link_sends|s/bool good = port_link_up(sw, port) \&\&/bool good =/
disabled_link_receives|/^static void port_give/,/^}/s/if (!port_link_up(sw, port)) {/if (false) {/
forced_link_follows_uplink|s/        return port->present;/        return port->present \&\& sw->uplink_up;/
absent_vf_receives|s/i != sender \&\& port->present \&\&/i != sender \&\&/
absent_vf_keeps_addresses|s/rank = 0; port->present \&\& rank/rank = 0; rank/
spoofed_frame_enters|s/good \&\& port->set.spoof_check \&\&/false \&\&/
replaced_address_may_send|s/const uint8_t \*own = mac_is_set(port->set.mac) ? port->set.mac/const uint8_t *own = false ? port->set.mac/
untrusted_driver_chooses|s/return port->set.trust || !port->set.spoof_check;/return true;/
driver_wins_over_administrator|s/a->rank != b->rank ? a->rank < b->rank/a->rank != b->rank ? a->rank > b->rank/
sender_gets_its_frame|s/if (sw->table\[i\].port != sender) {/if (true) {/
sender_gets_its_broadcast|s/if (i != sender \&\& port->present/if (port->present/
own_address_leaves|s/    case FOUND_SENDER:/    case FOUND_SENDER: break;/
miss_of_the_wire_is_lost|s/hit = from_uplink ? ESWITCH_PF : hit;/;/
miss_of_a_vf_reaches_the_pf|s/hit = from_uplink ? ESWITCH_PF : hit;/hit = ESWITCH_PF;/
untrusted_sees_all|s/return port->present \&\& port->set.trust \&\&/return port->present \&\&/
copy_looks_like_a_frame|s/receivers_add(to, i, !asks);/receivers_add(to, i, false);/
reserved_group_enters|s/good = good \&\& (port->set.trust || !mac_is_reserved(frame));/;/
reserved_group_reaches_vfs|s/    if (mac_is_reserved(target)) {/    if (false) {/
broadcast_by_the_wrong_bit|s/FAKERNIC_FILTER_BROADCAST/FAKERNIC_FILTER_MULTICAST/
vlans_of_two_types_meet|s/return vid \&\& type == TYPE_SERVICE ?/return false ?/
untagged_reaches_a_vlan|s/(!port_vlan(port) || port_vlan(port) == f->vlan)/(!port_vlan(port) || !f->vlan || port_vlan(port) == f->vlan)/
other_vlan_is_reached|s/        exact = table_find_key(sw, address_key(mac, vlan), sender, found);/        exact = table_find_key(sw, address_key(mac, vlan ^ 3), sender, found);/
tag_is_not_stripped|s/const bool strip = port_vlan(port);/const bool strip = false;/
second_tag_of_a_type|s/    if (f->type == port->set.vlan_proto) {/    if (false) {/
priority_is_lost|s/(uint16_t)(port->set.qos << 13 | port->set.vid)/(uint16_t)(port->set.vid)/
cut_tag_is_read|s/len >= HEADER + TAG) {/len >= HEADER) {/
long_frame_enters|s/f->full_len <= ESWITCH_FRAME_MAX;/true;/
queue_has_no_end|s/size <= ESWITCH_QUEUE_BYTES - port->queued/true/
queue_is_reversed|s/    \*port->last = queued;/    queued->next = port->first; port->first = queued;/
busy_uplink_drops|s/if (to.uplink \&\& uplink->busy/if (false \&\& uplink->busy/
wait_is_forgotten|s/^        port_resume(sw, port);/        ;/;s/^            port_resume(sw, port);/            ;/
down_uplink_blocks|s/if (to.uplink \&\& uplink->busy \&\& port_link_up(sw, uplink)) {/if (to.uplink \&\& uplink->busy) {/
vanished_vf_waits|/^void eswitch_set_present/,/^}/s/    port_resume(sw, port);/    port_wait(sw, port, WAITS_NOT);/
rate_is_ignored|s/port->set.max_mbps \&\& port->paid > now/false/
rate_without_burst_limit|s/(port->paid > idle ? port->paid : idle)/(port->paid > 0 ? port->paid : 0)/
counters_survive_vf_enable|s/memset(port->counters, 0, sizeof(port->counters));/;/
EOT
echo "1..$number"
