/*
 * How long a peer may be silent.
 *
 * A connection that is cut without a word seems to live: what was sent is repeated ever more rarely,
 * what the server has to say comes as much later again as the cut lasted, or never, and who only
 * listens learns nothing. Requests of ours have deadlines, at which their connection is given up.
 * This is for connections on which we listen, or on which a library asks: the kernel looks whether
 * the peer is there, and gives the connection up when nothing has come back for so long.
 */
#ifndef DLK_NET_SILENCE_H
#define DLK_NET_SILENCE_H

#include <netinet/tcp.h>
#include <stdint.h>

#ifndef TCP_KEEPIDLE /* macOS has another name for it */
#define TCP_KEEPIDLE TCP_KEEPALIVE
#endif

/* Of a TCP socket; no less than a second, in which one lost packet is made up for. */
void dlk_silence_limit(int fd, int64_t ms);

#endif
