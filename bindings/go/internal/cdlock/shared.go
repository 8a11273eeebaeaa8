//go:build !dlock_static

package cdlock

// #cgo pkg-config: dlock
import "C"
