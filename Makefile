# The front door. Every target works alone on a bare Debian 12: tools/setup first installs
# what is missing (as root) or says what to install. The build itself is Meson's.
#
#   make demo                        DLOCK_URL=redis://127.0.0.1:6379 make demo
#   make install PREFIX=/opt/dlock   DESTDIR=/tmp/stage make install

BUILD ?= build
PREFIX ?=
CONFIGURE = meson setup --buildtype=debugoptimized $(prefix)
prefix = $(if $(PREFIX),--prefix=$(abspath $(PREFIX)))

.DEFAULT_GOAL := help
.PHONY: help build demo test bench soak check install clean

help:
	@echo 'make demo      eight processes, one lock, two of them killed: watch it being handed on'
	@echo 'make test      gcc, clang, sanitizers, install, symbols and ABI: the whole suite'
	@echo 'make bench     ratios against raw Redis, flock(2), a futex ring and a pthread mutex'
	@echo 'make soak      the storms of the test suite, a minute each'
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
	@tools/test --build $(BUILD)

bench:
	@tools/setup bench
	@test -f $(BUILD)-bench/build.ninja || meson setup --buildtype=release \
	    -Dtests=disabled -Dexamples=disabled -Dcli=disabled $(BUILD)-bench
	@ninja -C $(BUILD)-bench --quiet
	@bench/run $(BUILD)-bench

soak:
	@tools/setup test
	@tools/test --build $(BUILD) --soak

check:
	@tools/setup check
	@tools/check --build $(BUILD)

install:
	$(call build)
	$(if $(PREFIX),@meson configure $(BUILD) $(prefix))
	@meson install -C $(BUILD)

clean:
	rm -rf -- $(BUILD) $(BUILD)-*
