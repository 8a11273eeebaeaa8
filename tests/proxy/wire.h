/* Plain connections for the tests of the proxy: what is said and heard, with generous limits. */
#ifndef TESTS_PROXY_WIRE_H
#define TESTS_PROXY_WIRE_H

#include "harness/harness.h"
#include "harness/time.h"
#include "proxy/proxy.h"

#include <stddef.h>
#include <stdint.h>

enum { WIRE_MS = 20000, WIRE_SOON_MS = 60 };

/* The proxy of a test that has failed: what led to it is said, and it is freed. */
bool wire_left_behind(proxy **p);

/* To a port of 127.0.0.1; -1 and errno when it is refused. */
int wire_open(int port);
/* Begins to, and doesn't wait for it; -1 when even that fails. */
int wire_begin(int port);
/* Whether it is connected within that time. */
bool wire_is_open(int fd, int64_t ms);
bool wire_say(int fd, const char *text);
/* What comes next, until the next call: up to @p size bytes, waiting for all of them. Shorter when
 * the connection ends ("(end)" behind it, or "(reset)") or nothing comes for @p ms ("(silence)"). */
const char *wire_hear(int fd, size_t size, int64_t ms);
/* Says it and waits for the same. */
bool wire_echoes(int fd, const char *text);
void wire_close(int fd);
/* Ends with a RST. */
void wire_break(int fd);

#endif
