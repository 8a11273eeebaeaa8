/*
 * The log: lines of every level, those of client.debug among them, to the sink, or among the events. They are
 * made with the mutex held and given out after it is let go (drive.c). DLOCK_LOG, of who runs the program, has
 * the last word on what is said, and where the program has no sink, stderr.
 */
#include "engine/engine.h"

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

/* To the sink: no more than note_limit until the mutex is let go. What didn't fit is said with the next. */
static void to_sink(dlk_engine *engine, dlock_level level, char *line)
{
    char *dropped = NULL;
    if (engine->lines >= engine->note_limit) {
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

/* Takes the line over. */
static void put(dlk_engine *engine, dlock_level level, char *line)
{
    if (engine->log)
        to_sink(engine, level, line);
    else
        dlk_event_note(engine, DLOCK_EVENT_LOG, level, DLOCK_OK, line);
}

void dlk_engine_log(dlk_engine *engine, dlock_level level, const char *format,
                    va_list args)
{
    if ((int)level > engine->log_level || (!engine->log && engine->event_fd < 0))
        return;
    char *line = NULL;
    if (vasprintf(&line, format, args) < 0)
        return; /* a log line that doesn't fit into memory is no reason to fail anything */
    dlk_text_one_line(line); /* names may hold anything */
    put(engine, level, line);
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
        put(engine, DLOCK_LOG_DEBUG, line);
    else
        engine->lines_dropped++;
}

void dlk_engine_tell(dlk_engine *engine)
{
    bool heard =
        (engine->log || engine->event_fd >= 0) && engine->log_level >= DLOCK_LOG_DEBUG;
    atomic_store_explicit(&engine->tell.topics, heard ? engine->topics : 0,
                          memory_order_relaxed);
}

/* ---- what is asked for ---- */

static const char *const levels[] = {"off", "error", "warn", "info", "debug"};

static void to_stderr(void *user, dlock_level level, const char *line)
{
    char text[1200], time_of_day[16] = "";
    struct timespec now;
    struct tm is;
    const dlk_engine *engine = user;
    if (clock_gettime(CLOCK_REALTIME, &now) == 0 && localtime_r(&now.tv_sec, &is))
        (void)strftime(time_of_day, sizeof(time_of_day), "%H:%M:%S", &is);
    int size = snprintf(text, sizeof(text), "dlock %s.%03ld %s %s %s\n", time_of_day,
                        now.tv_nsec / 1000000, engine->name, levels[level], line);
    if (size >= (int)sizeof(text)) {
        size = sizeof(text) - 1;
        text[size - 1] = '\n';
    }
    if (size >
        0) /* one write, so that lines of several processes don't mix; lost if it can't be */
        (void)!write(STDERR_FILENO, text, (size_t)size);
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
    const char *text = secure_getenv("DLOCK_LOG"), *wrong = NULL;
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
    engine->topics = topics;
    engine->log_level = topics            ? DLOCK_LOG_DEBUG
                        : wrong && !level ? DLOCK_LOG_WARN
                                          : level;
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
        put(engine, DLOCK_LOG_WARN, line);
    }
}

void dlk_engine_log_begin(dlk_engine *engine, const dlk_settings *settings)
{
    const char *wrong;
    size_t size;
    engine->tell.say = say;
    engine->log_level = (int)dlk_settings_int(settings, DLK_KEY_CLIENT_LOG_LEVEL);
    (void)dlk_topics_read(dlk_settings_text(settings, DLK_KEY_CLIENT_DEBUG),
                          &engine->topics, &wrong,
                          &size); /* was checked when it was set */
    if (engine->topics && !dlk_settings_is_set(settings, DLK_KEY_CLIENT_LOG_LEVEL))
        engine->log_level = DLOCK_LOG_DEBUG;
    heed_environment(engine);
    dlk_engine_tell(engine);
}
