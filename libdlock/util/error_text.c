/* What a caller may ask an error, and the two names of every code. */
#include "util/error.h"

dlock_err dlock_error_code(const dlock_error *error)
{
    return error ? error->code : DLOCK_OK;
}

const char *dlock_error_text(const dlock_error *error)
{
    return error ? error->text : "";
}

const char *dlock_error_backend(const dlock_error *error)
{
    return error && error->backend ? error->backend : "";
}

int dlock_error_retriable(const dlock_error *error)
{
    return error && dlk_error_retriable(error->code);
}

/* No default in either switch: the compiler finds a code that was forgotten. */
const char *dlock_strerror(dlock_err code)
{
    switch (code) {
    case DLOCK_OK:
        return "done";
    case DLOCK_EBUSY:
        return "held by somebody else";
    case DLOCK_ETIMEDOUT:
        return "held by somebody else until the wait was over";
    case DLOCK_ECANCELED:
        return "canceled";
    case DLOCK_ELOST:
        return "the lock is lost";
    case DLOCK_ENOTHELD:
        return "not held";
    case DLOCK_EDEADLK:
        return "the wait could never end: the calling thread would wait for itself";
    case DLOCK_EPENDING:
        return "not finished yet";
    case DLOCK_EUNAVAIL:
        return "the lock service can't be reached";
    case DLOCK_EUNKNOWN:
        return "the lock service didn't answer: it may have happened or not";
    case DLOCK_EINVAL:
        return "invalid argument or setting";
    case DLOCK_ENOTSUP:
        return "not supported here";
    case DLOCK_EACCES:
        return "the lock service refused access";
    case DLOCK_ECONFLICT:
        return "another layout or kind is in use under this name";
    case DLOCK_EQUORUM:
        return "too few servers answered";
    case DLOCK_EOVERFLOW:
        return "a limit is reached";
    case DLOCK_ECLOSED:
        return "the client is closed";
    case DLOCK_EFORKED:
        return "made before fork() and not usable in the child";
    case DLOCK_EPROTO:
        return "the peer doesn't speak the expected protocol";
    case DLOCK_EUSER:
        return "the caller's own callback failed";
    case DLOCK_ENOMEM:
        return "out of memory";
    }
    return "unknown error code";
}

const char *dlock_errname(dlock_err code)
{
#define NAME(code)                                                                       \
    case code:                                                                           \
        return #code
    switch (code) {
        NAME(DLOCK_OK);
        NAME(DLOCK_EBUSY);
        NAME(DLOCK_ETIMEDOUT);
        NAME(DLOCK_ECANCELED);
        NAME(DLOCK_ELOST);
        NAME(DLOCK_ENOTHELD);
        NAME(DLOCK_EDEADLK);
        NAME(DLOCK_EPENDING);
        NAME(DLOCK_EUNAVAIL);
        NAME(DLOCK_EUNKNOWN);
        NAME(DLOCK_EINVAL);
        NAME(DLOCK_ENOTSUP);
        NAME(DLOCK_EACCES);
        NAME(DLOCK_ECONFLICT);
        NAME(DLOCK_EQUORUM);
        NAME(DLOCK_EOVERFLOW);
        NAME(DLOCK_ECLOSED);
        NAME(DLOCK_EFORKED);
        NAME(DLOCK_EPROTO);
        NAME(DLOCK_EUSER);
        NAME(DLOCK_ENOMEM);
    }
#undef NAME
    return "DLOCK_E?";
}
