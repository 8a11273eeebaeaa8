/* Handing on behind a wire of the test's (fake_wire.h): however a request ends, whoever asked is answered, and
 * what lies in the folder of the line stays as it is. */
#include "fake_wire.h"

#include "util/error.h"

#include <stdlib.h>
#include <string.h>

static bool is_final(dlk_reply reply)
{
    return reply == DLK_YES || reply == DLK_NOT_OURS || reply == DLK_REFUSED;
}

TEST(whoever_imports_is_answered_at_once_however_a_request_ends)
{
    int got = 0;
    for (unsigned i = 0; i < DLK_ZK_UNWATCH * (DLK_ZK_NO_MEMORY + 1u); i++) {
        dlk_zk_verb what = (dlk_zk_verb)(1 + i % DLK_ZK_UNWATCH);
        CHECK(begin_behind_a_giver());
        there.ends[what] = (dlk_zk_end)(i / DLK_ZK_UNWATCH);
        dlk_reply reply = ask_as_second(DLK_IMPORT);
        CHECK(reply != DLK_PENDING && reply != DLK_HELD);
        there.ends[what] = DLK_ZK_OK;
        if (!is_final(reply))
            reply = ask_as_second(DLK_IMPORT);
        CHECK(is_final(reply));
        CHECK(reply == DLK_YES || there.beside);
        CHECK_EQ_INT(there.node != NULL, reply == DLK_YES);
        got += reply == DLK_YES;
        CHECK_STR(there.data, THEIRS);
        CHECK_EQ_INT(ask_as_second(DLK_RELEASE),
                     reply == DLK_YES ? DLK_YES : DLK_NOT_OURS);
        CHECK(!there.node);
        end();
    }
    CHECK(got > DLK_ZK_UNWATCH * DLK_ZK_NO_MEMORY / 2);
}

/* There was an import since it joined. */
TEST(whoever_gets_a_number_by_the_folder_is_answered_at_once_however_a_request_ends)
{
    static const dlk_zk_verb steps[] = {DLK_ZK_GET, DLK_ZK_SET, DLK_ZK_CHILDREN};
    for (unsigned i = 0; i < 3u * (DLK_ZK_NO_MEMORY + 1); i++) {
        CHECK(begin());
        there.data = strdup(THEIRS);
        there.zxid = 100;
        there.ends[steps[i % 3]] = (dlk_zk_end)(i / 3);
        dlk_ask first = make(DLK_ACQUIRE, false, 60000), again = first;
        put(&first);
        w.serve();
        CHECK(first.reply != DLK_PENDING && first.reply != DLK_HELD);
        there.ends[steps[i % 3]] = DLK_ZK_OK;
        if (!is_final(first.reply)) {
            put(&again);
            w.serve();
            CHECK_EQ_INT(again.reply, DLK_YES);
        }
        const dlk_ask *last = is_final(first.reply) ? &first : &again;
        CHECK(last->reply != DLK_YES || last->token > 100);
        CHECK_STR(there.data, THEIRS);
        CHECK_EQ_INT(ask(DLK_RELEASE), last->reply == DLK_YES ? DLK_YES : DLK_NOT_OURS);
        dlk_error_clear(&first.error);
        dlk_error_clear(&again.error);
        end();
    }
}

/* A server closes the connection for a request that is too long, again and again. */
TEST(what_is_too_long_to_be_written_once_more_is_refused)
{
    for (int imports = 0; imports < 2; imports++) {
        CHECK(imports ? begin_behind_a_giver() : begin());
        free(there.data);
        there.data = calloc(1, 600001);
        CHECK(there.data != NULL);
        memset(there.data, 'x', 600000);
        there.zxid = 100;
        if (imports)
            CHECK_EQ_INT(ask_as_second(DLK_IMPORT), DLK_REFUSED);
        else
            CHECK_EQ_INT(ask(DLK_ACQUIRE), DLK_REFUSED);
        CHECK_EQ_INT(there.version, 0);
        CHECK(!there.node);
        end();
    }
}
