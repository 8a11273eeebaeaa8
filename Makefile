# The front door. Every target works alone on a bare Debian 12: tools/setup first installs
# what is missing (as root) or says what to install. The build itself is Meson's.
#
#   make demo                        DLOCK_URL=redis://127.0.0.1:6379 make demo
#   make install PREFIX=/opt/dlock   DESTDIR=/tmp/stage make install

BUILD ?= build
PREFIX ?= /usr/local
HOURS ?= 1
SEED ?= 1
CONFIGURE = meson setup --native-file=tools/developer.ini
RELEASE = $(BUILD)-release
# Where this system's pkg-config and loader look: Meson knows Debian's folders only where dpkg-dev is.
prefix = --prefix=$(abspath $(PREFIX)) $$(gcc -print-multiarch | sed 's,..*,--libdir=lib/&,')

.DEFAULT_GOAL := help
.PHONY: help build demo test test-more test-all proof soak coverage mutants bench check docs release wheels install clean

help:
	@echo 'make demo      eight processes, one lock, two of them killed: watch it being handed on'
	@echo 'make test      the whole suite once, with gcc: servers, bindings, peers, install, ABI'
	@echo 'make test-all  the same, and then test-more: clang, the sanitizers, bugs put back. For both,'
	@echo '               IN_TURN=1: nothing is built beside tests, for a machine with little to spare'
	@echo 'make bench     ratios against Redisson, redis-py, redsync, redislock, rueidislock, Curator,'
	@echo '               go-zookeeper, kazoo, raw Redis and ZooKeeper, flock(2), a futex ring, a mutex;'
	@echo '               ONLY=part of a name, QUICK=1'
	@echo 'make proof     the same at length: 20 million simulated operations, every crash point,'
	@echo '               every failing call, 10 million fuzzed inputs, 10 minutes of nemesis'
	@echo 'make soak      half a minute beside each library of others for each kind of lock, then'
	@echo '               the nemesis for HOURS=1 with SEED=1, on file: and on Redis'
	@echo 'make coverage  lines and branches of libdlock/ that the tests reach'
	@echo 'make mutants   some hundred small bugs, planted one by one: which of them no test sees. Hours,'
	@echo '               and goes on where it was; PART=part of a path (or an area: locks:),'
	@echo '               COUNT=in each area, SEED=1, JOBS=of the compiler, MINUTES=at most'
	@echo '               (tests/mutants/README.md)'
	@echo 'make check     format, lint, analyzers, spelling, exported symbols, ABI'
	@echo 'make docs      the site, into $(BUILD)-docs/html: all pages, C, Python and Go, with a search'
	@echo 'make release   tarball, wheel, Debian packages, SBOM and checksums of the commit, in'
	@echo '               $(BUILD)-dist; TWICE=1 makes them again and compares'
	@echo 'make wheels    manylinux wheels in $(BUILD)-wheels, by cibuildwheel: needs docker or podman'
	@echo 'make install   into PREFIX (/usr/local), below DESTDIR if that is set'
	@echo 'make clean     remove the build folders $(BUILD) and $(BUILD)-*'

# To work on: everything, with what debuggers need. Tests and benchmarks have folders of their own.
build:
	@tools/setup demo
	@test -f $(BUILD)/build.ninja || $(CONFIGURE) $(BUILD)
	@ninja -C $(BUILD) --quiet

# To use, in a folder of its own: of that, what is shown.
demo:
	@tools/setup $@
	@test -f $(RELEASE)/build.ninja || meson setup $(prefix) $(RELEASE) >/dev/null
	@ninja -C $(RELEASE) --quiet tools/dlock-demo
	@$(RELEASE)/tools/dlock-demo

test:
	@tools/setup test
	@tools/test --build $(BUILD) $(if $(IN_TURN),--in-turn)

test-more:
	@tools/setup test
	@tools/test --build $(BUILD) --more $(if $(IN_TURN),--in-turn)

test-all: test
	@$(MAKE) --no-print-directory test-more

bench:
	@tools/setup bench
	@test -f $(BUILD)-bench/build.ninja || meson setup -Dbench=enabled -Dcli=disabled $(BUILD)-bench
	@ninja -C $(BUILD)-bench --quiet
	@bench/run $(BUILD)-bench $(if $(ONLY),--only '$(ONLY)')

proof:
	@tools/setup proof
	@tools/test --build $(BUILD) --proof

soak:
	@tools/setup soak
	@test -f $(BUILD)-soak/build.ninja || $(CONFIGURE) $(BUILD)-soak
	@ninja -C $(BUILD)-soak --quiet nemesis
	@meson test -C $(BUILD)-soak --suite soak --num-processes 1 --verbose
	@tests/nemesis/nemesis.py --build $(BUILD)-soak --hours $(HOURS) --seed $(SEED)

coverage:
	@tools/setup coverage
	@tools/coverage --build $(BUILD)

mutants:
	@tools/setup test
	@tests/mutants/mutants.py --build $(BUILD) $(if $(PART),--part '$(PART)') --seed $(SEED) \
	    $(if $(COUNT),--count $(COUNT)) $(if $(JOBS),--jobs $(JOBS)) $(if $(MINUTES),--minutes $(MINUTES))

check:
	@tools/setup check
	@tools/check --build $(BUILD)

docs:
	@tools/setup docs
	@tools/docs $(BUILD)-docs

release:
	@tools/setup release
	@tools/release --build $(BUILD) $(if $(TWICE),--twice)

wheels:
	@test -x $(BUILD)-cibuildwheel/bin/cibuildwheel || { python3 -m venv $(BUILD)-cibuildwheel && \
	    tools/fetch $(BUILD)-cibuildwheel/bin/pip --quiet install cibuildwheel==4.3.5; }
	@$(BUILD)-cibuildwheel/bin/cibuildwheel --output-dir $(BUILD)-wheels

# Looks again for what is optional: make demo may have made the folder, without.
install:
	@tools/setup $@
	@meson setup $(prefix) $(if $(wildcard $(RELEASE)/build.ninja),--reconfigure) $(RELEASE) >/dev/null
	@ninja -C $(RELEASE) --quiet
	@meson install -C $(RELEASE)
	@test -n '$(DESTDIR)' || test "$$(id -u)" -ne 0 || ldconfig

clean:
	rm -rf -- $(BUILD) $(BUILD)-*
