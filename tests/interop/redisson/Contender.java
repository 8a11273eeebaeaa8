import java.io.FileOutputStream;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;

/** What one owner does with Redisson: a command in, the answer out. */
final class Contender {
    private static final long PATIENCE_MS = 120_000;

    private final String name;
    private final RedissonClient client;
    private final Deque<Hold> holds = new ArrayDeque<>();

    Contender(String name, RedissonClient client) {
        this.name = name;
        this.client = client;
    }

    /** Something to give back, and what the answer says about it. */
    private interface Hold {
        void release();

        default String text() {
            return "ok 0 -";
        }
    }

    /** Words of "take": what is wanted of whom, for how long, and how many. */
    private record Wish(String kind, String name, long leaseMs, long waitMs, int count) {
        static Wish of(String[] words) {
            long ttl = Long.parseLong(words[3]);
            return new Wish(words[1], words[2], ttl > 0 ? ttl : -1, Long.parseLong(words[4]),
                    words.length > 5 ? Integer.parseInt(words[5]) : 1);
        }
    }

    String obey(String[] words) throws Exception {
        switch (words[0]) {
            case "take":
                return take(Wish.of(words));
            case "release":
                holds.pop().release();
                return "ok";
            case "size":
                return size(words[1], words[2], Integer.parseInt(words[3]));
            case "drop":
                return client.getPermitExpirableSemaphore(words[2]).tryRelease(words[3]) ? "ok" : "no";
            case "contend":
                return contend(words[1].split(","), words[2], words[3], words[4],
                        Long.parseLong(words[5]));
            default:
                return "error no such command: " + words[0];
        }
    }

    private String size(String kind, String name, int permits) {
        boolean done = kind.equals("semaphore")
                ? client.getSemaphore(name).trySetPermits(permits)
                : client.getPermitExpirableSemaphore(name).trySetPermits(permits);
        return done ? "ok" : "no";
    }

    private String take(Wish wish) throws InterruptedException {
        Hold hold = ask(wish);
        if (hold == null) {
            return "no";
        }
        holds.push(hold);
        return hold.text();
    }

    /** A hold, or null. */
    private Hold ask(Wish wish) throws InterruptedException {
        switch (wish.kind) {
            case "fenced":
                return fenced(client.getFencedLock(wish.name), wish);
            case "semaphore":
                return semaphore(client.getSemaphore(wish.name), wish);
            case "permits":
                return permits(client.getPermitExpirableSemaphore(wish.name), wish);
            default:
                RLock lock = lock(wish.kind, wish.name);
                return lock.tryLock(wish.waitMs, wish.leaseMs, TimeUnit.MILLISECONDS)
                        ? lock::unlock
                        : null;
        }
    }

    private RLock lock(String kind, String name) {
        switch (kind) {
            case "mutex":
                return client.getLock(name);
            case "fair":
                return client.getFairLock(name);
            case "read":
                return client.getReadWriteLock(name).readLock();
            case "write":
                return client.getReadWriteLock(name).writeLock();
            case "spin":
                return client.getSpinLock(name);
            case "multi":
                return client.getMultiLock(client.getLock(name), client.getLock(name + ":2"));
            default:
                throw new IllegalArgumentException("no such kind: " + kind);
        }
    }

    private static Hold fenced(RFencedLock lock, Wish wish) {
        Long token = wish.leaseMs > 0
                ? lock.tryLockAndGetToken(wish.waitMs, wish.leaseMs, TimeUnit.MILLISECONDS)
                : lock.tryLockAndGetToken(wish.waitMs, TimeUnit.MILLISECONDS);
        return token == null ? null : new Hold() {
            @Override
            public void release() {
                lock.unlock();
            }

            @Override
            public String text() {
                return "ok " + token + " -";
            }
        };
    }

    private static Hold semaphore(RSemaphore semaphore, Wish wish) throws InterruptedException {
        return semaphore.tryAcquire(wish.count, wish.waitMs, TimeUnit.MILLISECONDS)
                ? () -> semaphore.release(wish.count)
                : null;
    }

    /** A permit has a lease of its own; there is no watchdog for it. */
    private static Hold permits(RPermitExpirableSemaphore semaphore, Wish wish)
            throws InterruptedException {
        List<String> ids = wish.count == 1
                ? single(semaphore.tryAcquire(wish.waitMs, wish.leaseMs, TimeUnit.MILLISECONDS))
                : semaphore.tryAcquire(wish.count, wish.waitMs, wish.leaseMs, TimeUnit.MILLISECONDS);
        return ids.isEmpty() ? null : new Hold() {
            @Override
            public void release() {
                if (semaphore.tryRelease(ids) != ids.size()) {
                    throw new IllegalStateException("not all of the permits were ours");
                }
            }

            @Override
            public String text() {
                return "ok 0 " + String.join(",", ids);
            }
        };
    }

    private static List<String> single(String id) {
        return id == null ? List.of() : List.of(id);
    }

    /** Takes the kinds in turn until the time is over, and at least once; notes each entry. */
    private String contend(String[] kinds, String lock, String ttl, String log, long ms)
            throws Exception {
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(ms);
        int rounds = 0;
        try (FileOutputStream notes = new FileOutputStream(log, true)) {
            do {
                String kind = kinds[rounds % kinds.length];
                note(notes, "? " + name + " " + kind + " 0");
                String[] take = {"take", kind, lock, ttl, String.valueOf(PATIENCE_MS)};
                String answer = take(Wish.of(take));
                if (answer.equals("no")) {
                    return "error waited in vain";
                }
                note(notes, "+ " + name + " " + kind + " " + answer.split(" ")[1]);
                Thread.sleep(ThreadLocalRandom.current().nextInt(3));
                note(notes, "- " + name + " " + kind + " 0");
                holds.pop().release();
                Thread.sleep(ThreadLocalRandom.current().nextInt(3));
                rounds++;
            } while (System.nanoTime() < end);
        }
        return "ok " + rounds;
    }

    /** One write to a file opened for appending: the lines of all contenders have one order. */
    private static void note(FileOutputStream notes, String line) throws Exception {
        notes.write((line + " " + System.currentTimeMillis() + "\n").getBytes());
    }
}
