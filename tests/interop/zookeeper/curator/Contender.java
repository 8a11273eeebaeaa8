import java.io.FileOutputStream;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.Paths;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.zookeeper.data.Stat;

/** What one owner does with Curator: a command in, the answer out. */
final class Contender {
    private static final long PATIENCE_MS = 120_000;

    private final String name;
    private final CuratorFramework client;
    private final Deque<Hold> holds = new ArrayDeque<>();
    private final Map<String, InterProcessReadWriteLock> pairs = new HashMap<>();
    private volatile String revoked = "no";

    Contender(String name, CuratorFramework client) {
        this.name = name;
        this.client = client;
    }

    /** Something to give back. */
    private interface Release {
        void run() throws Exception;
    }

    /** With its token, 0 where there is none, and its node. */
    private record Hold(Release release, long token, String node) {
        String text() {
            return "ok " + token + " " + (node == null ? "-" : node);
        }
    }

    String obey(String[] words) throws Exception {
        switch (words[0]) {
            case "take":
                return take(words[1], words[2], Long.parseLong(words[4]));
            case "release":
                holds.pop().release().run();
                return "ok";
            case "who":
                return who(words[2]);
            case "revoke":
                Revoker.attemptRevoke(client, words[2]);
                return "ok";
            case "revoked":
                return "ok " + revoked;
            case "contend":
                return contend(words[1].split(","), words[2], words[4], Long.parseLong(words[5]));
            default:
                return "error no such command: " + words[0];
        }
    }

    /** The nodes in the line, in its order. */
    private String who(String path) throws Exception {
        InterProcessMutex mutex = new InterProcessMutex(client, path);
        return "ok " + String.join(" ", mutex.getParticipantNodes());
    }

    private String take(String kind, String path, long waitMs) throws Exception {
        Hold hold = ask(kind, path, waitMs);
        if (hold == null) {
            return "no";
        }
        holds.push(hold);
        return hold.text();
    }

    /** A hold, or null. A kind may have a number behind it. */
    private Hold ask(String kind, String path, long waitMs) throws Exception {
        String[] parts = kind.split(":");
        int size = parts.length > 1 ? Integer.parseInt(parts[1]) : 1;
        switch (parts[0]) {
            case "mutex":
                return mutex(new InterProcessMutex(client, path), waitMs);
            case "revocable":
                return revocable(path, waitMs);
            case "read":
                return mutex(pair(path).readLock(), waitMs);
            case "write":
                return mutex(pair(path).writeLock(), waitMs);
            case "multi":
                return plain(new InterProcessMultiLock(client, List.of(path, path + ":2")), waitMs);
            case "semaphore-mutex":
                return plain(new InterProcessSemaphoreMutex(client, path), waitMs);
            case "semaphore":
                return semaphore(new InterProcessSemaphoreV2(client, path, size), waitMs);
            case "latch":
                return latch(path, waitMs);
            case "selector":
                return selector(path, waitMs);
            default:
                throw new IllegalArgumentException("no such kind: " + kind);
        }
    }

    /** A thread re-enters through the object through which it came. */
    private InterProcessReadWriteLock pair(String path) {
        return pairs.computeIfAbsent(path, any -> new InterProcessReadWriteLock(client, path));
    }

    private Hold mutex(InterProcessMutex mutex, long waitMs) throws Exception {
        if (!mutex.acquire(waitMs, TimeUnit.MILLISECONDS)) {
            return null;
        }
        String node = Paths.of(mutex);
        return new Hold(mutex::release, created(node), node);
    }

    private Hold revocable(String path, long waitMs) throws Exception {
        InterProcessMutex mutex = new InterProcessMutex(client, path);
        revoked = "no";
        mutex.makeRevocable(which -> revoked = "yes");
        return mutex(mutex, waitMs);
    }

    private static Hold plain(InterProcessLock lock, long waitMs) throws Exception {
        return lock.acquire(waitMs, TimeUnit.MILLISECONDS) ? new Hold(lock::release, 0, null) : null;
    }

    private static Hold semaphore(InterProcessSemaphoreV2 semaphore, long waitMs) throws Exception {
        Lease lease = semaphore.acquire(waitMs, TimeUnit.MILLISECONDS);
        return lease == null ? null : new Hold(lease::close, 0, lease.getNodeName());
    }

    private Hold latch(String path, long waitMs) throws Exception {
        LeaderLatch latch = new LeaderLatch(client, path, name);
        latch.start();
        if (!latch.await(waitMs, TimeUnit.MILLISECONDS)) {
            latch.close();
            return null;
        }
        return new Hold(latch::close, created(latch.getOurPath()), latch.getOurPath());
    }

    private Hold selector(String path, long waitMs) throws Exception {
        CountDownLatch taken = new CountDownLatch(1), done = new CountDownLatch(1);
        CountDownLatch given = new CountDownLatch(1);
        LeaderSelector selector = new LeaderSelector(client, path, new LeaderSelectorListenerAdapter() {
            @Override
            public void takeLeadership(CuratorFramework any) throws Exception {
                taken.countDown();
                try {
                    done.await();
                } finally {
                    given.countDown();
                }
            }
        });
        selector.setId(name);
        selector.start();
        if (!taken.await(waitMs, TimeUnit.MILLISECONDS)) {
            selector.close();
            return null;
        }
        return new Hold(() -> {
            done.countDown();
            given.await();
            while (selector.hasLeadership()) {
                Thread.sleep(1);
            }
            selector.close();
        }, 0, null);
    }

    /** When the node was created, in the server's transactions: a token that rises. */
    private long created(String node) throws Exception {
        Stat stat = client.checkExists().forPath(node);
        if (stat == null) {
            throw new IllegalStateException("the own node is gone: " + node);
        }
        return stat.getCzxid();
    }

    /** Takes the kinds in turn until the time is over, and at least once; notes each entry. */
    private String contend(String[] kinds, String path, String log, long ms) throws Exception {
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(ms);
        int rounds = 0;
        try (FileOutputStream notes = new FileOutputStream(log, true)) {
            do {
                String kind = kinds[rounds % kinds.length];
                note(notes, "? " + name + " " + kind + " 0");
                Hold hold = ask(kind, path, PATIENCE_MS);
                if (hold == null) {
                    return "error waited in vain";
                }
                note(notes, "+ " + name + " " + kind + " " + hold.token());
                Thread.sleep(ThreadLocalRandom.current().nextInt(3));
                note(notes, "- " + name + " " + kind + " 0");
                hold.release().run();
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
