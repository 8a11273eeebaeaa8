/*
 * What the dlock command says: failures as one line on stderr with the exit status that goes with
 * them, answers on stdout as text or JSON.
 */
#include "cli.h"
#include "errno_text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>

size_t cli_utf8_size(const unsigned char *at)
{
    static const struct {
        unsigned char first, last; /* range of the first byte */
        unsigned char low, high;   /* range of the second */
        size_t size;
    } forms[] = {
        {0x01, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2},
        {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
        {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
        {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4},
        {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (at[0] < forms[i].first || at[0] > forms[i].last)
            continue;
        if (forms[i].size > 1 && (at[1] < forms[i].low || at[1] > forms[i].high))
            return 0;
        for (size_t j = 2; j < forms[i].size; j++) {
            if (at[j] < 0x80 || at[j] > 0xbf)
                return 0;
        }
        return forms[i].size;
    }
    return 0;
}

/* Terminals obey U+0080 to U+009F as they obey ESC. */
static bool is_c1(const unsigned char *at, size_t size)
{
    return size == 2 && at[0] == 0xc2 && at[1] < 0xa0;
}

/* … or what isn't UTF-8, where they go by 8 bits. */
static bool is_obeyed(const unsigned char *at, size_t size)
{
    return *at < ' ' || *at == 0x7f || (size == 0 && *at < 0xa0) || is_c1(at, size);
}

void cli_print(FILE *out, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    while (*at != '\0') {
        size_t size = cli_utf8_size(at);
        if (is_obeyed(at, size))
            (void)fputc('?', out);
        else
            (void)fwrite(at, 1, size == 0 ? 1 : size, out);
        at += size == 0 ? 1 : size;
    }
}

static bool is_plain(const char *name)
{
    const unsigned char *at = (const unsigned char *)name;
    for (size_t size; *at != '\0'; at += size) {
        size = cli_utf8_size(at);
        if (size == 0 || is_obeyed(at, size))
            return false;
    }
    return strncmp(name, "$'", 2) != 0;
}

void cli_print_name(FILE *out, const char *name)
{
    const unsigned char *at = (const unsigned char *)name;
    if (is_plain(name)) {
        (void)fputs(name, out);
        return;
    }
    (void)fputs("$'", out);
    while (*at != '\0') {
        size_t size = cli_utf8_size(at);
        if (size > 0 && !is_obeyed(at, size)) {
            if (*at == '\'' || *at == '\\')
                (void)fputc('\\', out);
            (void)fwrite(at, 1, size, out);
            at += size;
        } else {
            (void)fprintf(out, "\\%03o", *at++);
        }
    }
    (void)fputc('\'', out);
}

/* A line is written in pieces; with --verbose the library's threads write some, too. */
static void begin_line(const cli_call *cli)
{
    flockfile(stderr);
    (void)fputs("dlock: ", stderr);
    if (cli->command != NULL)
        (void)fprintf(stderr, "%s: ", cli->command);
}

static void end_line(void)
{
    (void)fputc('\n', stderr);
    funlockfile(stderr);
}

void cli_say(const cli_call *cli, const char *format, ...)
{
    va_list arguments;
    char *text = NULL;
    va_start(arguments, format);
    int size = vasprintf(&text, format, arguments);
    va_end(arguments);
    begin_line(cli);
    cli_print(stderr, size < 0 ? "out of memory" : text);
    end_line();
    if (size >= 0)
        free(text);
}

int cli_exit_status(dlock_err code)
{
    switch (code) {
    case DLOCK_OK:
        return CLI_OK;
    case DLOCK_EBUSY:
    case DLOCK_ETIMEDOUT:
        return CLI_BUSY;
    case DLOCK_EINVAL:
    case DLOCK_ENOTSUP:
    case DLOCK_ECONFLICT:
        return CLI_USAGE;
    case DLOCK_EUNAVAIL:
    case DLOCK_EUNKNOWN:
    case DLOCK_EQUORUM:
    case DLOCK_EPROTO:
        return CLI_AWAY;
    case DLOCK_ELOST:
        return CLI_LOST;
    case DLOCK_EACCES:
        return CLI_DENIED;
    case DLOCK_ECANCELED:
    case DLOCK_ENOTHELD:
    case DLOCK_EDEADLK:
    case DLOCK_EPENDING:
    case DLOCK_EOVERFLOW:
    case DLOCK_ECLOSED:
    case DLOCK_EFORKED:
    case DLOCK_EUSER:
    case DLOCK_ENOMEM:
        return CLI_OTHER;
    }
    return CLI_OTHER;
}

int cli_fail(const cli_call *cli, const char *what, dlock_err code,
             const dlock_error *error)
{
    const char *text = dlock_error_text(error);
    const char *backend = dlock_error_backend(error);
    if (text[0] == '\0')
        text = dlock_strerror(code);
    begin_line(cli);
    if (what != NULL && what[0] != '\0' && strstr(text, what) == NULL) {
        cli_print(stderr, what);
        (void)fputs(": ", stderr);
    }
    cli_print(stderr, text);
    if (backend[0] != '\0' && strstr(text, backend) == NULL) {
        (void)fputs(" [", stderr);
        cli_print(stderr, backend);
        (void)fputc(']', stderr);
    }
    end_line();
    return cli_exit_status(code);
}

int cli_fail_errno(const cli_call *cli, const char *what)
{
    cli_say(cli, "%s: %s", what, errno_text(errno));
    return CLI_OTHER;
}

void cli_json_text(FILE *out, const char *text)
{
    (void)fputc('"', out);
    const unsigned char *at = (const unsigned char *)text;
    while (*at != '\0') {
        size_t size = cli_utf8_size(at);
        if (size == 0)
            (void)fputs("\\ufffd", out);
        else if (*at < ' ' || *at == 0x7f || is_c1(at, size))
            (void)fprintf(out, "\\u%04x", at[size - 1]);
        else if (*at == '"' || *at == '\\')
            (void)fprintf(out, "\\%c", *at);
        else
            (void)fwrite(at, 1, size, out);
        at += size == 0 ? 1 : size;
    }
    (void)fputc('"', out);
}

void cli_answer(const cli_call *cli, const char *name, const char *key, const char *value)
{
    if (!cli->json)
        return;
    (void)fputs("{\"name\":", stdout);
    cli_json_text(stdout, name);
    (void)printf(",\"%s\":%s}\n", key, value);
}

int cli_print_info(const cli_call *cli, dlock_info *info)
{
    if (cli->json) {
        const char *json = dlock_info_json(info);
        if (json == NULL)
            return cli_fail(cli, NULL, DLOCK_ENOMEM, NULL);
        (void)puts(json);
        return CLI_OK;
    }
    for (size_t i = 0; i < dlock_info_count(info); i++) {
        (void)printf("%-24s ", dlock_info_key(info, i));
        cli_print(stdout, dlock_info_text(info, i));
        (void)putchar('\n');
    }
    return CLI_OK;
}

int cli_flush(const cli_call *cli, int status)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    int failed = cli_fail_errno(cli, "standard output");
    /* Said once: it wouldn't go out later either. */
    __fpurge(stdout);
    clearerr(stdout);
    return status == CLI_OK ? failed : status;
}

void cli_print_more(const char *before, const char *text, const char *behind)
{
    if (text == NULL)
        return;
    (void)fputs(before, stdout);
    cli_print(stdout, text);
    (void)fputs(behind, stdout);
}

int64_t cli_number(const char *text)
{
    return text != NULL ? strtoll(text, NULL, 10) : 0;
}

void cli_print_span(int64_t ms)
{
    long long s = ms / 1000;
    if (s < 60)
        (void)printf("%lld.%lld s", s, (long long)(ms % 1000 / 100));
    else if (s < 3600)
        (void)printf("%lld min %lld s", s / 60, s % 60);
    else if (s < 86400)
        (void)printf("%lld h %lld min", s / 3600, s % 3600 / 60);
    else
        (void)printf("%lld d %lld h", s / 86400, s % 86400 / 3600);
}
