# SPDX-License-Identifier: GPL-2.0-or-later
#
# make -C tests/bench -f engine.mk [BUILD=dir] [SECONDS=0.5]
#
# The engine alone, as engine.c says; optimized as QEMU's default build is.

BUILD ?= build
SECONDS ?= 0.5
ROCE := ../../qemu-hw/roce
CFLAGS ?= -O2 -g
ALL_CFLAGS := -std=c11 -Wall -Wextra -Werror $(CFLAGS) -I$(ROCE)/.. -I$(ROCE) \
	-I../../firmware-spec/include
SOURCES := engine.c $(wildcard $(ROCE)/*.c $(ROCE)/../fault/*.c)

.PHONY: bench
bench: $(BUILD)/bench-engine
	@$(BUILD)/bench-engine $(SECONDS) >$(BUILD)/bench-engine.json; code=$$?; \
		echo 'the same in $(BUILD)/bench-engine.json'; exit $$code

$(BUILD)/bench-engine: $(SOURCES) $(wildcard $(ROCE)/*.h $(ROCE)/../fault/*.h)
	@mkdir -p $(BUILD)
	$(CC) $(ALL_CFLAGS) -o $@ $(SOURCES) -ldeflate
