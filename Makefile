# SPDX-License-Identifier: GPL-2.0-or-later
#
# Everything is built and run inside a Debian 13 root in the cache; `make
# help` lists the targets. ci/README.md tells how it works.

ENTER := ci/enter.sh
BUILD := $(ENTER) ci/build.py

.PHONY: help run unit laws format tighten test test-quick timeline timeline-cost \
	test-arch test-mutants test-long test-link test-many test-programs test-packages \
	test-recipes test-intree test-cni test-nested test-qemu-versions test-reproductions test-debug-kernel \
	test-failing soak fuzz \
	docs documents coverage shell bench bench-compare bench-engine bench-rules \
	bench-cost bench-awake bench-wire bench-kvm \
	root build-qemu build-rdma-core build-driver build-image build-x86_64 build-arm64 build-riscv64 build \
	packages bundle test-bundle release test-release clean distclean

# Kernels and other versions: ci/versions, and this architecture: ci/arches. Read only by
# targets that use them.
ARCH = $(shell ci/arch.sh name)
HOST_QEMU = $(shell ci/arch.sh qemu)
MAIN = $(shell ci/versions.sh kernel main)
OLD_KERNEL = $(shell ci/versions.sh kernel old)
NEW_KERNEL = $(shell ci/versions.sh kernel new)
LONG_KERNEL = $(shell ci/versions.sh kernel long)
ARM64_KERNEL = $(shell ci/versions.sh kernel arm64)

# Of make fuzz: seconds per target, and parallel jobs.
SECONDS := 600
JOBS := 1
# Of make test-failing: the main kernel or debug; of make test-debug-kernel: debug, if it
# is not kcsan.
KERNEL = $(MAIN)
DEBUG_KERNEL = $(or $(filter kcsan,$(KERNEL)),debug)
# Of make soak.
MINUTES := 60
# Of make timeline: its limit in seconds, without the build; 0: none.
LIMIT := 60
# Of make test-debug-kernel: which tests of tests/vm, by default all; with LONG=1
# those of make test-long.
TESTS :=
LONG :=
# Of make test-packages: Debian 13 or 12.
RELEASE := 13
# Of make test-qemu-versions and of make test-intree.
QEMUS = $(shell ci/versions.sh qemu new)
LINUXES = $(MAIN)

