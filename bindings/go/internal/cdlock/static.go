//go:build dlock_static

package cdlock

// Plain -ldlock would pick the shared library where both lie side by side.

// #cgo pkg-config: --static dlock
// #cgo LDFLAGS: -l:libdlock.a
import "C"
