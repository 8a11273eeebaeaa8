/* Events: what one says. They are plain memory of their own. */
#include "engine/engine.h"

#include <stdlib.h>

dlock_what dlock_event_what(const dlock_event *event)
{
    return event ? event->what : DLOCK_EVENT_OVERFLOW;
}

uint64_t dlock_event_tag(const dlock_event *event)
{
    return event ? event->tag : 0;
}

dlock_err dlock_event_code(const dlock_event *event)
{
    return event ? event->code : DLOCK_EINVAL;
}

int64_t dlock_event_token(const dlock_event *event)
{
    return event ? event->token : 0;
}

const char *dlock_event_text(const dlock_event *event)
{
    return event && event->text ? event->text : "";
}

void dlock_event_free(dlock_event *event)
{
    if (!event)
        return;
    free(event->text);
    free(event);
}
