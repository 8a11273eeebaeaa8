/* What the engine's thread (thread.c) has of the driving that all do (drive.c). With the mutex held. */
#ifndef DLK_ENGINE_DRIVE_H
#define DLK_ENGINE_DRIVE_H

#include "engine/engine.h"

/* dlk_engine_leave without the end of a stay, by the engine's thread perhaps. */
void dlk_engine_let_go(dlk_engine *engine, bool by_engine);
/* One round: sleeps until there is news, and digests it; @p me NULL: the engine's thread. The kicks were
 * @p seen before @p until was decided. Mutex held before and after. */
void dlk_engine_drive(dlk_engine *engine, dlk_sleeper *me, int64_t until, uint32_t seen);
/* Something may come at any time. */
bool dlk_engine_expects(const dlk_engine *engine);
/* … that no caller waits for. */
bool dlk_engine_unattended(const dlk_engine *engine);
/* Whether the engine's thread has to drive, were nobody else to. */
bool dlk_engine_must_drive(const dlk_engine *engine, int64_t now);
/* When to look whether something lies unread. */
int64_t dlk_engine_next_look(const dlk_engine *engine, int64_t now);

#endif
