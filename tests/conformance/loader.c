/* A program that isn't linked with the library: loads it, takes a lock, and unloads it again while
 * a client is open and its threads run. Arguments: the library, a URI. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

typedef int open_fn(const char *uri, const void *conf, void **ret, void **err);
typedef int acquire_fn(void *client, const char *name, int64_t wait_ms, void **ret,
                       void **err);

static int load_and_unload(const char *path, const char *uri, const char *name)
{
    void *client = NULL, *hold = NULL;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        printf("%s\n", dlerror());
        return 1;
    }
    open_fn *open_client;
    acquire_fn *acquire;
    *(void **)&open_client = dlsym(library, "dlock_client_open");
    *(void **)&acquire = dlsym(library, "dlock_acquire");
    if (!open_client || !acquire || open_client(uri, NULL, &client, NULL) != 0 ||
        acquire(client, name, 5000, &hold, NULL) != 0) {
        printf("no lock\n");
        return 1;
    }
    return dlclose(library) == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct timespec while_renewed = {.tv_nsec = 300000000};
    if (argc != 3)
        return 2;
    for (int i = 0; i < 2; i++)
        if (load_and_unload(argv[1], argv[2], i ? "second" : "first") != 0)
            return 1;
    nanosleep(&while_renewed, NULL); /* the threads still run, and so does their code */
    return 0;
}
