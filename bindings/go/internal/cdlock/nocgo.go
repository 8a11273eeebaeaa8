//go:build !cgo

package cdlock

// Without cgo there is no libdlock to call; the compiler repeats this name.
var _ = libdlock_needs_cgo__set_CGO_ENABLED_1_and_install_a_C_compiler_and_libdlock
