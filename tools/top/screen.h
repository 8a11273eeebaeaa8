/*
 * dlock top on a terminal. Without ncurses in the build nothing fits.
 */
#ifndef DLOCK_TOOLS_TOP_SCREEN_H
#define DLOCK_TOOLS_TOP_SCREEN_H

#include "top/ask.h"

#ifdef TOP_WITH_SCREEN
/* Whether stdin and stdout are a terminal whose cursor can be placed. */
bool top_screen_fits(void);
/* Shows and hears keys until q or a signal: the exit status. The terminal is as it was then. */
int top_screen_run(top_ask *ask, top_model *model);
#else
static inline bool top_screen_fits(void)
{
    return false;
}
static inline int top_screen_run(top_ask *ask, top_model *model)
{
    (void)ask, (void)model;
    return CLI_OTHER;
}
#endif

#endif
