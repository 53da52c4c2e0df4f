# SPDX-License-Identifier: GPL-2.0-or-later
#
# Everything is built and run inside a Debian 13 root in the cache; `make
# help` lists the targets. ci/README.md tells how it works.

ENTER := ci/enter.sh
BUILD := $(ENTER) ci/build.py

.PHONY: help run test test-quick soak shell root build-qemu build-rdma-core \
	build-driver build-image build clean distclean

help:
	@echo 'make run             boot two VMs and show RDMA between them'
	@echo 'make test            run every test'
	@echo 'make test-quick      run the tests that need no VM'
	@echo 'make soak            50 times each of pingpong, rping, ib_write_bw'
	@echo 'make shell           two VMs with a console each'
	@echo 'make build           build everything; also each by itself:'
	@echo '                     build-qemu build-rdma-core build-driver build-image'
	@echo 'make clean           remove what was built, keep what was downloaded'
	@echo 'make distclean       remove the cache'
	@echo
	@echo 'The cache is ~/.cache/fakernic, or $$FAKERNIC_CACHE.'
	@echo 'FAKERNIC_ACCEL=kvm|tcg overrides the choice of the accelerator.'

root:
	@ci/bootstrap.sh

build: root
	@$(BUILD) all

build-qemu: root
	@$(BUILD) qemu

build-rdma-core: root
	@$(BUILD) rdma-core

build-driver: root
	@$(BUILD) driver-6.12 driver-6.1

build-image: root
	@$(BUILD) image

run: build
	@$(ENTER) tests/vm/demo

shell: build
	@$(ENTER) tests/vm/demo --shell

test: build
	@$(ENTER) ci/run_tests.py

test-quick: root
	@$(BUILD) qemu rdma-core driver-6.12 driver-6.1
	@$(ENTER) ci/run_tests.py --quick

soak: build
	@$(ENTER) tests/vm/soak

clean:
	@ci/clean.sh

distclean:
	@ci/clean.sh --all
