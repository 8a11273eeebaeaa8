/* The text of a snapshot, number by number: what each one is called, and that none is another one. What
 * reality does to them is tests/api/test_metrics.c's. */
#include "engine/metrics.h"

#include "harness/harness.h"
#include "util/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS DLK_NS_PER_MS

/* A client as far as it is counted. */
typedef struct subject {
    dlk_engine engine;
    dlk_name name, *names[1];
    dlk_grant grants[6];
    dlk_wait waits[3];
} subject;

static void add_grant(subject *s, size_t i, dlock_state state, int holds)
{
    atomic_store(&s->grants[i].state, (uint8_t)state);
    s->grants[i].hold_count = holds;
    s->grants[i].name = &s->name;
    dlk_list_append(&s->engine.core.grants, &s->grants[i].all);
    dlk_chain_append(&s->name.grants, &s->grants[i].link);
}

static subject *begin(void)
{
    subject *s = calloc(1, sizeof(*s));
    if (!s)
        abort();
    s->engine.name = (char *)"me";
    s->engine.uri = (char *)"mem:";
    (void)pthread_mutex_init(&s->engine.mutex, NULL);
    dlk_core *core = &s->engine.core;
    dlk_list_init(&core->grants);
    dlk_list_init(&core->queries);
    dlk_list_init(&core->spare_asks);
    s->names[0] = &s->name;
    core->names = s->names;
    core->name_buckets = core->name_count = 1;
    return s;
}

static void end(subject *s)
{
    (void)pthread_mutex_destroy(&s->engine.mutex);
    free(s);
}

/* The page has this line: dlock_NAME{client="me",service="mem:"LABEL} VALUE. */
static bool tells(subject *s, const char *name, const char *label, const char *value)
{
    char *text = NULL, line[256];
    dlk_engine *engine = &s->engine;
    (void)snprintf(line, sizeof line, "\ndlock_%s{client=\"me\",service=\"mem:\"%s} %s\n",
                   name, label, value);
    bool told = dlk_metrics_text(&engine, 1, &text) == DLOCK_OK && strstr(text, line);
    if (!told)
        (void)printf("# not there: %s", line + 1);
    free(text);
    return told;
}

TEST(each_number_is_told_under_its_own_name)
{
    subject *s = begin();
    dlk_core *core = &s->engine.core;
    dlk_host *host = &s->engine.host;
    int64_t n = 100;
    const struct {
        int64_t *at;
        const char *name, *label;
    } all[] = {
        {&core->stats.grants, "grants_total", ""},
        {&core->stats.reentries, "reentries_total", ""},
        {&core->stats.contended, "waits_total", ""},
        {&core->stats.timeouts, "timeouts_total", ""},
        {&core->stats.cancels, "cancels_total", ""},
        {&core->stats.refusals, "refusals_total", ""},
        {&core->stats.late_grants, "late_grants_total", ""},
        {&core->stats.places_lost, "places_lost_total", ""},
        {&core->stats.spurious_wakes, "spurious_wakes_total", ""},
        {&core->stats.releases, "releases_total", ""},
        {&core->stats.releases_failed, "releases_failed_total", ""},
        {&core->stats.renewals, "renewals_total", ""},
        {&core->stats.renewals_failed, "renewals_failed_total", ""},
        {&core->stats.suspects, "suspects_total", ""},
        {&core->stats.losses[DLK_LOSS_EXPIRED], "losses_total", ",cause=\"expired\""},
        {&core->stats.losses[DLK_LOSS_DENIED], "losses_total", ",cause=\"denied\""},
        {&core->stats.losses[DLK_LOSS_TAKEN], "losses_total", ",cause=\"taken\""},
        {&core->stats.kept, "kept_total", ""},
        {&core->stats.local_grants, "local_grants_total", ""},
        {&core->stats.kept_asked, "kept_ended_total", ",why=\"asked\""},
        {&core->stats.kept_run_over, "kept_ended_total", ",why=\"run_over\""},
        {&core->stats.kept_idle, "kept_ended_total", ",why=\"idle\""},
        {&core->stats.kept_lost, "kept_ended_total", ",why=\"lost\""},
        {&core->stats.unanswered, "unanswered_total", ""},
        {&host->commands, "commands_total", ""},
        {&host->bytes_sent, "sent_bytes_total", ""},
        {&host->bytes_received, "received_bytes_total", ""},
        {&host->reconnects, "reconnects_total", ""},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        *all[i].at = ++n;
    s->engine.in_flight = 7;
    core->name_count = 9;
    core->up = true;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char value[32];
        (void)snprintf(value, sizeof value, "%lld", (long long)*all[i].at);
        CHECK(tells(s, all[i].name, all[i].label, value));
    }
    CHECK(tells(s, "in_flight", "", "7"));
    CHECK(tells(s, "names", "", "9"));
    CHECK(tells(s, "connected", "", "1"));
    end(s);
}

