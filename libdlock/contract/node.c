/* A node's host; see the header. */
#include "contract/node.h"

#include <stdarg.h>
#include <stdio.h>

__attribute__((format(printf, 3, 4))) static void
node_log(dlk_host *node, dlock_level level, const char *format, ...)
{
    char line[512];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    node->whole->log(node->whole, level, "%s", line);
}

dlk_host dlk_node_host(dlk_host *whole)
{
    return (dlk_host){
        .whole = whole,
        .log = node_log,
        .mutex = whole->mutex,
        .kicks = whole->kicks,
        .uuid = whole->uuid,
        .name = whole->name,
        .who = whole->who,
        .rand = whole->rand,
        .whys = whole->whys,
        .tell = whole->tell,
    };
}

void dlk_node_count(dlk_host *node)
{
    dlk_host *whole = node->whole;
    whole->commands += node->commands;
    whole->bytes_sent += node->bytes_sent;
    whole->bytes_received += node->bytes_received;
    whole->reconnects += node->reconnects;
    node->commands = node->bytes_sent = node->bytes_received = node->reconnects = 0;
}
