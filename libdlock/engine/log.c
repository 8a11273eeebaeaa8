/*
 * The log: lines of every level, those of client.debug among them, to the sink, or among the events. They are
 * made with the mutex held and given out after it is let go (drive.c). DLOCK_LOG, of who runs the program, has
 * the last word on what its sink hears; where it has none they go to stderr, and events stay what they are.
 */
#include "engine/engine.h"

#include "util/env.h"
#include "util/text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- lines ---- */

static bool append(dlk_engine *engine, dlock_level level, char *line)
{
    dlk_note *note = line ? calloc(1, sizeof(*note)) : NULL;
    if (!note) {
        free(line);
        engine->lines_dropped++;
        return false;
    }
    *note = (dlk_note){.level = level, .text = line};
    dlk_list_append(&engine->log_lines, &note->slot.link);
    engine->lines++;
    return true;
}

/* To the sink: of debug no more than note_limit until the mutex is let go. What didn't fit is said with the
 * next. */
static void to_sink(dlk_engine *engine, dlock_level level, char *line)
{
    char *dropped = NULL;
    if (level >= DLOCK_LOG_DEBUG && engine->lines >= engine->note_limit) {
        engine->lines_dropped++;
        free(line);
        return;
    }
    if (engine->lines_dropped > 0 &&
        asprintf(&dropped, "log: %" PRId64 " lines were dropped", engine->lines_dropped) <
            0)
        dropped = NULL;
    if (dropped && append(engine, DLOCK_LOG_WARN, dropped))
        engine->lines_dropped = 0;
    (void)append(engine, level, line);
}

/* Of debug no more than half: what else is told finds room. */
static void to_events(dlk_engine *engine, dlock_level level, char *line)
{
    if (level >= DLOCK_LOG_DEBUG && engine->notes >= engine->note_limit / 2) {
        engine->overflowed++;
        free(line);
        return;
    }
    dlk_event_note(engine, DLOCK_EVENT_LOG, level, DLOCK_OK, line);
}

/* @p topic 0: of none. */
static bool wants(const dlk_wanted *who, dlock_level level, unsigned topic)
{
    return (int)level <= who->level && (!topic || (topic & who->topics));
}

static bool sink_wants(const dlk_engine *engine, dlock_level level, unsigned topic)
{
    return engine->log && wants(&engine->to_log, level, topic);
}

static bool events_want(const dlk_engine *engine, dlock_level level, unsigned topic)
{
    return engine->event.fd >= 0 && wants(&engine->to_event, level, topic);
}

/* To whoever wants it. Takes the line over. */
static void put(dlk_engine *engine, dlock_level level, unsigned topic, char *line)
{
    bool to_both = sink_wants(engine, level, topic) && events_want(engine, level, topic);
    char *copy = to_both ? strdup(line) : NULL;
    if (copy)
        to_events(engine, level, copy);
    else
        engine->overflowed += to_both;
    if (sink_wants(engine, level, topic))
        to_sink(engine, level, line);
    else if (events_want(engine, level, topic))
        to_events(engine, level, line);
    else
        free(line);
}

void dlk_engine_deliver(const dlk_engine *engine, dlk_list *lines)
{
    dlk_list *link;
    while ((link = dlk_list_take_first(lines))) {
        dlk_note *note = DLK_LIST_ITEM(link, dlk_note, slot.link);
        engine->log(engine->log_user, note->level, note->text);
        dlk_note_free(note);
    }
}

void dlk_engine_log(dlk_engine *engine, dlock_level level, const char *format,
                    va_list args)
{
    if (!sink_wants(engine, level, 0) && !events_want(engine, level, 0))
        return;
    char *line = NULL;
    if (vasprintf(&line, format, args) < 0)
        return; /* a log line that doesn't fit into memory is no reason to fail anything */
    dlk_text_one_line(line); /* names may hold anything */
    put(engine, level, 0, line);
}

/* ---- client.debug ---- */

