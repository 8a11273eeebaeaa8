/*
 * Probes for bpftrace, perf and SystemTap (USDT), of the provider "dlock": each is one instruction that does
 * nothing, and a note in the library of where its arguments are. Only where sys/sdt.h was there at build time;
 * elsewhere nothing of it is compiled, the arguments neither.
 *
 *   acquire_start  name, id
 *   acquire_end    name, id, code (dlock_err)
 *   wait           name, number of the attempt: somebody else has it
 *   renew          name, number, ns that the answer took, ns that the lease is valid from now
 *   lost           name, number, cause, ns that it was held: 0 expired, 1 denied, 2 taken
 *   released       name, number, ns that it was held
 *   request        verb (ask.h), ns until the answer, 1 if there was none
 *
 * An id is one acquire of this process until its end, then another's. Scripts are in tools/trace.
 */
#ifndef DLK_UTIL_PROBE_H
#define DLK_UTIL_PROBE_H

#ifdef DLK_WITH_USDT
#include <sys/sdt.h>
#ifdef __clang__ /* its -Wpedantic finds sdt.h's macros where they are used */
#pragma clang diagnostic ignored "-Wgnu-zero-variadic-macro-arguments"
#endif
#define DLK_PROBE2(name, a, b)       STAP_PROBE2(dlock, name, a, b)
#define DLK_PROBE3(name, a, b, c)    STAP_PROBE3(dlock, name, a, b, c)
#define DLK_PROBE4(name, a, b, c, d) STAP_PROBE4(dlock, name, a, b, c, d)
#else
#define DLK_PROBE2(name, a, b)       ((void)0)
#define DLK_PROBE3(name, a, b, c)    ((void)0)
#define DLK_PROBE4(name, a, b, c, d) ((void)0)
#endif

#endif
