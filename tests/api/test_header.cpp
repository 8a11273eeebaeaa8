// The header alone as C++17: it compiles without a warning, links with C names, and DLOCK_AUTO
// works. Speaks TAP by itself: the harness is C.
#include <dlock/dlock.h>

#include <cstdio>
#include <cstring>

static bool the_header_is_usable_from_cpp()
{
    DLOCK_AUTO(dlock_error) err = nullptr;
    DLOCK_AUTO(dlock_conf) conf = dlock_conf_new();
    DLOCK_AUTO(dlock_info) info = nullptr;
    dlock_guarded guarded = {};
    guarded.size = sizeof(guarded);
    guarded.run = [](void *) { return DLOCK_OK; };
    return dlock_conf_set(conf, "lock.ttl_ms", "10000", &err) == DLOCK_OK &&
           dlock_conf_set_int(conf, "lock.ttl_ms", 1, &err) == DLOCK_EINVAL &&
           dlock_error_code(err) == DLOCK_EINVAL && guarded.run(nullptr) == DLOCK_OK &&
           dlock_conf_dump(conf, &info, &err) == DLOCK_OK && err == nullptr &&
           std::strcmp(dlock_info_get(info, "lock.ttl_ms.value"), "10000") == 0;
}

int main()
{
    bool ok = the_header_is_usable_from_cpp();
    std::printf("1..1\n%sok 1 - the_header_is_usable_from_cpp\n", ok ? "" : "not ");
    return ok ? 0 : 1;
}
