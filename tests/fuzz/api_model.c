/* The model of the API; see the header. */
#include "api_model.h"

bool model_conflict(variant a, variant b)
{
    return (a == OTHER) != (b == OTHER);
}

static bool lives(const model *world, const grant *it)
{
    return it->holds > 0 && !world->closed[it->client];
}

grant *model_holder(model *world, int name, bool *certain)
{
    grant *found = NULL;
    *certain = true;
    for (int i = 0; i < GRANTS; i++) {
        grant *it = &world->grants[i];
        if (!lives(world, it) || it->name != name)
            continue;
        if (it->broken)
            *certain = false; /* its client doesn't know, and what it says goes by that */
        else
            found = it;
    }
    for (int i = 0; i < OPS; i++) {
        const op *it = &world->ops[i];
        if (it->op && it->name == name && (!it->over || it->untaken))
            *certain = false;
    }
    return found;
}

static grant *free_grant(model *world)
{
    for (int i = 0; i < GRANTS; i++)
        if (!lives(world, &world->grants[i]))
            return &world->grants[i];
    return NULL;
}

/* A further hold of a grant that is known, or NULL. */
static grant *enter_again(model *world, const op *by, int64_t token)
{
    for (int i = 0; i < GRANTS; i++) {
        grant *it = &world->grants[i];
        if (!lives(world, it) || it->name != by->name || it->client != by->client ||
            it->token != token)
            continue;
        FUZZ_CHECK(it->thread >= 0 && it->thread == by->thread,
                   "another's grant is entered");
        it->holds++;
        return it;
    }
    return NULL;
}

grant *model_got(model *world, const op *by, int64_t token)
{
    FUZZ_CHECK(token > 0, "a grant without a token");
    grant *known = enter_again(world, by, token);
    if (known)
        return known;
    for (int i = 0; i < GRANTS; i++) {
        const grant *it = &world->grants[i];
        if (!lives(world, it) || it->name != by->name)
            continue;
        FUZZ_CHECK(it->broken || by->may_be_broken,
                   "two have one lock: tokens %lld and %lld", (long long)it->token,
                   (long long)token);
        FUZZ_CHECK(it->token != token, "two grants have one token");
    }
    FUZZ_CHECK(by->may_be_broken || token > world->last_token[by->name],
               "token %lld after %lld", (long long)token,
               (long long)world->last_token[by->name]);
    if (token > world->last_token[by->name])
        world->last_token[by->name] = token;
    grant *made = free_grant(world);
    if (made)
        *made = (grant){.client = by->client,
                        .name = by->name,
                        .thread = by->thread,
                        .how = by->how,
                        .token = token,
                        .holds = 1,
                        .broken = by->may_be_broken};
    return made;
}

bool model_acquire(model *world, const lock *with, int thread, int64_t wait_ms,
                   dlock_err *ret)
{
    bool certain;
    const grant *holder = model_holder(world, with->name, &certain);
    *ret = DLOCK_OK;
    if (world->closed[with->client]) {
        *ret = DLOCK_ECLOSED;
        return true;
    }
    if (!certain)
        return false;
    if (!holder)
        return true;
    *ret = wait_ms == 0 ? DLOCK_EBUSY : DLOCK_ETIMEDOUT;
    if (holder->client != with->client)
        return true;
    if (model_conflict(holder->how, with->how))
        *ret = DLOCK_ECONFLICT;
    else if (thread >= 0 && holder->thread == thread)
        *ret = with->how == NOT_REENTRANT ? DLOCK_EDEADLK : DLOCK_OK;
    return true;
}

static void check_hold(const hold *it)
{
    dlock_err code = dlock_hold_check(it->hold);
    dlock_state state = dlock_hold_state(it->hold);
    int64_t left = dlock_hold_remaining_ms(it->hold);
    FUZZ_CHECK(dlock_hold_token(it->hold) == it->token, "a token changes");
    if (it->released)
        FUZZ_CHECK(code != DLOCK_OK && left == 0 && state != DLOCK_HELD,
                   "released, but %s", dlock_errname(code));
    else if (it->of->broken)
        FUZZ_CHECK(code == DLOCK_OK || code == DLOCK_ELOST, "broken, and %s",
                   dlock_errname(code));
    else
        FUZZ_CHECK(code == DLOCK_OK && left > 0 && state == DLOCK_HELD,
                   "held, but %s, %d", dlock_errname(code), (int)state);
}

void model_check(const model *world)
{
    for (int i = 0; i < HOLDS; i++)
        if (world->holds[i].hold)
            check_hold(&world->holds[i]);
}
