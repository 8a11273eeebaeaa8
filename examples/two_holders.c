/* Two holders, one of them late; see the header.
 *
 * The pause stands for whatever stops a program without its knowing: SIGSTOP, a laptop's lid, a
 * virtual machine being moved, a page on a dead disk. To have it at the worst moment it is made by
 * hand: the first holder doesn't renew its lease, and waits until that is over. */
#include "two_holders.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#define TTL_MS 1000

struct story {
    const char *name;
    const dlock_guarded *guarded;
    dlock_hold *first_hold;
    dlock_client *second_client;
    struct work second;
    int64_t first_token, second_token;
    dlock_err second_result;
};

static dlock_client *open_client(const char *url, const char *renew)
{
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_conf) conf = dlock_conf_new();
    dlock_client *client = NULL;
    if (dlock_conf_set_int(conf, "lock.ttl_ms", TTL_MS, &err) != DLOCK_OK ||
        dlock_conf_set(conf, "lock.renew", renew, &err) != DLOCK_OK ||
        dlock_client_open(url, conf, &client, &err) != DLOCK_OK)
        fprintf(stderr, "%s\n", dlock_error_text(err));
    return client;
}

/* Takes the lock; NULL when that fails. */
static dlock_hold *take_lock(const struct story *story, dlock_client *client,
                             const char *who)
{
    DLOCK_AUTO(dlock_error) err = NULL;
    dlock_hold *hold = NULL;
    if (dlock_acquire(client, story->name, 10000, &hold, &err) == DLOCK_OK)
        printf("%s: held, token %" PRId64 "\n", who, dlock_hold_token(hold));
    else
        fprintf(stderr, "%s: %s\n", who, dlock_error_text(err));
    return hold;
}

/* doc: guard */
static dlock_err do_work(dlock_hold *hold, const dlock_guarded *guarded,
                         struct work *work)
{
    DLOCK_AUTO(dlock_error) err = NULL;
    dlock_err result = dlock_hold_guard(hold, guarded, work, &err);
    if (result == DLOCK_OK)
        printf("%s: committed\n", work->who);
    else
        printf("%s: %s: %s\n", work->who, dlock_errname(result), dlock_error_text(err));
    return result;
}
/* end: guard */

static void run_second(struct story *story)
{
    DLOCK_AUTO(dlock_hold) hold = take_lock(story, story->second_client, "second");
    if (!hold)
        return;
    story->second_token = dlock_hold_token(hold);
    story->second_result = do_work(hold, story->guarded, &story->second);
}

static void pause_first(struct work *first)
{
    struct story *story = first->story;
    printf("first: pauses between its last check and its write\n");
    while (dlock_hold_check(story->first_hold) == DLOCK_OK) {
        const struct timespec tick = {.tv_nsec = 10000000};
        (void)nanosleep(&tick, NULL); /* sooner is fine: it looks again */
    }
    run_second(story);
    printf("first: goes on and writes, too late\n");
}

static int run_first(struct story *story, dlock_client *client, void *resource)
{
    DLOCK_AUTO(dlock_hold) hold = take_lock(story, client, "first");
    if (!hold)
        return 1;
    struct work first = {
        .who = "first",
        .resource = resource,
        .amount = 1,
        .pause = pause_first,
        .story = story,
    };
    story->first_hold = hold;
    story->first_token = dlock_hold_token(hold);
    dlock_err result = do_work(hold, story->guarded, &first);
    if (result == DLOCK_ELOST && story->second_result == DLOCK_OK &&
        story->second_token > story->first_token)
        return 0;
    printf("the stale write was NOT refused\n");
    return 1;
}

int two_holders(const char *url, const char *name, const dlock_guarded *guarded,
                void *resource)
{
    /* Clients of their own: these exclude each other just as two processes do. */
    DLOCK_AUTO(dlock_client) first = open_client(url, "off");
    DLOCK_AUTO(dlock_client) second = open_client(url, "auto");
    if (!first || !second)
        return 1;
    struct story story = {
        .name = name,
        .guarded = guarded,
        .second_client = second,
        .second = {.who = "second", .resource = resource, .amount = 10},
        .second_result = DLOCK_ENOTHELD,
    };
    return run_first(&story, first, resource);
}
