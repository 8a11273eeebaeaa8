/* The transactions in one request. */
#include "etcd/model.h"

#include <stdlib.h>

static void read_nested(etcd_parts *parts, const DlkEtcd__RequestOp *op)
{
    bool no_memory;
    size_t at = parts->count++;
    if (at == ETCD_PARTS || op->request_case != DLK_ETCD__REQUEST_OP__REQUEST_REQUEST_TXN)
        abort(); /* nobody asks for more, or for anything else among them */
    parts->asks[at] = etcd_need(dlk_etcd_unpack(&dlk_etcd__txn_request__descriptor,
                                                op->request_txn.data, op->request_txn.len,
                                                &parts->arenas[at], &no_memory));
}

void etcd_parts_read(etcd_parts *ret, const DlkEtcd__TxnRequest *ask)
{
    *ret = (etcd_parts){.count = 1, .asks = {ask}};
    ret->nested = ask->n_success > 0 && ask->success[0]->request_case ==
                                            DLK_ETCD__REQUEST_OP__REQUEST_REQUEST_TXN;
    if (ret->nested)
        ret->count = 0;
    for (size_t i = 0; ret->nested && i < ask->n_success; i++)
        read_nested(ret, ask->success[i]);
}

void etcd_parts_free(etcd_parts *parts)
{
    for (size_t i = 0; i < parts->count; i++)
        dlk_arena_free(&parts->arenas[i]);
}
