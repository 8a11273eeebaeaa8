/* Read/write locks in Redisson's layout, and others: who is told what, other kinds on the name,
 * rights that are missing, and those who look, list and break. */
#include "rw.h"

#include "util/info.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- who is told ---- */

/* A subscriber of its own, which keeps what was said in order. */
static int listen_to(const char *channel)
{
    char text[160], answer[160];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)server.port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int size = snprintf(text, sizeof(text), "SUBSCRIBE %s\r\n", channel);
    bool fine = connect(fd, (struct sockaddr *)&at, sizeof(at)) == 0 &&
                write(fd, text, (size_t)size) == size &&
                read(fd, answer, sizeof(answer)) > 0;
    (void)harness_check(__FILE__, __LINE__, fine, "subscribed");
    return fd;
}

/* The payloads that have come, as one text. All that was published before this is called is
 * there: the mark at the end was published after it. */
static const char *heard(int fd, const char *channel)
{
    static char text[4096], payloads[64];
    size_t size = 0, count = 0;
    redis_server_call(&server, "PUBLISH %s .", channel);
    memset(text, 0, sizeof(text));
    while (!strstr(text, "$1\r\n.\r\n") && size < sizeof(text) - 1) {
        ssize_t more = read(fd, text + size, sizeof(text) - 1 - size);
        if (more <= 0)
            break;
        size += (size_t)more;
    }
    for (const char *at = text; (at = strstr(at, "\r\n$1\r\n")) && count < 60; at++)
        payloads[count++] = at[6];
    payloads[count] = '\0';
    return payloads;
}

TEST(those_who_wait_are_told_when_the_lock_is_free_or_turns_and_only_then)
{
    if (!set_up())
        return;
    int fd = listen_to(CHANNEL);
    CHECK_EQ_INT(WRITE(1), DLK_YES);
    CHECK_EQ_INT(RENEW(WRITE_SIDE, 1), DLK_YES);
    CHECK_STR(heard(fd, CHANNEL), ".");
    CHECK_EQ_INT(RENEW(READ_SIDE, 1), DLK_YES); /* all may come who read */
    CHECK_STR(heard(fd, CHANNEL), "1.");
    CHECK_EQ_INT(READ(2), DLK_YES);
    CHECK_EQ_INT(RENEW(READ_SIDE, 1), DLK_YES);
    CHECK_EQ_INT(READ_END(1), DLK_YES);
    CHECK_STR(heard(fd, CHANNEL), "."); /* another one reads */
    CHECK_EQ_INT(READ_END(2), DLK_YES); /* only writers can wait: one will do */
    CHECK_EQ_INT(READ_END(2), DLK_NOT_OURS);
    CHECK_STR(heard(fd, CHANNEL), "0.");
    CHECK_EQ_INT(WRITE(3), DLK_YES);
    CHECK_EQ_INT(WRITE_END(3), DLK_YES);
    CHECK_EQ_INT(WRITE_END(3), DLK_NOT_OURS);
    CHECK_STR(heard(fd, CHANNEL), "1.");
    CHECK_EQ_INT(WRITE(4), DLK_YES); /* released before its turn was confirmed */
    CHECK_EQ_INT(READ_END(4), DLK_YES);
    CHECK_STR(heard(fd, CHANNEL), "1.");
    CHECK_EQ_INT(READ(5), DLK_YES);
    CHECK_EQ_INT(BREAK(NULL), DLK_YES);
    CHECK_STR(heard(fd, CHANNEL), "1.");
    close(fd);
    single_tear_down();
}

TEST(a_client_that_waits_hears_of_it_on_redissons_channel)
{
    if (!set_up())
        return;
    CHECK_EQ_INT(WRITE(1), DLK_YES);
    world_watch(&w, key, true);
    ROUNDS_UNTIL(&w, w.notices == 1); /* subscribed */
    CHECK_STR(redis_server_call(&server, "PUBSUB NUMSUB " CHANNEL), CHANNEL " 1");
    CHECK_EQ_INT(RENEW(READ_SIDE, 1), DLK_YES);
    ROUNDS_UNTIL(&w, w.notices == 2);
    CHECK_EQ_INT(READ_END(1), DLK_YES);
    ROUNDS_UNTIL(&w, w.notices == 3);
    world_watch(&w, key, false);
    single_tear_down();
}