help:
	@echo 'make run             boot two VMs and show RDMA between them; V=1: with all'
	@echo '                     that the commands print'
	@echo 'make unit            the unit tests, in seconds; TESTS=test_mr: one program'
	@echo 'make laws            prove the laws of the code; make format mends some,'
	@echo '                     make tighten shortens the list of exceptions'
	@echo 'make test            run the tests; by itself: test-packages, test-long'
	@echo 'make test-quick      run the tests that need no VM'
	@echo 'make test-mutants    each fault rule does nothing in turn: its test must fail;'
	@echo '                     minutes'
	@echo 'make test-arch       unit tests and the whole simulator on arm64 and s390x;'
	@echo '                     VM tests between an arm64 and an x86_64 guest, and on an'
	@echo '                     arm64 kernel with pages of 16 KiB'
	@echo 'make test-long       the VM tests that make test leaves out'
	@echo 'make test-link       the VM tests over the link, but where a wire'
	@echo '                     between guests loses frames, or joins Soft-RoCE'
	@echo 'make test-many       8 and 32 machines on one wire, each way of joining them'
	@echo 'make test-programs   libfabric, UCX, RNBD, SMB Direct, Open MPI...: PROGRAMS.md'
	@echo 'make test-packages   the Debian packages, in two plain Debian machines'
	@echo 'make test-bundle     the bundle in Debian 11, 12, 13 and sid, by a plain user'
	@echo 'make test-recipes    the recipes, the CI step and its examples, in a plain Debian;'
	@echo '                     the packages, those for other Debians too, lintian'
	@echo 'make test-intree     the driver in a Linux tree: small kernels with =m and =y'
	@echo '                     boot; of $(MAIN), or LINUXES="$(MAIN) $(NEW_KERNEL)"'
	@echo 'make test-cni BIN=FOLDER  the CNI plug-ins sriov and rdma of that folder on'
	@echo '                     virtual functions, and on those of igb: half an hour'
	@echo 'make test-nested     libvirt in a guest gives a virtual function to a guest of'
	@echo '                     its own, which does RDMA: half an hour at most'
	@echo 'make test-qemu-versions  the device in newer QEMUs: in $(QEMUS), or'
	@echo '                     QEMUS="$(shell ci/versions.sh qemu new long)"'
	@echo 'make test-reproductions  today'"'"'s qtests against an older device: they fail'
	@echo 'make timeline        four work requests as a page, packet by packet'
	@echo 'make timeline-cost   what recording one costs, over 10,000 work requests'
	@echo 'make test-debug-kernel  the VM tests on a kernel that reports what its'
	@echo '                     drivers do wrong: hours;'
	@echo '                     TESTS="test_queues.py test_odp.py": some of them;'
	@echo '                     LONG=1: the long ones; KERNEL=kcsan: data races'
	@echo 'make test-failing    each allocation of the driver fails; KERNEL=debug: on that'
	@echo 'make soak            everything at once with 1 % loss: MINUTES=60'
	@echo 'make fuzz            fuzz engine, link and device: SECONDS=600 each, JOBS=1'
	@echo 'make bench           compare it with Soft-RoCE: four hours at most;'
	@echo '                     BENCH=--short: most of one; BENCH=--quick: minutes'
	@echo 'make bench-compare   measure the device of OLD=REV and of this checkout'
	@echo 'make bench-engine    measure the engine alone: half a minute'
	@echo 'make bench-cost      count what a message costs: accesses, interrupts, system'
	@echo '                     calls...: twenty minutes'
	@echo 'make bench-kvm       measure with KVM, and leave one file to send back: an hour'
	@echo 'make bench-awake     measure whether sq-awake-us should be on: two hours'
	@echo 'make bench-wire      measure wires between two devices without guests: minutes'
	@echo 'make bench-rules     what fault rules cost a connection: two minutes'
	@echo 'make docs            all documents as one site with a search: docs/ of the'
	@echo '                     cache'
	@echo 'make documents       write the generated parts of documents again'
	@echo 'make coverage        which lines of the engine the tests reach'
	@echo 'make shell           two VMs with a console each'
	@echo 'make build           build everything; also each by itself:'
	@echo '                     root (the Debian 13 tree that all happens in)'
	@echo '                     build-qemu build-rdma-core build-driver build-image'
	@echo 'make build-arm64     machines for fakernic-lab run --arch arm64; build-riscv64'
	@echo 'make packages        Debian packages, in packages/ of the cache'
	@echo 'make bundle          one archive with QEMU, launcher and machines, in bundle/ of'
	@echo '                     the cache: it runs on any Linux like this with Python'
	@echo 'make release         everything that a release publishes, in release/ of the cache;'
	@echo '                     make test-release: two builds of it have equal bytes'
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
	@$(BUILD) driver-$(MAIN)

build-image: root
	@$(BUILD) image

# The steps of this architecture have no suffix.
build-x86_64 build-arm64 build-riscv64: root
	@$(BUILD) --together $(addsuffix $(patsubst build%,%,$(filter-out build-$(ARCH),$@)), \
		qemu-plugin image)

packages: root
	@$(BUILD) packages

# The date of its files: with the same one, the same checkout makes the same bytes.
packages bundle release test-release: export FAKERNIC_DATE ?= $(or $(SOURCE_DATE_EPOCH),$(shell \
	git log -1 --format=%ct 2>/dev/null))
bundle: root
	@$(BUILD) bundle

# In four Debians, whose packages the mirror must have.
release: root
	@$(BUILD) release

# Builds it twice: some twenty minutes.
test-release: release
	@$(ENTER) ci/run_tests.py release
	@ci/check_release.sh

test-bundle: bundle
	@$(BUILD) bundle-root-bullseye bundle-root-bookworm bundle-root-trixie \
		bundle-root-sid
	@$(ENTER) ci/run_tests.py bundle-roots

# Debian's own QEMU, with the device as its plug-in, if nobody names another: that
# takes seconds to build, where a whole QEMU takes minutes.
run shell timeline timeline-cost bench-rules bench-cost bench-awake bench-kvm test-many test-packages: export FAKERNIC_QEMU ?= \
	/cache/build/qemu-plugin/$(HOST_QEMU)-fakernic

