/* Writes docs/reference/settings.md from what the library says about its own settings, or with
 * --check FILE tells whether that file is still what would be written. */
#include <dlock/dlock.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char head[] =
    "# Settings\n"
    "\n"
    "<!-- Written by tools/settings-page from the library's own table: don't edit. -->\n"
    "\n"
    "Every setting is a key with a text value. It can be given in three places; a later "
    "one goes\n"
    "over an earlier one:\n"
    "\n"
    "1. as a parameter of the URI: `redis://127.0.0.1?lock.ttl_ms=10000`,\n"
    "2. in the conf of a client: `dlock_conf_set(conf, \"lock.ttl_ms\", \"10000\", "
    "&err)`,\n"
    "3. in the conf of a lock, for the keys whose scope is *lock*. What the client's "
    "conf says of\n"
    "   these is the default of its locks.\n"
    "\n"
    "What came of them, `dlock_client_settings()` and `dlock_lock_settings()` say.\n"
    "\n"
    "An unknown key, or a value out of range, is refused at once with `DLOCK_EINVAL`, "
    "and the\n"
    "error says what would be right. Booleans are `true`/`false`, `on`/`off` or `1`/`0`. "
    "Times\n"
    "are milliseconds, sizes bytes. A range of \"0, a..b\" means 0, or from a to b. A "
    "URI may\n"
    "make `client.require` and `tls.verify` stricter, never looser. A key may be set "
    "although\n"
    "the backend it is for isn't in this build.\n"
    "\n"
    "User name and password before the `@` of a URI are `auth.username` and "
    "`auth.password`; the\n"
    "path of `redis://` and `rediss://` is `redis.db`. Secrets are never shown in a log, "
    "an error\n"
    "or a dump.\n";

/* The value of KEY.what. */
static const char *ask(const dlock_info *info, const char *key, size_t key_size,
                       const char *what)
{
    char name[128];
    snprintf(name, sizeof(name), "%.*s.%s", (int)key_size, key, what);
    const char *text = dlock_info_get(info, name);
    return text ? text : "";
}

static void write_cell(FILE *out, const char *text, const char *when_empty)
{
    fprintf(out, " %s |", text[0] ? text : when_empty);
}

static void write_key(FILE *out, const dlock_info *info, const char *key, size_t size)
{
    fprintf(out, "| `%.*s` |", (int)size, key);
    write_cell(out, ask(info, key, size, "type"), "");
    write_cell(out, ask(info, key, size, "default"), "none");
    write_cell(out, ask(info, key, size, "range"), "any");
    write_cell(out, ask(info, key, size, "scope"), "");
    write_cell(out, ask(info, key, size, "backends"), "");
    write_cell(out, ask(info, key, size, "doc"), "");
    write_cell(out, ask(info, key, size, "since"), "");
    fputc('\n', out);
}

static void write_section(FILE *out, const char *name, size_t size)
{
    fprintf(out,
            "\n## %.*s\n\n"
            "| key | type | default | range | scope | backends | what it does | since |\n"
            "|---|---|---|---|---|---|---|---|\n",
            (int)size, name);
}

static void write_page(FILE *out, const dlock_info *info)
{
    const char *section = "";
    size_t section_size = 0;
    fputs(head, out);
    for (size_t i = 0; i < dlock_info_count(info); i++) {
        const char *key = dlock_info_key(info, i);
        size_t size = strlen(key);
        if (size < 5 || strcmp(key + size - 5, ".type") != 0)
            continue; /* every setting has one .type */
        size_t here = strcspn(key, ".");
        if (here != section_size || strncmp(key, section, here) != 0)
            write_section(out, key, here);
        section = key;
        section_size = here;
        write_key(out, info, key, size - 5);
    }
}

/* Whether the file at @p path is exactly @p page. */
static int is_current(const char *path, const char *page, size_t size)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    int same = 1;
    for (size_t i = 0; same && i < size; i++)
        same = getc(file) == (unsigned char)page[i];
    same = same && getc(file) == EOF;
    fclose(file);
    return same;
}

int main(int argc, char **argv)
{
    int check = argc == 3 && strcmp(argv[1], "--check") == 0;
    if (argc != 1 && !check) {
        fprintf(stderr, "usage: settings-page [--check FILE]\n");
        return 64;
    }
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_info) info = NULL;
    if (dlock_conf_dump(NULL, &info, &err) != DLOCK_OK) {
        fprintf(stderr, "settings-page: %s\n", dlock_error_text(err));
        return 70;
    }
    if (!check) {
        write_page(stdout, info);
        return fflush(stdout) == 0 ? 0 : 70;
    }
    char *page = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&page, &size);
    if (!out)
        return 70;
    write_page(out, info);
    int current = fclose(out) == 0 && is_current(argv[2], page, size);
    free(page);
    if (!current)
        fprintf(stderr, "%s isn't what settings-page writes: run settings-page > FILE\n",
                argv[2]);
    return !current;
}
