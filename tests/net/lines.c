/* See the header. */
#include "lines.h"

#include "harness/harness.h"

#include <stdio.h>

dlk_stream stream;
pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int lines_each;
_Atomic int asked_to_arm;

static void *write_lines(void *number)
{
    char line[2 * LINE]; /* numbers are never that long, but gcc can't know */
    for (int i = 0; i < lines_each; i++) {
        snprintf(line, sizeof(line), "%d %07d %*s\n", *(int *)number, i, LINE - 11, "x");
        pthread_mutex_lock(&mutex);
        (void)harness_check(__FILE__, __LINE__, dlk_buf_append(&stream.out, line, LINE),
                            "append");
        if (!dlk_stream_flush(&stream, &mutex))
            asked_to_arm++;
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

bool writers_start(writers *all, int count, int lines)
{
    *all = (writers){.count = count};
    lines_each = lines;
    bool fine = true;
    for (int i = 0; i < count && fine; i++) {
        all->numbers[i] = i;
        fine = pthread_create(&all->threads[i], NULL, write_lines, &all->numbers[i]) == 0;
    }
    return harness_check(__FILE__, __LINE__, fine, "writers");
}

bool writers_wrote(writers *all, const char *line)
{
    int writer = line[0] - '0', number = -1;
    return harness_check(__FILE__, __LINE__,
                         writer >= 0 && writer < all->count && line[LINE - 1] == '\n' &&
                             sscanf(line + 2, "%d", &number) == 1,
                         "a whole line") &&
           harness_eq_int(__FILE__, __LINE__, "its number", number, all->next[writer]++);
}

void writers_join(writers *all)
{
    for (int i = 0; i < all->count; i++)
        pthread_join(all->threads[i], NULL);
}