run: root
	@$(BUILD) --together qemu-plugin image
	@$(ENTER) tests/vm/demo $(if $(filter-out 0,$(V)),-v)

shell: root
	@$(BUILD) --together qemu-plugin image
	@$(ENTER) tests/vm/demo --shell

# On this machine if it has libdeflate beside its compiler, else in the root.
ifeq ($(shell echo '\#include <libdeflate.h>' | $(CC) -E - >/dev/null 2>&1 && echo 1),1)
unit:
	@$(MAKE) -s -j$(shell nproc) -C tests/unit check BUILD=$(CURDIR)/build/unit
else
unit: root
	@$(ENTER) ci/run_tests.py unit
endif

laws: root
	@$(BUILD) root-test qemu rdma-core driver-$(MAIN)
	@$(ENTER) ci/run_tests.py laws

format: root
	@$(BUILD) root-test
	@$(ENTER) tests/laws/layout.py

# What known.py excuses and is true by now.
tighten: root
	@$(BUILD) root-test qemu rdma-core driver-$(MAIN)
	@$(ENTER) make -s -C tests/laws tighten

# Whether a mirror still has rdma-core 65's source, or a kernel of backports, is
# not ours to decide: without it, the tests that want it fail.
test: build
	@$(BUILD) qemu-fuzz qemu-plugin uabi modules kernel-$(OLD_KERNEL) guest-test \
		bundle bundle-root-bookworm
	@$(BUILD) qemu-plugin-arm64 image-arm64
	@$(ENTER) ci/programs.py
	-@$(BUILD) $(addprefix kernel-,$(NEW_KERNEL))
	-@$(BUILD) $(addprefix driver-,$(LONG_KERNEL))
	@$(ENTER) ci/run_tests.py

test-quick: root
	@$(BUILD) root-test qemu qemu-plugin relay rdma-core driver-$(MAIN) driver-$(OLD_KERNEL)
	-@$(BUILD) $(addprefix driver-,$(NEW_KERNEL))
	-@$(BUILD) $(addprefix driver-,$(LONG_KERNEL))
	@$(ENTER) ci/run_tests.py --quick

test-mutants: root
	@$(BUILD) root-test qemu
	@$(ENTER) ci/run_tests.py mutants

# The engine on arm64 and s390x, in user-mode emulation, and VM tests with arm64
# guests; make test runs less of both.
test-arch: build build-arm64 build-riscv64
	@$(BUILD) root-test
	@$(BUILD) $(addsuffix -arm64,$(addprefix kernel-,$(ARM64_KERNEL)))
	@$(ENTER) env FULL=1 ci/run_tests.py engine-arches vm-arm64 lab-riscv64 \
		$(patsubst %,vm-%-arm64,$(ARM64_KERNEL))

test-long: build
	@$(BUILD) uabi modules kernel-$(OLD_KERNEL) guest-test
	@$(ENTER) ci/programs.py --long
	-@$(BUILD) rdma-core-new
	-@$(BUILD) $(addprefix kernel-,$(LONG_KERNEL))
	@$(BUILD) trees
	@$(ENTER) ci/run_tests.py long long-two long-other programs dkms-more trees

# The log of a suite names the tests that use a netdev in spite of this.
test-link: build
	@$(BUILD) qemu-plugin uabi modules kernel-$(OLD_KERNEL) guest-test
	@$(ENTER) ci/programs.py
	-@$(BUILD) $(addprefix kernel-,$(NEW_KERNEL))
	@$(ENTER) env FAKERNIC_WIRE=link ci/run_tests.py pyverbs guest vm \
		vm-other packaged

test-many: root
	@$(BUILD) root-test qemu-plugin image
	@$(ENTER) ci/run_tests.py many

# Leaves programs.json, which PROGRAMS.md counts, in log/programs of the cache.
test-programs: build
	@$(BUILD) guest-test
	@$(ENTER) ci/programs.py --long
	@$(ENTER) ci/run_tests.py programs

test-packages: root
	@$(BUILD) qemu-plugin image disk-$(RELEASE)
	@$(ENTER) ci/run_tests.py packages-$(RELEASE)

test-intree: root
	@$(BUILD) root-test qemu-plugin provider
	@$(ENTER) ci/check_intree.sh $(LINUXES)