static void say(dlk_tell *tell, dlk_topic topic, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void say(dlk_tell *tell, dlk_topic topic, const char *format, ...)
{
    dlk_engine *engine = DLK_LIST_ITEM(tell, dlk_engine, tell);
    char *text = NULL, *line = NULL;
    va_list args;
    va_start(args, format);
    int size = vasprintf(&text, format, args);
    va_end(args);
    char *shown = size < 0 ? NULL : dlk_text_shown(text);
    if (size >= 0)
        free(text);
    if (!shown || asprintf(&line, "%s: %s", dlk_topic_name(topic), shown) < 0)
        line = NULL;
    free(shown);
    if (line)
        put(engine, DLOCK_LOG_DEBUG, topic, line);
    else
        engine->lines_dropped++;
}

void dlk_engine_tell(dlk_engine *engine)
{
    unsigned topics = 0;
    if (sink_wants(engine, DLOCK_LOG_DEBUG, 0))
        topics |= engine->to_log.topics;
    if (events_want(engine, DLOCK_LOG_DEBUG, 0))
        topics |= engine->to_event.topics;
    atomic_store_explicit(&engine->tell.topics, topics, memory_order_relaxed);
}

/* ---- what is asked for ---- */

static const char *const levels[] = {"off", "error", "warn", "info", "debug"};

/* In UTC, which takes none of libc's locks: a fork's child would never get one that was held then. One write, so
 * that lines of several processes don't mix; lost if it can't be. */
static void to_stderr(void *user, dlock_level level, const char *line)
{
    const dlk_engine *engine = user;
    struct timespec now = {0};
    char *text = NULL;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    int second = (int)(now.tv_sec % (24 * 60 * 60));
    int size = asprintf(&text, "dlock %02d:%02d:%02d.%03dZ %s %s %s\n", second / 3600,
                        second / 60 % 60, second % 60, (int)(now.tv_nsec / 1000000),
                        engine->name, levels[level], line);
    if (size < 0)
        return;
    (void)!write(STDERR_FILENO, text, (size_t)size);
    free(text);
}

/* A level, or a topic, which is of level debug. */
static bool read_word(const char *word, size_t size, int *level, unsigned *topics)
{
    for (int i = 0; i < 5; i++)
        if (strlen(levels[i]) == size && memcmp(word, levels[i], size) == 0) {
            *level = i > *level ? i : *level;
            return true;
        }
    unsigned topic = dlk_topic_of(word, size);
    *topics |= topic;
    return topic != 0;
}

/* Of a program that runs with rights which who calls it doesn't have nothing is told. */
static void heed_environment(dlk_engine *engine)
{
    const char *text = dlk_trusted_env("DLOCK_LOG"), *wrong = NULL;
    int level = 0, wrong_size = 0;
    unsigned topics = 0;
    if (!text || !text[0])
        return;
    while (*text) {
        text += strspn(text, ", ");
        size_t size = strcspn(text, ", ");
        if (size > 0 && !read_word(text, size, &level, &topics)) {
            wrong = text;
            wrong_size = size < 64 ? (int)size : 64;
        }
        text += size;
    }
    if (level >= DLOCK_LOG_DEBUG && topics == 0)
        topics = DLK_TELL_ALL;
    engine->to_log = (dlk_wanted){.level = topics            ? DLOCK_LOG_DEBUG
                                           : wrong && !level ? DLOCK_LOG_WARN
                                                             : level,
                                  .topics = topics};
    if (!engine->log) {
        engine->log = to_stderr;
        engine->log_user = engine;
    }
    char *line = NULL;
    if (wrong &&
        asprintf(&line,
                 "DLOCK_LOG: '%.*s' is neither a level (off, error, warn, info, debug) "
                 "nor a topic (lock, renew, wait, net, tls, cluster, all)",
                 wrong_size, wrong) >= 0) {
        dlk_text_one_line(line);
        to_sink(engine, DLOCK_LOG_WARN, line);
    }
}

void dlk_engine_log_begin(dlk_engine *engine, const dlk_settings *settings)
{
    const char *wrong;
    size_t size;
    dlk_wanted asked = {.level =
                            (int)dlk_settings_int(settings, DLK_KEY_CLIENT_LOG_LEVEL)};
    (void)dlk_topics_read(dlk_settings_text(settings, DLK_KEY_CLIENT_DEBUG),
                          &asked.topics, &wrong, &size); /* was checked when it was set */
    if (asked.topics && !dlk_settings_is_set(settings, DLK_KEY_CLIENT_LOG_LEVEL))
        asked.level = DLOCK_LOG_DEBUG;
    engine->tell.say = say;
    *(engine->log ? &engine->to_log : &engine->to_event) = asked;
    heed_environment(engine);
    dlk_engine_tell(engine);
}
