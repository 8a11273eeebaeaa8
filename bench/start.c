/* What does it cost to be linked with libdlock? Opens and closes a client in memory, and ends. */
#include "dlock_use.h"

#include <stdlib.h>

int main(void)
{
    dlock_client *client = NULL;
    dlock_error *error = NULL;
    if (dlock_client_open("mem:", NULL, &client, &error) != DLOCK_OK)
        bench_die("mem:", dlock_error_text(error));
    dlock_client_free(client);
    return 0;
}
