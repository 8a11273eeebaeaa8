/* See the header. */
#include "several.h"

#include <stdio.h>

char names[3][128];

void name_them(const char *test)
{
    for (int i = 0; i < 3; i++)
        snprintf(names[i], sizeof(names[i]), "%.100s/%c", test, 'a' + i);
}

dlock_lock *both(dlock_client *one, dlock_client *other)
{
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_lock) first = world_lock(one, names[1], NULL);
    DLOCK_AUTO(dlock_lock) second = world_lock(other, names[0], NULL);
    dlock_lock *const members[] = {first, second};
    dlock_lock *multi = NULL;
    (void)harness_err(__FILE__, __LINE__, "a multi-lock",
                      dlock_multi_new(members, 2, NULL, &multi, &err), DLOCK_OK, err);
    return multi; /* the members' handles may go */
}