# In Debian's QEMU, which has igb. Leaves the table of both in log/cni/cni.txt.
test-cni:
	@ci/cni.sh "$(BIN)"
	@ci/bootstrap.sh
	@$(BUILD) --together root-test qemu-plugin image
	@$(ENTER) ci/cni.py
	@$(ENTER) ci/run_tests.py cni

# Both QEMUs are Debian's. The one in the guest has no plug-in.
test-nested: root
	@$(BUILD) --together root-test qemu-plugin image guest-test
	@$(ENTER) ci/nested.py
	@$(ENTER) ci/run_tests.py nested

test-qemu-versions: root
	@$(ENTER) ci/check_qemu.sh $(QEMUS)

test-reproductions: root
	@$(BUILD) qemu
	@ci/reproductions.sh

timeline-cost: root
	@$(BUILD) qemu-plugin image
	@$(ENTER) tests/timeline/cost --out /cache/log/timeline-cost

timeline: root
	@$(BUILD) --together qemu-plugin image
	@$(ENTER) tests/timeline/demo --out /cache/log/timeline --limit $(LIMIT)

test-recipes: root
	@$(BUILD) root-test qemu-plugin packages bundle
	@$(ENTER) ci/run_tests.py recipes

test-debug-kernel: root
	@$(BUILD) root-test qemu image guest-test kernel-$(DEBUG_KERNEL) modules
	@$(ENTER) ci/programs.py
	-@$(BUILD) rdma-core-new
	@$(ENTER) env FAKERNIC_VM_LOG=/cache/log/debug-kernel python3 -m pytest \
		-c tests/vm/pytest.ini -o timeout=3000 --kernel=$(DEBUG_KERNEL) \
		$(if $(LONG),--long) $(or $(addprefix tests/vm/,$(TESTS)),tests/vm)

# Each allocation of the driver fails; part of make test-long.
test-failing: root
	@$(BUILD) root-test qemu image $(addprefix kernel-,$(filter debug,$(KERNEL))) modules
	@$(ENTER) env FAKERNIC_VM_LOG=/cache/log/failing python3 -m pytest \
		-c tests/vm/pytest.ini --long -s -o timeout=3000 --kernel=$(KERNEL) \
		tests/vm/test_failing.py

soak: build
	@$(ENTER) tests/vm/soak --minutes $(MINUTES)

fuzz: root
	@$(BUILD) qemu-fuzz
	@$(ENTER) make -s -C tests/fuzz fuzz BUILD=/cache/build/test-fuzz \
		SECONDS=$(SECONDS) JOBS=$(JOBS)

# BENCH: options of tests/bench/bench.py.
bench: root
	@$(BUILD) root-test qemu image
	@$(ENTER) tests/bench/bench.py $(BENCH)

bench-compare: root
	@tests/bench/compare.sh $(OLD) $(BENCH)

bench-engine: root
	@$(ENTER) make -s -C tests/bench -f engine.mk \
		BUILD=/cache/build/bench-engine

bench-wire: root
	@$(BUILD) qemu
	@$(ENTER) tests/bench/wire.sh

bench-cost: root
	@$(BUILD) --together qemu-plugin image
	@$(ENTER) tests/bench/cost.py $(BENCH)

bench-awake: root
	@$(BUILD) --together qemu-plugin image
	@$(ENTER) tests/bench/awake.py $(BENCH)

# Checks first that it can run, because the build takes minutes.
bench-kvm: root
	@$(ENTER) tests/bench/kvm.py --check $(BENCH)
	@$(BUILD) --together qemu-plugin image
	@$(ENTER) tests/bench/kvm.py $(BENCH)

bench-rules: root
	@$(BUILD) --together qemu-plugin image
	@$(ENTER) tests/bench/rules.py --out /cache/log/bench-rules

docs: root
	@$(BUILD) root-test
	@$(ENTER) ci/check_docs.py
	@echo "the site begins at $${FAKERNIC_CACHE:-$$HOME/.cache/fakernic}/docs/index.html"

# What documents take from code and tests, written again.
documents: root
	@$(ENTER) ci/documents.py --write

coverage: root
	@$(BUILD) root-test
	@$(ENTER) ci/coverage.py

clean:
	@ci/clean.sh

distclean:
	@ci/clean.sh --all
