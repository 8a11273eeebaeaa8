/* Files: what is made, what is taken over, and what is refused before anything is touched. */
#include "client.h"
#include "harness/harness.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define TTL 30000

static const char *const small[] = {"file.slots=16", NULL};

static answer acquire(fake *client, dlk_key *key, uint64_t number)
{
    return client_ask(client, DLK_ACQUIRE, key, number, TTL, dlk_clock_now());
}

/* Opens, expects to be refused with @p code, and gives the reason. */
static const char *refusal(const char *uri, const char *const *settings, dlock_err code)
{
    static char text[600];
    dlock_error *err = NULL;
    fake *client = client_open_with(uri, settings, &err);
    text[0] = '\0';
    if (client)
        (void)snprintf(text, sizeof(text), "it was opened");
    else if (dlock_error_code(err) != code)
        (void)snprintf(text, sizeof(text), "%s: %s", dlock_errname(dlock_error_code(err)),
                       dlock_error_text(err));
    else
        (void)snprintf(text, sizeof(text), "%s", dlock_error_text(err));
    client_close(client);
    dlock_error_free(err);
    return text;
}

static void write_file(const char *path, const void *bytes, size_t size, off_t at)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || pwrite(fd, bytes, size, at) != (ssize_t)size || close(fd) != 0)
        abort();
}

static off_t size_of(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? st.st_size : -1;
}

TEST(a_new_file_is_whole_private_and_allocated)
{
    struct stat st;
    fake *client = client_open(temp_uri("new"), NULL);
    CHECK(client != NULL);
    CHECK_EQ_INT(stat(temp_path("new"), &st), 0);
    CHECK_EQ_INT(st.st_mode & 0777, 0600);
    CHECK(st.st_size > 1024 * 1024);
    CHECK((int64_t)st.st_blocks * 512 >= (int64_t)st.st_size);
    CHECK_EQ_INT(client->ups, 1);
    client_close(client);
}

TEST(two_openers_share_one_table)
{
    fake *a = client_open(temp_uri("shared"), NULL),
         *b = client_open(temp_uri("shared"), NULL);
    dlk_key *ka = client_key(a, "n"), *kb = client_key(b, "n");
    answer first = acquire(a, ka, 1);
    CHECK_EQ_INT(first.reply, DLK_YES);
    CHECK_EQ_INT(acquire(b, kb, 1).reply, DLK_HELD);
    CHECK_EQ_INT(client_ask(a, DLK_RELEASE, ka, 1, 0, dlk_clock_now()).reply, DLK_YES);
    b->backend->type->process(b->backend, dlk_clock_now());
    CHECK_EQ_INT(b->told, 1);
    answer second = acquire(b, kb, 1);
    CHECK_EQ_INT(second.reply, DLK_YES);
    CHECK(second.token > first.token);
    client_key_close(a, ka);
    client_key_close(b, kb);
    client_close(a);
    client_close(b);
}

TEST(the_counter_survives_and_holds_do_not_when_everybody_has_gone)
{
    int64_t last = 0;
    for (int i = 0; i < 4; i++) {
        fake *client = client_open(temp_uri("counter"), NULL);
        dlk_key *key = client_key(client, "n");
        answer got = acquire(client, key, 1);
        CHECK_EQ_INT(got.reply, DLK_YES);
        CHECK(got.token > last);
        CHECK(i == 0 || got.token == last + 1);
        last = got.token;
        client_key_close(client, key);
        client_close(client);
    }
}

TEST(an_empty_file_becomes_a_table)
{
    write_file(temp_path("empty"), "", 0, 0);
    fake *client = client_open(temp_uri("empty"), NULL);
    CHECK(client != NULL);
    client_close(client);
}

TEST(what_somebody_who_died_has_left_half_made_is_made_anew)
{
    char page[8192];
    memset(page, 0xff, sizeof(page));
    memcpy(page, DLK_TABLE_MAKING, 8);
    write_file(temp_path("half"), page, sizeof(page), 0);
    fake *client = client_open_with(temp_uri("half"), small, NULL);
    CHECK(client != NULL);
    dlk_key *key = client_key(client, "n");
    CHECK_EQ_INT(acquire(client, key, 1).reply, DLK_YES);
    client_key_close(client, key);
    client_close(client);
}

