/* A page for Prometheus, as text: what all clients of this process have counted. docs/how-to/metrics.md
 * Usage: metrics [URL] */
#include <dlock/dlock.h>

#include <stdio.h>

/* In a program this is the answer of its HTTP server. */
static void respond(const char *page)
{
    fputs(page, stdout);
}

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : "mem:metrics";
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_client) client = NULL;
    DLOCK_AUTO(dlock_hold) hold = NULL;
    if (dlock_client_open(url, NULL, &client, &err) != DLOCK_OK ||
        dlock_acquire(client, "watched", 5000, &hold, &err) != DLOCK_OK) {
        fprintf(stderr, "%s\n", dlock_error_text(err));
        return 1;
    }
    /* doc: page */
    char *text = NULL;
    /* NULL: all clients of this process */
    if (dlock_client_metrics(NULL, &text, NULL) == DLOCK_OK)
        respond(text);
    dlock_text_free(text);
    /* end: page */
    return 0;
}
