//go:build !dlock_static

package cdlock

// Where pkg-config knows no dlock, it ends the build with its own words before any of ours could be read;
// they name dlock.pc and PKG_CONFIG_PATH, and doc.go explains them.

// #cgo pkg-config: dlock
import "C"