TEST(a_foreign_file_is_refused_and_left_as_it_was)
{
    const char text[] = "my precious notes, which are longer than a magic number\n";
    char after[sizeof(text)];
    write_file(temp_path("notes"), text, sizeof(text), 0);
    CHECK_CONTAINS(refusal(temp_uri("notes"), NULL, DLOCK_EPROTO), "not a lock table");
    int fd = open(temp_path("notes"), O_RDONLY | O_CLOEXEC);
    CHECK_EQ_INT(read(fd, after, sizeof(after)), sizeof(text));
    CHECK_EQ_INT(close(fd), 0);
    CHECK_EQ_INT(memcmp(text, after, sizeof(text)), 0);
    CHECK_EQ_INT(size_of(temp_path("notes")), sizeof(text));
}

TEST(a_file_shorter_than_a_magic_number_is_foreign_too)
{
    write_file(temp_path("short"), "dloc", 4, 0);
    CHECK_CONTAINS(refusal(temp_uri("short"), NULL, DLOCK_EPROTO), "not a lock table");
}

TEST(what_is_no_regular_file_is_refused)
{
    CHECK_EQ_INT(mkdir(temp_path("directory"), 0700), 0);
    CHECK_CONTAINS(refusal(temp_uri("directory"), NULL, DLOCK_EINVAL), "irectory");
    CHECK_EQ_INT(mkfifo(temp_path("fifo"), 0600), 0);
    CHECK_CONTAINS(refusal(temp_uri("fifo"), NULL, DLOCK_EINVAL), "not a regular file");
    CHECK_EQ_INT(symlink("/nonexistent/target", temp_path("link")), 0);
    CHECK_CONTAINS(refusal(temp_uri("link"), NULL, DLOCK_EINVAL), "symbolic link");
    CHECK_CONTAINS(refusal("file:///dev/null", NULL, DLOCK_EINVAL), "not a regular file");
    CHECK_CONTAINS(refusal("file:///proc/nonexistent/x", NULL, DLOCK_EUNAVAIL),
                   "No such file");
    CHECK_CONTAINS(refusal(temp_uri("notes/x"), NULL, DLOCK_EINVAL), "Not a directory");
}

TEST(a_path_has_to_be_absolute_and_of_this_machine)
{
    CHECK_CONTAINS(refusal("file://host/tmp/x", NULL, DLOCK_EINVAL), "takes no host");
    CHECK_CONTAINS(refusal("file:///", NULL, DLOCK_EINVAL), "absolute path");
    CHECK_CONTAINS(refusal("file:///tmp/", NULL, DLOCK_EINVAL), "absolute path");
}

/* Makes a table and changes its stamp by what @p edit does. */
static void fabricate(const char *file, void (*edit)(dlk_table_stamp *stamp))
{
    client_close(client_open_with(temp_uri(file), small, NULL));
    temp_edit_stamp(file, edit);
}

static void older(dlk_table_stamp *stamp)
{
    stamp->version = 0;
}

static void newer(dlk_table_stamp *stamp)
{
    stamp->version = DLK_TABLE_VERSION + 1;
}

static void other_sizes(dlk_table_stamp *stamp)
{
    stamp->rows = 4000000000u;
}

static void other_libc(dlk_table_stamp *stamp)
{
    stamp->libc = 77;
}

TEST(older_newer_and_senseless_layouts_are_refused)
{
    fabricate("older", older);
    CHECK_CONTAINS(refusal(temp_uri("older"), NULL, DLOCK_EPROTO), "an older libdlock");
    fabricate("newer", newer);
    CHECK_CONTAINS(refusal(temp_uri("newer"), NULL, DLOCK_EPROTO), "a newer libdlock");
    fabricate("sizes", other_sizes);
    CHECK_CONTAINS(refusal(temp_uri("sizes"), NULL, DLOCK_EPROTO), "damaged");
}

TEST(a_truncated_file_is_refused)
{
    client_close(client_open_with(temp_uri("cut"), small, NULL));
    CHECK_EQ_INT(truncate(temp_path("cut"), size_of(temp_path("cut")) - 1), 0);
    CHECK_CONTAINS(refusal(temp_uri("cut"), NULL, DLOCK_EPROTO), "truncated");
    CHECK_EQ_INT(truncate(temp_path("cut"), 100), 0);
    CHECK_CONTAINS(refusal(temp_uri("cut"), NULL, DLOCK_EPROTO), "not a lock table");
}

