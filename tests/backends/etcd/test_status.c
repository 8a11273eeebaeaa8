/* That the page says of each gRPC status what the code does (PAGE: docs/how-to/etcd.md). */
#include "backends/etcd/calls.h"
#include "harness/harness.h"

#include <stdio.h>
#include <string.h>

static const struct {
    dlk_etcd_end end;
    const char *words; /* with which the page begins to say so */
} said[] = {
    {DLK_ETCD_OK, "the answer"},         {DLK_ETCD_CUT, "done or not"},
    {DLK_ETCD_NO_LEASE, "no lease"},     {DLK_ETCD_NO_TOKEN, "a new token"},
    {DLK_ETCD_DENIED, "`DLOCK_EACCES`"}, {DLK_ETCD_BUSY, "`DLOCK_EUNAVAIL`"},
    {DLK_ETCD_BAD, "`DLOCK_EPROTO`"},
};

static const char *words_for(dlk_etcd_end end)
{
    for (size_t i = 0; i < sizeof(said) / sizeof(*said); i++)
        if (said[i].end == end)
            return said[i].words;
    return "?";
}

/* Of "| 5 NOT_FOUND | "lease not found" | no lease: … |"; false: of another line. */
static bool read_row(const char *line, int *ret_status, char name[64], char words[64],
                     char meaning[64])
{
    words[0] = '\0';
    return sscanf(line, "| %d %63[A-Z_] | | %63[^|]", ret_status, name, meaning) == 3 ||
           sscanf(line, "| %d %63[A-Z_] | \"%63[^\"]\" | %63[^|]", ret_status, name,
                  words, meaning) == 4;
}

TEST(the_page_says_of_each_status_what_it_comes_to)
{
    char line[1024], name[64], words[64], meaning[64];
    int status, last = -1;
    FILE *page = fopen(PAGE, "r");
    CHECK(page);
    while (fgets(line, sizeof(line), page)) {
        if (!read_row(line, &status, name, words, meaning))
            continue;
        const char *expected = words_for(dlk_etcd_end_of(status, words));
        CHECK(status == last + 1 || (status == last && words[0]));
        CHECK_STR(dlk_etcd_status_name(status), name);
        meaning[strlen(expected) < 63 ? strlen(expected) : 63] = '\0';
        CHECK_STR(meaning, expected);
        last = status;
    }
    CHECK_EQ_INT(last, DLK_GRPC_UNAUTHENTICATED);
    (void)fclose(page);
}
