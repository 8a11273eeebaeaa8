# The front door. Every target works alone on a bare Debian 12: tools/setup first installs
# what is missing (as root) or says what to install. The build itself is Meson's.
#
#   make demo                        DLOCK_URL=redis://127.0.0.1:6379 make demo
#   make install PREFIX=/opt/dlock   DESTDIR=/tmp/stage make install

BUILD ?= build
PREFIX ?=
HOURS ?= 1
SEED ?= 1
CONFIGURE = meson setup --buildtype=debugoptimized $(prefix)
prefix = $(if $(PREFIX),--prefix=$(abspath $(PREFIX)))

.DEFAULT_GOAL := help
.PHONY: help build demo test proof soak coverage mutants bench check install clean

help:
	@echo 'make demo      eight processes, one lock, two of them killed: watch it being handed on'
	@echo 'make test      gcc, clang, sanitizers, install, symbols and ABI: the whole suite;'
	@echo '               IN_TURN=1: one build after the other, for a machine with little to spare'
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
	@echo 'make install   into PREFIX (/usr/local), below DESTDIR if that is set'
	@echo 'make clean     remove the build folders $(BUILD) and $(BUILD)-*'

# The plain build: all of it, or what is named. Tests and benchmarks have folders of their own.
define build
	@tools/setup demo
	@test -f $(BUILD)/build.ninja || $(CONFIGURE) $(BUILD)
	@ninja -C $(BUILD) --quiet $(1)
endef

build:
	$(call build)

demo:
	$(call build,tools/dlock-demo)
	@$(BUILD)/tools/dlock-demo

test:
	@tools/setup test
	@tools/test --build $(BUILD) $(if $(IN_TURN),--in-turn)

bench:
	@tools/setup bench
	@test -f $(BUILD)-bench/build.ninja || meson setup --buildtype=release \
	    -Dtests=disabled -Dexamples=disabled -Dcli=disabled $(BUILD)-bench
	@ninja -C $(BUILD)-bench --quiet
	@bench/run $(BUILD)-bench $(if $(ONLY),--only '$(ONLY)')

proof:
	@tools/setup proof
	@tools/test --build $(BUILD) --proof

soak:
	@tools/setup soak
	@test -f $(BUILD)-soak/build.ninja || meson setup --buildtype=debugoptimized $(BUILD)-soak
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

install:
	$(call build)
	$(if $(PREFIX),@meson configure $(BUILD) $(prefix))
	@meson install -C $(BUILD)

clean:
	rm -rf -- $(BUILD) $(BUILD)-*