/* A file of another world that nobody has open is ours: as after a reboot. */
static bool is_taken_over(const char *file, void (*edit)(dlk_table_stamp *stamp))
{
    fabricate(file, edit);
    fake *client = client_open(temp_uri(file), NULL);
    if (!client)
        return false;
    dlk_key *key = client_key(client, "n");
    bool fine = acquire(client, key, 1).reply == DLK_YES;
    client_key_close(client, key);
    client_close(client);
    return fine;
}

TEST(after_a_reboot_or_in_a_new_container_an_unused_file_is_taken_over)
{
    CHECK(is_taken_over("boot", other_boot));
    CHECK(is_taken_over("pid", other_pid_ns));
    CHECK(is_taken_over("time", other_time_ns));
    CHECK(is_taken_over("libc", other_libc));
}

TEST(holds_from_before_a_reboot_are_void_and_tokens_go_on)
{
    /* A hold that nobody gives back: the child exits without a word. */
    pid_t pid = fork();
    if (pid == 0) {
        fake *client = client_open_with(temp_uri("reboot"), small, NULL);
        answer got = acquire(client, client_key(client, "n"), 1);
        _exit(got.reply == DLK_YES ? 0 : 1);
    }
    int status = -1;
    CHECK_EQ_INT(waitpid(pid, &status, 0), pid);
    CHECK_EQ_INT(status, 0);
    temp_edit_stamp("reboot", other_boot);
    fake *client = client_open(temp_uri("reboot"), NULL);
    CHECK(client != NULL);
    int64_t before = atomic_load(&dlk_local_of(client->backend)->table->head->last_token);
    dlk_key *key = client_key(client, "n");
    answer got = acquire(client, key, 1);
    CHECK_EQ_INT(got.reply, DLK_YES);
    CHECK_EQ_INT(got.token, before + 1);
    client_key_close(client, key);
    client_close(client);
}

/* The file of a world that others live in is not ours: the stamp is changed under a client that
 * has it open. */
static const char *refusal_beside(const char *file, void (*edit)(dlk_table_stamp *stamp),
                                  dlock_err code)
{
    fake *client = client_open_with(temp_uri(file), small, NULL);
    dlk_table_stamp *stamp = &dlk_local_of(client->backend)->table->head->stamp;
    dlk_table_stamp before = *stamp;
    edit(stamp);
    const char *text = refusal(temp_uri(file), NULL, code);
    *stamp = before;
    client_close(client);
    return text;
}

TEST(a_file_in_use_in_another_namespace_machine_or_libc_is_refused)
{
    CHECK_CONTAINS(refusal_beside("u1", other_pid_ns, DLOCK_ENOTSUP), "pid namespace");
    CHECK_CONTAINS(refusal_beside("u2", other_time_ns, DLOCK_ENOTSUP), "time namespace");
    CHECK_CONTAINS(refusal_beside("u3", other_boot, DLOCK_ENOTSUP), "another machine");
    CHECK_CONTAINS(refusal_beside("u4", other_libc, DLOCK_EPROTO), "another libc");
}

/* Runs @p body in a child; its exit code, -1 when it died. */
static int in_child(int (*body)(void))
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0)
        _exit(body());
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

enum { CHILD_SKIP = 77 };

