/*
 * Before the sources that are compiled for the scenes. From how many requests on the engine's thread
 * takes over is the scene's to say: two or three threads can't have eight under way. And what has no
 * mutex around it may be stopped between any two of its steps: each of these steps is a place to switch.
 */
#ifndef EXPLORE_SEAM_H
#define EXPLORE_SEAM_H

#include <stdatomic.h>

extern int explore_takeover;
#define DLK_TAKEOVER explore_takeover

void strand_atomic(const char *what);

#undef atomic_load
#undef atomic_store
#undef atomic_exchange
#undef atomic_fetch_add
#undef atomic_compare_exchange_strong
#undef atomic_compare_exchange_weak
#define atomic_load(at)                                                                  \
    (strand_atomic("load"), atomic_load_explicit(at, memory_order_seq_cst))
#define atomic_store(at, value)                                                          \
    (strand_atomic("store"), atomic_store_explicit(at, value, memory_order_seq_cst))
#define atomic_exchange(at, value)                                                       \
    (strand_atomic("exchange"), atomic_exchange_explicit(at, value, memory_order_seq_cst))
#define atomic_fetch_add(at, value)                                                      \
    (strand_atomic("add"), atomic_fetch_add_explicit(at, value, memory_order_seq_cst))
#define atomic_compare_exchange_strong(at, old, value)                                   \
    (strand_atomic("compare"),                                                           \
     atomic_compare_exchange_strong_explicit(at, old, value, memory_order_seq_cst,       \
                                             memory_order_seq_cst))
#define atomic_compare_exchange_weak(at, old, value)                                     \
    atomic_compare_exchange_strong(at, old, value)

#endif
