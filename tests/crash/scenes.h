/* The operations that are stepped, and the states in which they are. */
#ifndef TESTS_CRASH_SCENES_H
#define TESTS_CRASH_SCENES_H

#include "stage.h"

extern const crash_scene scenes[];
extern const size_t scene_count;

/* What a rescuer does: enters, and with that rebuilds, and hands on what the dead one had. */
void scene_bury(crash_stage *stage);

#endif