TEST(what_is_held_kept_and_waited_for_is_counted_apart)
{
    subject *s = begin();
    add_grant(s, 0, DLOCK_HELD, 1);
    add_grant(s, 1, DLOCK_HELD, 2);
    add_grant(s, 2, DLOCK_HELD, 1);
    add_grant(s, 3, DLOCK_SUSPECT, 1);
    add_grant(s, 4, DLOCK_HELD, 0); /* by nobody: kept */
    add_grant(s, 5, DLOCK_SUSPECT, 0);
    CHECK(tells(s, "holds", ",state=\"held\"", "3"));
    CHECK(tells(s, "holds", ",state=\"suspect\"", "1"));
    CHECK(tells(s, "holds", ",state=\"kept\"", "2"));
    atomic_store(&s->grants[0].state, (int)DLOCK_LOST);
    atomic_store(&s->grants[5].state, (int)DLOCK_RELEASED);
    CHECK(tells(s, "holds", ",state=\"held\"", "2"));
    CHECK(tells(s, "holds", ",state=\"kept\"", "1"));
    CHECK(tells(s, "waiting", "", "0"));
    CHECK(tells(s, "longest_wait_seconds", "", "0.000000000"));
    dlk_snapshot now;
    const int64_t began[] = {500 * MS, 200 * MS, 900 * MS};
    for (size_t i = 0; i < 3; i++) {
        s->waits[i].began = began[i];
        dlk_chain_append(&s->name.queue, &s->waits[i].link);
    }
    dlk_engine_count_all(&s->engine, 1000 * MS, &now);
    CHECK_EQ_INT(now.waiting, 3);
    CHECK_EQ_INT(now.longest_wait, 800 * MS);
    end(s);
}

TEST(a_duration_is_in_the_buckets_that_end_above_it)
{
    subject *s = begin();
    dlk_stats *stats = &s->engine.core.stats;
    const struct {
        dlk_hist *hist;
        const char *name, *label;
    } all[] = {
        {&stats->wait[DLK_WAITED_GRANTED], "wait_seconds", ",result=\"granted\""},
        {&stats->wait[DLK_WAITED_TIMED_OUT], "wait_seconds", ",result=\"timed_out\""},
        {&stats->wait[DLK_WAITED_CANCELLED], "wait_seconds", ",result=\"cancelled\""},
        {&stats->hold, "hold_seconds", ""},
        {&stats->request[DLK_ASKED_ACQUIRE], "request_seconds", ",request=\"acquire\""},
        {&stats->request[DLK_ASKED_RENEWAL], "request_seconds", ",request=\"renewal\""},
        {&stats->request[DLK_ASKED_RELEASE], "request_seconds", ",request=\"release\""},
        {&stats->request[DLK_ASKED_OTHER], "request_seconds", ",request=\"other\""},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const char *buckets[][2] = {{"0.000016384", "1"},   {"0.000065536", "2"},
                                    {"1.073741824", "4"},   {"4.294967296", "5"},
                                    {"274.877906944", "5"}, {"+Inf", "6"}};
        char name[64], label[64];
        dlk_hist_add(all[i].hist, 16383);
        dlk_hist_add(all[i].hist, 16385);
        dlk_hist_add(all[i].hist, 500 * MS);
        dlk_hist_add(all[i].hist, 1000 * MS);
        dlk_hist_add(all[i].hist, 2000 * MS);
        dlk_hist_add(all[i].hist, 300000 * MS);
        (void)snprintf(name, sizeof name, "%s_bucket", all[i].name);
        for (size_t k = 0; k < sizeof buckets / sizeof *buckets; k++) {
            (void)snprintf(label, sizeof label, "%s,le=\"%s\"", all[i].label,
                           buckets[k][0]);
            CHECK(tells(s, name, label, buckets[k][1]));
        }
        (void)snprintf(name, sizeof name, "%s_sum", all[i].name);
        CHECK(tells(s, name, all[i].label, "303.500032768"));
        (void)snprintf(name, sizeof name, "%s_count", all[i].name);
        CHECK(tells(s, name, all[i].label, "6"));
        *all[i].hist = (dlk_hist){0}; /* it was this one, and no other */
    }
    end(s);
}
