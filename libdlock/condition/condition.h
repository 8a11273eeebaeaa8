/*
 * Waiting for a signal: the lock is given back, and taken again behind it. docs/design/0028-condition.md
 * says why nothing of it has to be one step at the service.
 */
#ifndef DLK_CONDITION_CONDITION_H
#define DLK_CONDITION_CONDITION_H

#include "engine/engine.h"

/* Gives the lock of @p hold, if any, back as soon as a place in the line of the condition @p name is
 * confirmed, waits there for @p wait_ms, and takes the lock again. Never NULL. @p awaited: the caller
 * waits for the end of it at once, and drives meanwhile. */
dlock_op *dlk_condition_wait_start(dlk_engine *engine, const dlk_name *name,
                                   const dlk_terms *terms, const dlock_hold *hold,
                                   int64_t wait_ms, bool awaited);

#endif
