/*
 * dlock version, and the list of settings for the shells' completion.
 */
#include "cli.h"

#include <string.h>

static void print_backends_json(void)
{
    const char *separator = "";
    for (const char *at = dlock_backends(); *at != '\0';) {
        size_t size = strcspn(at, " ");
        (void)printf("%s\"%.*s\"", separator, (int)size,
                     at); /* schemes need no escapes */
        separator = ",";
        at += size;
        at += strspn(at, " ");
    }
}

int cli_version(cli_call *cli, int argc, char **argv)
{
    (void)argv;
    if (argc > 0) {
        cli_say(cli, "takes no arguments");
        return CLI_USAGE;
    }
    if (!cli->json) {
        (void)printf("dlock %s (library %s; %s)\n", DLOCK_VERSION_STRING, dlock_version(),
                     dlock_backends());
        return CLI_OK;
    }
    (void)printf("{\"version\":\"%s\",\"library\":\"%s\",\"backends\":[",
                 DLOCK_VERSION_STRING, dlock_version());
    print_backends_json();
    (void)puts("]}");
    return CLI_OK;
}

/* One line per setting: the key, a tab, what it is for. */
int cli_keys(cli_call *cli, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    static const char doc[] = ".doc";
    dlock_error *error = NULL;
    DLOCK_AUTO(dlock_info) table = NULL;
    dlock_err code = dlock_conf_dump(NULL, &table, &error);
    if (code != DLOCK_OK) {
        int status = cli_fail(cli, NULL, code, error);
        dlock_error_free(error);
        return status;
    }
    for (size_t i = 0; i < dlock_info_count(table); i++) {
        const char *key = dlock_info_key(table, i);
        size_t size = strlen(key);
        if (size > sizeof doc - 1 && strcmp(key + size - (sizeof doc - 1), doc) == 0)
            (void)printf("%.*s\t%s\n", (int)(size - (sizeof doc - 1)), key,
                         dlock_info_text(table, i));
    }
    return CLI_OK;
}
