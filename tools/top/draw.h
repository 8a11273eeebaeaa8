/*
 * What the screen of dlock top looks like: a header of two lines, the table or the answer to an
 * inspect, and a last line for keys, questions and what came of them. ncurses finds out what has
 * changed since the last picture, and writes only that.
 */
#ifndef DLOCK_TOOLS_TOP_DRAW_H
#define DLOCK_TOOLS_TOP_DRAW_H

#include "top/ask.h"

typedef enum top_mode { TOP_TABLE, TOP_FILTER, TOP_BREAK, TOP_INSPECT } top_mode;

typedef struct top_picture {
    const top_ask *ask;
    const top_model *model;
    bool utf8;
    top_mode mode;
    size_t cursor, first;   /* of the view */
    const dlock_info *info; /* what was inspected; NULL: not answered yet */
    size_t info_first;
    const char *name;    /* of what is inspected */
    const char *message; /* the last line; "": the keys */
} top_picture;

/* Colours, where the terminal has some and NO_COLOR doesn't forbid them. */
void top_draw_begin(void);
/* How many rows of the table, or lines of an answer, there is room for. */
size_t top_draw_room(void);
void top_draw(const top_picture *picture, int64_t now);

#endif
