/* See the header. */
#include "called.h"

#include "harness/harness.h"
#include "harness/time.h"

#include <string.h>

struct called called;

bool called_connect(void)
{
    return caller_begin(called.server.port, called.tls) &&
           AWAITED_BY(caller_turn(), caller.ups > 0, AWAIT_LIMIT_MS);
}

bool called_begin(void)
{
    memset(&called, 0, sizeof(called));
    return etcd_server_available() &&
           etcd_server_start_silent(&called.server, "--enable-grpc-gateway=false") &&
           harness_check(__FILE__, __LINE__, called_connect() && caller.ups == 1,
                         "a connection");
}

void called_end(void)
{
    caller_end();
    etcd_server_stop(&called.server);
    if (called.tls)
        certificates_remove(&called.made);
    dlk_tls_free(called.tls);
}

dlk_etcd_call *called_next_over(void)
{
    dlk_etcd_call *over = NULL;
    (void)AWAITED_BY(caller_turn(), (over = dlk_etcd_calls_take(&caller.calls)) != NULL,
                     AWAIT_LIMIT_MS);
    return over;
}
