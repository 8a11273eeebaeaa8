/* The stories that torture.c tells again and again. */
#ifndef TORTURE_SCENARIOS_H
#define TORTURE_SCENARIOS_H

#include "world.h"

extern const scenario scenarios[]; /* ends with one without a name */

/* fork.c */
void scenario_forked(stage *s);
/* Ends a child without what only its parent may do at exit. */
_Noreturn void end_child(int status);

/* condition.c */
void scenario_signalled(stage *s);

/* kinds.c */
void scenario_several_as_one(stage *s);
void scenario_a_member_lost(stage *s);
void scenario_handed_on(stage *s);
void scenario_elected(stage *s);
void scenario_read_and_written(stage *s);
void scenario_permits(stage *s);
void scenario_revoked(stage *s);

#endif
