/* nemesis-leftovers URI: stays connected, and answers each line on standard input with a line of
 * JSON: the locks that the service believes to be held or waited for. */
#include <dlock/dlock.h>

#include <stdio.h>

int main(int argc, char **argv)
{
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_client) client = NULL;
    char line[16];
    if (argc != 2 || dlock_client_open(argv[1], NULL, &client, &err) != DLOCK_OK) {
        fprintf(stderr, "%s\n", argc == 2 ? dlock_error_text(err) : "usage: … URI");
        return 1;
    }
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin)) {
        DLOCK_AUTO(dlock_info) list = NULL;
        if (dlock_client_list(client, NULL, 1000, &list, &err) == DLOCK_OK)
            printf("%s\n", dlock_info_json(list));
        else
            printf("error %s\n", dlock_error_text(err));
        fflush(stdout);
    }
    return 0;
}