static int open_in_new_pid_namespace(void)
{
    if (unshare(CLONE_NEWPID) != 0)
        return CHILD_SKIP;
    pid_t pid = fork(); /* the first one inside */
    int status = 0;
    if (pid == 0) {
        const char *text = refusal(temp_uri("container"), NULL, DLOCK_ENOTSUP);
        _exit(strstr(text, "pid namespace") ? 0 : 1);
    }
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

TEST(a_process_of_another_pid_namespace_is_refused)
{
    fake *client = client_open(temp_uri("container"), NULL);
    CHECK(client != NULL);
    int got = in_child(open_in_new_pid_namespace);
    client_close(client);
    if (got == CHILD_SKIP)
        SKIP("no right to make a pid namespace");
    CHECK_EQ_INT(got, 0);
}

static int open_as_nobody(void)
{
    static const char *const shared[] = {"file.mode=0666", NULL};
    if (chmod(temp_path("."), 0755) != 0 || setgid(65534) != 0 || setuid(65534) != 0)
        return CHILD_SKIP;
    if (!strstr(refusal(temp_uri("private"), NULL, DLOCK_EACCES), "ermission"))
        return 1;
    if (!strstr(refusal(temp_uri("public"), NULL, DLOCK_EACCES),
                "belongs to another user"))
        return 2;
    if (!strstr(refusal(temp_uri("forbidden"), NULL, DLOCK_EACCES), "ermission"))
        return 3;
    fake *client = client_open_with(temp_uri("public"), shared, NULL);
    if (!client)
        return 4;
    answer got = acquire(client, client_key(client, "n"), 1);
    client_close(client);
    return got.reply == DLK_YES ? 0 : 5;
}

TEST(two_users_share_a_file_only_when_both_ask_for_it)
{
    static const char *const shared[] = {"file.mode=0666", NULL};
    struct stat st;
    if (geteuid() != 0)
        SKIP("needs root to be two users");
    client_close(client_open(temp_uri("private"), NULL));
    client_close(client_open_with(temp_uri("public"), shared, NULL));
    CHECK_EQ_INT(stat(temp_path("public"), &st), 0);
    CHECK_EQ_INT(st.st_mode & 0777, 0666);
    CHECK_EQ_INT(in_child(open_as_nobody), 0);
}

static int open_read_only_mount(void)
{
    if (unshare(CLONE_NEWNS) != 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", temp_path("mount"), "tmpfs", 0, "size=64k") != 0)
        return CHILD_SKIP;
    if (mount(NULL, temp_path("mount"), NULL, MS_REMOUNT | MS_RDONLY, NULL) != 0)
        return CHILD_SKIP;
    return strstr(refusal(temp_uri("mount/table"), NULL, DLOCK_EACCES), "Read-only") ? 0
                                                                                     : 1;
}

static int open_full_disk(void)
{
    if (unshare(CLONE_NEWNS) != 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", temp_path("mount"), "tmpfs", 0, "size=64k") != 0)
        return CHILD_SKIP;
    if (!strstr(refusal(temp_uri("mount/table"), NULL, DLOCK_EUNAVAIL), "No space left"))
        return 1;
    return access(temp_path("mount/table"), F_OK) != 0 && errno == ENOENT ? 0 : 2;
}

TEST(a_full_disk_is_an_error_and_leaves_nothing_behind)
{
    (void)mkdir(temp_path("mount"), 0700);
    int got = in_child(open_full_disk);
    if (got == CHILD_SKIP)
        SKIP("no right to mount");
    CHECK_EQ_INT(got, 0);
}

TEST(a_read_only_file_system_is_refused)
{
    (void)mkdir(temp_path("mount"), 0700);
    int got = in_child(open_read_only_mount);
    if (got == CHILD_SKIP)
        SKIP("no right to mount");
    CHECK_EQ_INT(got, 0);
}

static int open_with_file_size_limit(void)
{
    struct rlimit limit = {.rlim_cur = 65536, .rlim_max = 65536};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
        return CHILD_SKIP;
    if (!strstr(refusal(temp_uri("limit"), NULL, DLOCK_EUNAVAIL), "too large"))
        return 1;
    return access(temp_path("limit"), F_OK) != 0 ? 0 : 2;
}

TEST(a_file_size_limit_is_an_error_and_no_signal)
{
    CHECK_EQ_INT(in_child(open_with_file_size_limit), 0);
}

TEST(network_file_systems_are_known)
{
    CHECK(dlk_file_is_remote(0x6969));
    CHECK(dlk_file_is_remote((long)(int32_t)0xff534d42));
    CHECK(!dlk_file_is_remote(0x01021994));
    CHECK(!dlk_file_is_remote(0xef53));
}

/* Time enough for the next look at the file. */
static int64_t later(void)
{
    return dlk_clock_now() + 2 * DLK_NS_PER_SEC;
}

TEST(a_replaced_file_is_noticed_and_nothing_is_granted_any_more)
{
    fake *client = client_open_with(temp_uri("replaced"), small, NULL);
    dlk_key *key = client_key(client, "n"), *other = client_key(client, "m");
    CHECK_EQ_INT(acquire(client, key, 1).reply, DLK_YES);
    CHECK_EQ_INT(unlink(temp_path("replaced")), 0);
    client_close(client_open_with(temp_uri("replaced"), small, NULL));
    answer got = client_ask(client, DLK_ACQUIRE, other, 2, TTL, later());
    CHECK_EQ_INT(got.reply, DLK_REFUSED);
    CHECK_EQ_INT(got.code, DLOCK_EPROTO);
    CHECK_CONTAINS(got.text, "removed or replaced");
    CHECK_EQ_INT(client_ask(client, DLK_RENEW, key, 1, TTL, later()).reply, DLK_NOT_OURS);
    CHECK_EQ_INT(client->logged, 1);
    client_key_close(client, key);
    client_key_close(client, other);
    client_close(client);
}

TEST(a_file_truncated_in_use_is_noticed_and_does_not_crash)
{
    fake *client = client_open_with(temp_uri("shrunk"), small, NULL);
    dlk_key *key = client_key(client, "n");
    CHECK_EQ_INT(acquire(client, key, 1).reply, DLK_YES);
    CHECK_EQ_INT(truncate(temp_path("shrunk"), 0), 0);
    answer got = client_ask(client, DLK_ACQUIRE, key, 2, TTL, later());
    CHECK_EQ_INT(got.reply, DLK_REFUSED);
    CHECK_CONTAINS(got.text, "truncated");
    CHECK_EQ_INT(client_ask(client, DLK_RENEW, key, 1, TTL, later()).reply, DLK_NOT_OURS);
    CHECK_EQ_INT(client_ask(client, DLK_RELEASE, key, 1, 0, later()).reply, DLK_NOT_OURS);
    CHECK_CONTAINS(refusal(temp_uri("shrunk"), NULL, DLOCK_EPROTO), "emptied");
    client_key_close(client, key);
    client_close(client);
}

TEST(a_table_full_of_locks_says_which_setting_to_raise)
{
    fake *client = client_open_with(temp_uri("full"), small, NULL);
    dlk_key *keys[17];
    for (int i = 0; i < 17; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "n%d", i);
        keys[i] = client_key(client, name);
        answer got = acquire(client, keys[i], (uint64_t)i + 1);
        CHECK_EQ_INT(got.reply, i < 16 ? DLK_YES : DLK_REFUSED);
        if (i == 16) {
            CHECK_EQ_INT(got.code, DLOCK_EOVERFLOW);
            CHECK_CONTAINS(got.text, "file.slots");
        }
    }
    /* A place that is given back can be had under another name. */
    CHECK_EQ_INT(client_ask(client, DLK_RELEASE, keys[3], 4, 0, dlk_clock_now()).reply,
                 DLK_YES);
    CHECK_EQ_INT(acquire(client, keys[16], 17).reply, DLK_YES);
    CHECK_EQ_INT(client_ask(client, DLK_VERIFY, keys[3], 4, 0, dlk_clock_now()).reply,
                 DLK_NOT_OURS);
    CHECK_EQ_INT(acquire(client, keys[3], 18).reply, DLK_REFUSED);
    for (int i = 0; i < 17; i++)
        client_key_close(client, keys[i]);
    client_close(client);
}

TEST(a_table_full_of_waiters_says_which_setting_to_raise)
{
    fake *client = client_open_with(temp_uri("queue"), small, NULL);
    dlk_key *key = client_key(client, "n");
    CHECK_EQ_INT(acquire(client, key, 1).reply, DLK_YES);
    for (uint64_t number = 2; number < 2 + 32; number++)
        CHECK_EQ_INT(acquire(client, key, number).reply, DLK_HELD);
    answer got = acquire(client, key, 99);
    CHECK_EQ_INT(got.reply, DLK_REFUSED);
    CHECK_EQ_INT(got.code, DLOCK_EOVERFLOW);
    CHECK_CONTAINS(got.text, "file.slots");
    /* and whoever is in the line is served in its order */
    for (uint64_t number = 1; number < 1 + 32; number++) {
        CHECK_EQ_INT(
            client_ask(client, DLK_RELEASE, key, number, 0, dlk_clock_now()).reply,
            DLK_YES);
        CHECK_EQ_INT(acquire(client, key, number + 1).reply, DLK_YES);
    }
    client_key_close(client, key);
    client_close(client);
}

TEST(a_table_full_of_clients_says_so_and_takes_the_next_when_one_leaves)
{
    fake *clients[65];
    for (int i = 0; i < 65; i++)
        clients[i] = client_open_with(temp_uri("clients"), small, NULL);
    CHECK_EQ_INT(clients[63]->ups, 1);
    CHECK_EQ_INT(clients[64]->ups, 0);
    CHECK_EQ_INT(clients[64]->down_code, DLOCK_EUNAVAIL);
    CHECK_CONTAINS(clients[64]->down_text, "file.slots");
    client_close(clients[10]);
    (void)clients[64]->backend->type->tick(clients[64]->backend, later());
    CHECK_EQ_INT(clients[64]->ups, 1);
    for (int i = 0; i < 65; i++)
        if (i != 10)
            client_close(clients[i]);
}

TEST(many_names_pass_through_a_small_table)
{
    fake *client = client_open_with(temp_uri("names"), small, NULL);
    for (int i = 0; i < 1000; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "n%d", i);
        dlk_key *key = client_key(client, name);
        CHECK_EQ_INT(acquire(client, key, (uint64_t)i + 1).reply, DLK_YES);
        CHECK_EQ_INT(
            client_ask(client, DLK_RELEASE, key, (uint64_t)i + 1, 0, dlk_clock_now())
                .reply,
            DLK_YES);
        client_key_close(client, key);
    }
    client_close(client);
}

TEST(doctor_tells_mode_and_how_full_the_table_is)
{
    static const char *const shared[] = {"file.mode=0666", NULL};
    fake *client = client_open_with(temp_uri("doctor"), shared, NULL);
    dlk_key *key = client_key(client, "n");
    (void)acquire(client, key, 1);
    dlock_info *info = client_info(client, DLK_DOCTOR, NULL, NULL, 0, dlk_clock_now());
    CHECK_STR(dlock_info_get(info, "verdict"), "1");
    CHECK_STR(dlock_info_get(info, "findings.0.id"), "mode");
    CHECK_CONTAINS(dlock_info_get(info, "findings.0.text"), "0666");
    CHECK_CONTAINS(dlock_info_get(info, "findings.1.text"), "1 of 1024");
    dlock_info_free(info);
    client_key_close(client, key);
    client_close(client);
}

/* Locks in a table of 1,024 places: how badly the doctor thinks of that. */
static void check_fullness(int locks, const char *severity)
{
    char file[16];
    dlk_key *keys[1024];
    snprintf(file, sizeof(file), "full-%d", locks);
    fake *client = client_open_with(temp_uri(file), NULL, NULL);
    for (int i = 0; i < locks; i++) {
        char name[16];
        snprintf(name, sizeof(name), "n%d", i);
        keys[i] = client_key(client, name);
        CHECK_EQ_INT(acquire(client, keys[i], (uint64_t)i + 1).reply, DLK_YES);
    }
    dlock_info *info = client_info(client, DLK_DOCTOR, NULL, NULL, 0, dlk_clock_now());
    CHECK_STR(dlock_info_get(info, "findings.1.id"), "locks");
    CHECK_STR(dlock_info_get(info, "findings.1.severity"), severity);
    dlock_info_free(info);
    for (int i = 0; i < locks; i++)
        client_key_close(client, keys[i]);
    client_close(client);
}

TEST(doctor_warns_when_nine_tenths_of_the_table_are_in_use)
{
    check_fullness(20, "0");
    check_fullness(900, "0");
    check_fullness(922, "1");
}

TEST(a_fork_s_child_neither_inherits_the_mapping_nor_keeps_the_file_in_use)
{
    fake *client = client_open_with(temp_uri("fork"), small, NULL);
    int fd = dlk_local_of(client->backend)->file.fd, pipes[2];
    CHECK_EQ_INT(pipe(pipes), 0);
    pid_t pid = fork();
    if (pid == 0) {
        char byte;
        _exit(read(pipes[0], &byte, 1) == 1 && fcntl(fd, F_GETFD) == -1 && errno == EBADF
                  ? 0
                  : 1);
    }
    dlk_key *key = client_key(client, "n");
    CHECK_EQ_INT(acquire(client, key, 1).reply, DLK_YES);
    client_key_close(client, key);
    client_close(client);
    CHECK_EQ_INT(write(pipes[1], "x", 1), 1);
    int status = -1;
    CHECK_EQ_INT(waitpid(pid, &status, 0), pid);
    CHECK_EQ_INT(status, 0);
    CHECK_EQ_INT(close(pipes[0]) + close(pipes[1]), 0);
}

/* The bell lies in the file: who else may write that can keep it silent. Hangs if nobody looks. */
TEST(who_sleeps_on_a_file_of_others_looks_again_by_itself_though_nobody_rings)
{
    static const char *const others[] = {"file.mode=0666", NULL};
    fake *client = client_open_with(temp_uri("silent"), others, NULL);
    client->backend->type->arm(client->backend, NULL);
    client->backend->type->sleep(client->backend, DLK_NEVER,
                                 dlk_kicks_seen(client->backend->host->kicks));
    client_close(client);
}
