// A stranger's C++17 program: the same walk as consumer.c, with the library's objects in
// unique_ptr, a rival thread on the same lock, and the loss noticed by asking. Usage: consumer
// URI NAME; see consumer.c for who takes the lock away.
#include <dlock/dlock.h>

#include <chrono>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

namespace
{
template <auto Free> struct freed {
    template <typename T> void operator()(T *object) const
    {
        Free(object);
    }
};
using error_ptr = std::unique_ptr<dlock_error, freed<dlock_error_free>>;
using conf_ptr = std::unique_ptr<dlock_conf, freed<dlock_conf_free>>;
using client_ptr = std::unique_ptr<dlock_client, freed<dlock_client_free>>;
using lock_ptr = std::unique_ptr<dlock_lock, freed<dlock_lock_free>>;
using hold_ptr = std::unique_ptr<dlock_hold, freed<dlock_hold_free>>;

void expect(const char *what, dlock_err got, dlock_err want, dlock_error *err = nullptr)
{
    error_ptr owned(err);
    std::cout << what << ": " << dlock_errname(got) << std::endl;
    if (got != want)
        throw std::runtime_error(std::string(what) + ": not " + dlock_errname(want) +
                                 " " + (err != nullptr ? dlock_error_text(err) : ""));
}

client_ptr open(const std::string &uri)
{
    dlock_error *err = nullptr;
    dlock_client *client = nullptr;
    conf_ptr conf(dlock_conf_new());
    expect("conf", dlock_conf_set(conf.get(), "lock.ttl_ms", "3000", nullptr), DLOCK_OK);
    expect("open", dlock_client_open(uri.c_str(), conf.get(), &client, &err), DLOCK_OK,
           err);
    return client_ptr(client);
}

hold_ptr take(dlock_lock *lock, int64_t wait_ms, dlock_err want)
{
    dlock_error *err = nullptr;
    dlock_hold *hold = nullptr;
    dlock_err got = dlock_lock_acquire(lock, wait_ms, &hold, &err);
    hold_ptr owned(hold);
    expect("take", got, want, err);
    return owned;
}

void take_away(const std::string &uri, const std::string &name)
{
    if (uri.compare(0, 4, "mem:") != 0) {
        std::string line;
        std::cout << "held" << std::endl;
        if (!std::getline(std::cin, line))
            throw std::runtime_error("nobody took the lock away");
        return;
    }
    client_ptr breaker = open(uri);
    dlock_error *err = nullptr;
    dlock_lock *lock = nullptr;
    expect("lock",
           dlock_lock_new(breaker.get(), DLOCK_MUTEX, name.c_str(), nullptr, &lock, &err),
           DLOCK_OK, err);
    lock_ptr owned(lock);
    expect("break", dlock_lock_break(lock, nullptr, &err), DLOCK_OK, err);
}

void walk(const std::string &uri, const std::string &name)
{
    client_ptr client = open(uri);
    dlock_error *err = nullptr;
    dlock_lock *made = nullptr;
    expect("lock",
           dlock_lock_new(client.get(), DLOCK_MUTEX, name.c_str(), nullptr, &made, &err),
           DLOCK_OK, err);
    lock_ptr lock(made);
    hold_ptr hold = take(lock.get(), 5000, DLOCK_OK);
    hold_ptr again = take(lock.get(), DLOCK_FOREVER, DLOCK_OK);
    if (dlock_hold_token(hold.get()) <= 0 ||
        dlock_hold_token(again.get()) != dlock_hold_token(hold.get()))
        throw std::runtime_error("the holds of one grant have one token, above 0");

    // The client is the same, but a thread is an owner of its own.
    std::string rival_says;
    std::thread([&] {
        try {
            take(lock.get(), 300, DLOCK_ETIMEDOUT);
        } catch (const std::exception &why) {
            rival_says = why.what();
        }
    }).join();
    if (!rival_says.empty())
        throw std::runtime_error("rival thread: " + rival_says);

    expect("give one back", dlock_hold_release(again.get(), nullptr), DLOCK_OK);
    take_away(uri, name);
    auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (dlock_hold_check(hold.get()) == DLOCK_OK &&
           std::chrono::steady_clock::now() < limit)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    expect("lost", dlock_hold_check(hold.get()), DLOCK_ELOST);
    expect("release", dlock_hold_release(hold.get(), nullptr), DLOCK_ELOST);
}
} // namespace

int main(int argc, char **argv)
{
    if (argc != 3)
        return 64;
    try {
        walk(argv[1], argv[2]);
    } catch (const std::exception &why) {
        std::cout << why.what() << std::endl;
        return 1;
    }
    return 0;
}
