/* A circle of threads that wait for each other is looked for with nobody's mutex: what changes meanwhile makes
 * none that isn't there. Built with DLK_POINTS. */
#include "../api/world.h"
#include "util/point.h"

#include <string.h>

void (*dlk_point_hook)(const char *name);

/* Runs when the looking thread is about to look at its second. */
static void (*between)(void);
static _Thread_local bool looks;
static _Thread_local int looked;

static void at_point(const char *name)
{
    if (!looks || strcmp(name, "circle.look") != 0 || ++looked != 2)
        return;
    looks = false; /* what follows may look, too */
    between();
}

static struct {
    dlock_client *client;
    dlock_lock *first, *second, *third;
    dlock_hold *third_hold;
    atomic_int waits, moves, done;
    dlock_err code[3];
    pthread_t thread;
} scene;

/* Has the first, waits for the third; then gives the first back and waits for the second. */
static void *roam(void *arg)
{
    (void)arg;
    dlock_hold *holds[3] = {0};
    scene.code[0] = dlock_lock_acquire(scene.first, patience_ms(), &holds[0], NULL);
    scene.waits = 1;
    scene.code[1] = dlock_lock_acquire(scene.third, DLOCK_FOREVER, &holds[1], NULL);
    dlock_hold_free(holds[0]);
    scene.moves = 1;
    scene.code[2] = dlock_lock_acquire(scene.second, DLOCK_FOREVER, &holds[2], NULL);
    scene.done = 1;
    dlock_hold_free(holds[1]);
    dlock_hold_free(holds[2]);
    return NULL;
}

static void let_it_roam(void)
{
    dlock_hold_free(scene.third_hold);
    AWAIT(scene.moves);
    AWAIT(world_seen(scene.second, "waiters") >= 1);
}

TEST(who_held_it_has_given_it_back_before_it_waits_for_another)
{
    dlk_point_hook = at_point;
    BEGIN();
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    DLOCK_AUTO(dlock_lock) first = world_lock(client, "first", NULL);
    DLOCK_AUTO(dlock_lock) second = world_lock(client, "second", NULL);
    DLOCK_AUTO(dlock_lock) third = world_lock(client, "third", NULL);
    scene.client = client;
    scene.first = first;
    scene.second = second;
    scene.third = third;
    scene.waits = scene.moves = scene.done = 0;
    between = let_it_roam;
    /* Operations are owners of their own: nobody who waits. */
    DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(third, 0);
    ENDS(op, DLOCK_OK);
    scene.third_hold = dlock_op_take_hold(op);
    DLOCK_AUTO(dlock_hold) mine = world_take(second);
    CHECK_EQ_INT(pthread_create(&scene.thread, NULL, roam, NULL), 0);
    AWAIT(scene.waits);
    AWAIT(world_seen(third, "waiters") >= 1);
    /* The next who has the first is nobody who waits, either. */
    DLOCK_AUTO(dlock_op) next = dlock_lock_acquire_start(first, DLOCK_FOREVER);
    DLOCK_AUTO(dlock_hold) none = NULL;
    looks = true;
    looked = 0;
    CHECK_EQ_INT(dlock_lock_acquire(first, SHORT_MS, &none, NULL), DLOCK_ETIMEDOUT);
    CHECK(looked >= 2);
    CHECK(!scene.done);
    ENDS(next, DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_release(mine, NULL), DLOCK_OK);
    AWAIT(scene.done);
    pthread_join(scene.thread, NULL);
    for (int i = 0; i < 3; i++)
        CHECK_EQ_INT(scene.code[i], DLOCK_OK);
}