/* ---- other kinds, and other people's data ---- */

TEST(a_plain_lock_and_a_read_write_lock_refuse_each_other)
{
    if (!set_up())
        return;
    dlk_key *plain = world_key(&w, "L");
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, plain, 1, NULL), DLK_YES);
    CHECK_EQ_INT(WRITE(2), DLK_REFUSED);
    CHECK_EQ_INT(w.code, DLOCK_ECONFLICT);
    CHECK_EQ_INT(READ(3), DLK_REFUSED);
    CHECK_EQ_INT(w.code, DLOCK_ECONFLICT);
    CHECK_EQ_INT(BREAK(NULL), DLK_REFUSED);
    CHECK_EQ_INT(w.code, DLOCK_ECONFLICT);
    CHECK_EQ_INT(world_do(&w, DLK_RELEASE, plain, 1, NULL), DLK_YES);
    for (int side = WRITE_SIDE; side <= READ_SIDE; side++) {
        CHECK_EQ_INT(ask_of(DLK_ACQUIRE, side, 4, NULL), DLK_YES);
        CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, plain, 5, NULL), DLK_REFUSED);
        CHECK_EQ_INT(w.code, DLOCK_ECONFLICT);
        CHECK_EQ_INT(world_do(&w, DLK_BREAK, plain, 5, NULL), DLK_REFUSED);
        CHECK_EQ_INT(w.code, DLOCK_ECONFLICT);
        CHECK_EQ_INT(ask_of(DLK_RELEASE, side, 4, NULL), DLK_YES);
    }
    world_forget(&w, plain);
    single_tear_down();
}

TEST(what_is_no_lock_of_this_kind_is_a_conflict_and_stays_as_it_is)
{
    static const char *const others[] = {
        "SET L value",
        "HSET L colour blue",
        "HSET L mode blue",
        "RPUSH L mode read",
    };
    if (!set_up())
        return;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        redis_server_call(&server, "DEL L");
        redis_server_call(&server, "%s", others[i]);
        static const dlk_verb refused[] = {DLK_ACQUIRE, DLK_BREAK};
        static const dlk_verb ours[] = {DLK_RENEW, DLK_RELEASE, DLK_VERIFY};
        for (int side = WRITE_SIDE; side <= READ_SIDE; side++) {
            for (int verb = 0; verb < 2; verb++) {
                CHECK_EQ_INT(ask_of(refused[verb], side, 1, NULL), DLK_REFUSED);
                CHECK_EQ_INT(w.code, DLOCK_ECONFLICT);
            }
            for (int verb = 0; verb < 3; verb++)
                CHECK_EQ_INT(ask_of(ours[verb], side, 1, NULL), DLK_NOT_OURS);
        }
        CHECK_EQ_INT(number_of("PTTL L"), -1);
        CHECK_EQ_INT(number_of("DBSIZE"), 1);
    }
    single_tear_down();
}

TEST(a_counter_that_is_none_is_refused_and_leaves_no_lock)
{
    if (!set_up())
        return;
    for (int i = 0; i < poison_count; i++) {
        for (int side = WRITE_SIDE; side <= READ_SIDE; side++) {
            redis_server_call(&server, "FLUSHALL");
            redis_server_call(&server, "%s", poisons[i].command);
            CHECK_EQ_INT(ask_of(DLK_ACQUIRE, side, 1, NULL), DLK_REFUSED);
            CHECK_EQ_INT(w.code, poisons[i].code);
            CHECK_EQ_INT(number_of("DBSIZE"), 1);
        }
    }
    single_tear_down();
}

TEST(a_right_that_only_the_release_needs_is_missed_before_there_is_a_lock)
{
    if (!set_up())
        return;
    CHECK_EQ_INT(READ(9), DLK_YES);
    redis_server_call(&server, "ACL SETUSER default -hgetall");
    CHECK_EQ_INT(READ(1), DLK_REFUSED); /* beside another reader */
    CHECK_EQ_INT(w.code, DLOCK_EACCES);
    CHECK_EQ_INT(number_of("HLEN L"), 2);
    redis_server_call(&server, "DEL L");
    for (int side = WRITE_SIDE; side <= READ_SIDE; side++) {
        CHECK_EQ_INT(ask_of(DLK_ACQUIRE, side, 1, NULL), DLK_REFUSED);
        CHECK_EQ_INT(w.code, DLOCK_EACCES);
        CHECK_EQ_INT(number_of("EXISTS L"), 0);
    }
    single_tear_down();
}

