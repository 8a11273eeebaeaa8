// Package cdlock is libdlock's C API, call by call, as SWIG makes it. What is here by hand says how
// to find the library, and what it has to be.
package cdlock

/*
#if !__has_include(<dlock/dlock.h>)
#error "the header of libdlock is missing: install libdlock with its development files (dlock.pc, dlock/dlock.h)"
#endif
#include <dlock/dlock.h>

#if DLOCK_VERSION_NUM < 100
#error "this module needs libdlock 0.1.0 or later: install a newer libdlock (headers and dlock.pc)"
#endif
*/
import "C"
