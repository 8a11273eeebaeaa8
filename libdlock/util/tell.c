/* The topics; see the header. */
#include "util/tell.h"

#include <string.h>

static void say_nothing(dlk_tell *tell, dlk_topic topic, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void say_nothing(dlk_tell *tell, dlk_topic topic, const char *format, ...)
{
    (void)tell;
    (void)topic;
    (void)format;
}

dlk_tell dlk_tell_nobody = {.say = say_nothing};

static const char *const names[] = {"lock", "renew", "wait", "net", "tls", "cluster"};

unsigned dlk_topic_of(const char *word, size_t size)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strlen(names[i]) == size && memcmp(word, names[i], size) == 0)
            return 1u << i;
    return size == 3 && memcmp(word, "all", 3) == 0 ? DLK_TELL_ALL : 0;
}

const char *dlk_topic_name(dlk_topic topic)
{
    return names[__builtin_ctz((unsigned)topic)];
}

bool dlk_topics_read(const char *text, unsigned *ret, const char **ret_wrong,
                     size_t *ret_size)
{
    *ret = 0;
    while (*text) {
        text += strspn(text, ", ");
        size_t size = strcspn(text, ", ");
        unsigned topic = size > 0 ? dlk_topic_of(text, size) : 0;
        if (size > 0 && !topic) {
            *ret_wrong = text;
            *ret_size = size;
            return false;
        }
        *ret |= topic;
        text += size;
    }
    return true;
}
