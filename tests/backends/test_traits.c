/* What each backend's type says of itself, against what docs/explanation/promises.md promises: the
 * engine and the simulators go by nothing else. */
#include "backends/registry.h"
#include "harness/harness.h"

#include <stdio.h>
#include <string.h>

enum {
    MUTEX = 1,
    ELECTION = 2,
    SEMAPHORE = 4,
    READ = 8,
    WRITE = 16,
    ALL = 31,
    CONDITION = 32
};

typedef struct promise {
    const char *scheme;
    int class;      /* 0 efficiency, 1 fencing, 2 correctness */
    bool one_clock; /* all its users are on one machine: nothing is held back for drift */
    bool session, queues, fair, fair_asked, tokens, hands_on;
    int kinds;
} promise;

static const promise promises[] = {
    {"mem", 2, .one_clock = true, .queues = true, .fair = true, .tokens = true,
     .hands_on = true, .kinds = ALL | CONDITION},
    {"file", 2, .one_clock = true, .queues = true, .fair = true, .tokens = true,
     .hands_on = true, .kinds = ALL | CONDITION},
    {"redis", 1, .fair_asked = true, .tokens = true, .hands_on = true,
     .kinds = ALL | CONDITION},
    {"rediss", 1, .fair_asked = true, .tokens = true, .hands_on = true,
     .kinds = ALL | CONDITION},
    {"redis+sentinel", 0, .fair_asked = true, .tokens = true, .hands_on = true,
     .kinds = ALL | CONDITION},
    {"redis+cluster", 0, .fair_asked = true, .tokens = true, .hands_on = true,
     .kinds = ALL | CONDITION},
    {"redlock", 0, .kinds = MUTEX},
    {"memlock", 0, .kinds = MUTEX},
    {"memcached", 0, .tokens = true, .hands_on = true, .kinds = ALL},
    {"zookeeper", 2, .session = true, .queues = true, .fair = true, .tokens = true,
     .hands_on = true, .kinds = ALL | CONDITION},
    {"etcd", 2, .session = true, .queues = true, .fair = true, .tokens = true,
     .hands_on = true, .kinds = ALL | CONDITION},
    {"postgres", 1, .queues = true, .fair = true, .tokens = true, .hands_on = true,
     .kinds = ALL | CONDITION},
};

static const promise *promise_of(const dlk_backend_type *type)
{
    for (size_t i = 0; i < sizeof(promises) / sizeof(promises[0]); i++)
        for (size_t k = 0; type->schemes[k]; k++)
            if (strcmp(promises[i].scheme, type->schemes[k]) == 0)
                return &promises[i];
    return NULL;
}

static int kinds_of(const dlk_traits *traits)
{
    return (traits->kinds[DLOCK_MUTEX] ? MUTEX : 0) |
           (traits->kinds[DLOCK_ELECTION] ? ELECTION : 0) |
           (traits->kinds[DLOCK_SEMAPHORE] ? SEMAPHORE : 0) |
           (traits->kinds[DLOCK_READ] ? READ : 0) |
           (traits->kinds[DLOCK_WRITE] ? WRITE : 0) |
           (traits->kinds[DLK_KIND_CONDITION] ? CONDITION : 0);
}

/* "1 % + 2 ms of each lease is held back for it on networked backends". */
static bool margin_is_kept(const dlk_traits *traits, const promise *said)
{
    return traits->margin_percent == (said->one_clock ? 0 : 1) &&
           traits->margin_ms == (said->one_clock ? 0 : 2);
}

static const char *broken(const dlk_traits *traits, const promise *said)
{
    if (!margin_is_kept(traits, said))
        return "the margin for clocks that drift";
    if (traits->class != said->class)
        return "the class";
    if (traits->session != said->session)
        return "whose the lease is";
    if (traits->queues != said->queues || traits->fair != said->fair ||
        traits->fair_asked != said->fair_asked)
        return "the line, or its order";
    if (traits->tokens != said->tokens)
        return "tokens";
    if (traits->hands_on != said->hands_on)
        return "handing on";
    return kinds_of(traits) == said->kinds ? NULL : "the kinds";
}

TEST(each_type_says_of_itself_what_is_promised)
{
    char schemes[256];
    (void)snprintf(schemes, sizeof(schemes), "%s", dlk_registry_schemes());
    int seen = 0;
    char *rest = NULL;
    for (char *scheme = strtok_r(schemes, " ", &rest); scheme;
         scheme = strtok_r(NULL, " ", &rest)) {
        const dlk_backend_type *type = dlk_registry_find(scheme);
        const promise *said = type ? promise_of(type) : NULL;
        const char *wrong = said ? broken(&type->traits, said) : "nothing is promised";
        if (wrong)
            harness_note("%s: %s", scheme, wrong);
        CHECK(wrong == NULL);
        seen++;
    }
    CHECK(seen > 0);
}