TEST(the_rights_that_the_docs_name_suffice)
{
    static const dlk_verb verbs[] = {DLK_ACQUIRE, DLK_ACQUIRE, DLK_VERIFY,
                                     DLK_RENEW,   DLK_INSPECT, DLK_RELEASE};
    char uri[80];
    if (!redis_server_available() || !redis_server_start(&server, NULL))
        return;
    redis_server_call(
        &server, "ACL SETUSER locks on >secret resetkeys ~app:* "
                 "~redisson_lock_token:{app:* ~dlock_queue:{app:* ~{app:* resetchannels "
                 "&redisson_lock__channel:{app:* &redisson_rwlock:{app:* &dlock_client:* "
                 "-@all +eval +evalsha +script|load +subscribe +unsubscribe +time +get "
                 "+set +hset +hget +hexists +hdel +pexpire +pttl +del +publish +exists "
                 "+lpop +lpos +lrem +rpush +hgetall");
    snprintf(uri, sizeof(uri),
             "redis://locks:secret@127.0.0.1:%d?client.prefix=app:", server.port);
    CHECK(world_connect(&w, uri, NULL));
    key = world_key_of(&w, DLOCK_WRITE, "app:L");
    ttl_ms = 20000;
    for (int side = WRITE_SIDE; side <= READ_SIDE; side++)
        for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
            CHECK_EQ_INT(ask_of(verbs[i], side, 1, NULL), DLK_YES);
    CHECK_EQ_INT(READ(2), DLK_YES);
    CHECK_EQ_INT(READ(3), DLK_YES);
    CHECK_EQ_INT(READ_END(2), DLK_YES);
    CHECK_EQ_INT(BREAK(NULL), DLK_YES);
    CHECK_STR(w.log, "");
    single_tear_down();
}

TEST(a_lock_that_could_not_get_an_end_is_not_taken)
{
    if (!set_up())
        return;
    CHECK_EQ_INT(READ(9), DLK_YES);
    redis_server_call(&server, "ACL SETUSER default -pexpire");
    CHECK_EQ_INT(READ(1), DLK_REFUSED);
    CHECK_EQ_INT(w.code, DLOCK_EACCES);
    CHECK(!has_field(1, ""));
    CHECK(has_field(9, ""));
    CHECK_EQ_INT(own_left(1), -2);
    redis_server_call(&server, "DEL L %s", own_key(9));
    for (int side = WRITE_SIDE; side <= READ_SIDE; side++) {
        CHECK_EQ_INT(ask_of(DLK_ACQUIRE, side, 1, NULL), DLK_REFUSED);
        CHECK_STR(redis_server_call(&server, "KEYS *"), TOKEN_KEY);
    }
    single_tear_down();
}

/* ---- looking, and breaking ---- */

static dlock_info *look(dlk_key *at)
{
    dlk_ask ask = world_make(&w, DLK_INSPECT, at, 0);
    world_ask(&w, &ask);
    (void)harness_eq_int(__FILE__, __LINE__, "inspect", world_await(&w, &ask), DLK_YES);
    return ask.info;
}

static int64_t seen(const dlock_info *info, const char *what)
{
    const char *text = dlock_info_get(info, what);
    return text ? atoll(text) : -1;
}

