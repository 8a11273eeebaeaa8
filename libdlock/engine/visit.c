/*
 * Driving from a poller of the program's. Its descriptor is a nest (nest.h) of the event descriptor and of
 * the wires: the backend's sockets on which everything comes that is to be read. Between two visits
 * nobody drives, as between two calls of a lone caller; what differs is that the engine's thread
 * leaves what is awaited to the visitors, and looks for itself only when none has come for a while.
 * Where the backend needs somebody who listens all the time it has no wires, and all is as ever.
 *
 * A poller may tell of a change only once. So a visit ends when there is nothing left to read, and
 * whoever was driving when one came raises the event descriptor when he stops.
 */
#include "engine/engine.h"

#include "contract/sleep.h"
#include "engine/nest.h"
#include "util/clock.h"
#include "util/descriptor.h"

/* So many answered at once are given the time to ask again, in one write. */
#define BURST 3

void dlk_engine_lay_wires(dlk_engine *engine)
{
    bool were = dlk_engine_is_left(engine);
    for (size_t i = 0; i < engine->wire_count; i++)
        dlk_nest_remove(engine->poll_fd, engine->wires[i]);
    size_t count = 0;
    (void)engine->backend->type->wires(engine->backend, engine->wires, &count);
    engine->wire_count = 0;
    while (engine->wire_count < count &&
           dlk_nest_add(engine->poll_fd, engine->wires[engine->wire_count]))
        engine->wire_count++;
    if (engine->wire_count < count) { /* no memory: the engine's thread does it */
        while (engine->wire_count > 0)
            dlk_nest_remove(engine->poll_fd, engine->wires[--engine->wire_count]);
    }
    engine->wired = engine->host.wiring;
    engine->visit_again = false;
    if (dlk_engine_is_left(engine) != were)
        dlk_event_raise(engine); /* the program learns of it in its next visit */
}

int dlk_engine_poll_fd(dlk_engine *engine)
{
    const dlk_backend_type *type = engine->backend->type;
    int fds[DLK_BACKEND_WIRES];
    size_t count;
    if (engine->life == DLK_LIFE_CLOSED || !type->wires ||
        !type->wires(engine->backend, fds, &count))
        return -1;
    if (engine->poll_fd >= 0)
        return engine->poll_fd;
    engine->poll_fd = dlk_nest_new();
    if (engine->poll_fd < 0)
        return -1;
    int event_fd = dlk_event_fd(engine);
    if (event_fd < 0 || !dlk_nest_add(engine->poll_fd, event_fd)) {
        dlk_fd_close(engine->poll_fd);
        engine->poll_fd = -1;
        return -1;
    }
    dlk_engine_lay_wires(engine);
    return engine->poll_fd;
}

/* True: nothing is left to be read. */
static bool read_once(dlk_engine *engine)
{
    const dlk_backend_type *type = engine->backend->type;
    dlk_driven_becomes(engine, DLK_DRIVEN_BY_VISITOR);
    engine->unsent = engine->left_to_driver = false;
    engine->volley = 0;
    dlk_polls_begin(&engine->polls, 0);
    type->arm(engine->backend, &engine->polls);
    (void)pthread_mutex_unlock(&engine->mutex);
    bool all = dlk_read_at(engine->backend, &engine->polls);
    (void)pthread_mutex_lock(&engine->mutex);
    dlk_driven_becomes(engine, DLK_DRIVEN_TO_BE_FETCHED);
    dlk_engine_catch_up(engine);
    int64_t now = dlk_clock_now();
    type->process(engine->backend, now);
    engine->backend_next = type->tick(engine->backend, now);
    dlk_engine_digest(engine, now);
    dlk_engine_stop_driving(engine);
    return all;
}

dlock_err dlk_engine_visit(dlk_engine *engine)
{
    engine->visit_again = false;
    if (!dlk_engine_is_left(engine) || engine->life != DLK_LIFE_OPEN)
        return DLOCK_ENOTSUP;
    engine->visited = true;
    engine->announced = 0;
    do {
        if (engine->driven) {
            engine->visit_missed = true;
            return DLOCK_OK;
        }
    } while (!read_once(engine) && engine->core.up && engine->life == DLK_LIFE_OPEN);
    engine->visit_again = engine->announced >= BURST && engine->core.up;
    return engine->visit_again ? DLOCK_EPENDING : DLOCK_OK;
}