TEST(inspect_shows_each_holder_with_its_own_token_and_lease)
{
    if (!set_up())
        return;
    char owner[64];
    CHECK_EQ_INT(WRITE(1), DLK_YES);
    dlock_info *info = look(key);
    snprintf(owner, sizeof(owner), "%s:1", w.uuid);
    CHECK_STR(dlock_info_get(info, "kind"), "write");
    CHECK_STR(dlock_info_get(info, "holders.0.owner"), owner);
    CHECK_EQ_INT(seen(info, "holders.0.token"), last_token);
    CHECK_EQ_INT(seen(info, "holders.0.count"), 1);
    CHECK(seen(info, "holders.0.remaining_ms") > 10000);
    CHECK(!dlock_info_get(info, "holders.1.owner"));
    dlock_info_free(info);
    CHECK_EQ_INT(WRITE_END(1), DLK_YES);

    ttl_ms = 60000;
    CHECK_EQ_INT(READ(2), DLK_YES);
    int64_t token = last_token;
    ttl_ms = 20000;
    CHECK_EQ_INT(READ(3), DLK_YES);
    foreign_reader("java:4", 5000);
    dlk_key *plain = world_key(&w, "L");
    for (int i = 0; i < 2; i++) { /* whoever asks */
        info = look(i ? plain : key);
        CHECK_STR(dlock_info_get(info, "held"), "1");
        CHECK_STR(dlock_info_get(info, "kind"), "read");
        CHECK_EQ_INT(seen(info, "holders.0.token"), token);
        CHECK(seen(info, "holders.0.remaining_ms") > 50000);
        CHECK_EQ_INT(seen(info, "holders.1.token"), last_token);
        CHECK(seen(info, "holders.1.remaining_ms") <= 20000);
        CHECK_STR(dlock_info_get(info, "holders.2.owner"), "java:4");
        CHECK(!dlock_info_get(info, "holders.2.token")); /* Redisson's have none */
        CHECK(seen(info, "holders.2.remaining_ms") <= 5000);
        CHECK(!dlock_info_get(info, "holders.3.owner"));
        dlock_info_free(info);
    }
    world_forget(&w, plain);
    single_tear_down();
}

TEST(break_takes_it_from_all_or_from_the_one_that_was_named)
{
    if (!set_up())
        return;
    char owner[64];
    CHECK_EQ_INT(BREAK(NULL), DLK_NOT_OURS);
    CHECK_EQ_INT(READ(1), DLK_YES);
    CHECK_EQ_INT(READ(2), DLK_YES);
    CHECK_EQ_INT(BREAK("nobody:1"), DLK_NOT_OURS);
    snprintf(owner, sizeof(owner), "%s:1", w.uuid);
    CHECK_EQ_INT(BREAK(owner), DLK_YES);
    CHECK_EQ_INT(own_left(1), -2);
    CHECK_EQ_INT(RENEW(READ_SIDE, 1), DLK_NOT_OURS);
    CHECK_EQ_INT(RENEW(READ_SIDE, 2), DLK_YES);
    CHECK_EQ_INT(READ(3), DLK_YES);
    CHECK_EQ_INT(BREAK(NULL), DLK_YES);
    CHECK_STR(redis_server_call(&server, "KEYS *"), TOKEN_KEY);
    int64_t before = last_token;
    CHECK_EQ_INT(WRITE(4), DLK_YES);
    CHECK(last_token > before);
    snprintf(owner, sizeof(owner), "%s:4", w.uuid); /* as inspect shows it */
    CHECK_EQ_INT(BREAK(owner), DLK_YES);
    CHECK_EQ_INT(WRITE(5), DLK_YES);
    snprintf(owner, sizeof(owner), "%s:5:write", w.uuid); /* as it lies there */
    CHECK_EQ_INT(BREAK(owner), DLK_YES);
    CHECK_STR(redis_server_call(&server, "KEYS *"), TOKEN_KEY);
    single_tear_down();
}

TEST(a_list_shows_read_write_locks_once_each)
{
    if (!set_up())
        return;
    char owner[64];
    snprintf(owner, sizeof(owner), "%s:1", w.uuid);
    CHECK_EQ_INT(READ(1), DLK_YES);
    CHECK_EQ_INT(READ(2), DLK_YES);
    redis_server_call(&server, "HSET M mode write somebody:3:write 1");
    redis_server_call(&server, "HSET data mode fast x:1 1"); /* no locks … */
    redis_server_call(&server, "HSET data2 mode read colour blue");
    redis_server_call(&server, "HSET data3 mode read");
    dlk_ask ask = world_make(&w, DLK_LIST, NULL, 0);
    ask.text = "";
    world_ask(&w, &ask);
    CHECK_EQ_INT(world_await(&w, &ask), DLK_YES);
    CHECK_STR(dlock_info_get(ask.info, "locks.0.name"), "L");
    CHECK_STR(dlock_info_get(ask.info, "locks.0.owner"), owner);
    CHECK_STR(dlock_info_get(ask.info, "locks.1.name"), "M");
    CHECK_STR(dlock_info_get(ask.info, "locks.1.owner"), "somebody:3");
    CHECK(!dlock_info_get(ask.info, "locks.2.name"));
    dlock_info_free(ask.info);
    single_tear_down();
}
