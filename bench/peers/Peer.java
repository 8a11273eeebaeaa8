import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.Locale;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;

/**
 * A library of Java's that bench/run measures libdlock beside, as far as all of them are the same;
 * see bench/peers.py for what is said.
 */
abstract class Peer {
    private final Page page;
    private final int base;
    private final BufferedReader in = new BufferedReader(new InputStreamReader(System.in));

    /** Of what the program was told, PORT LIBRARY PAGE TTL_MS BASE. */
    Peer(String[] args) throws Exception {
        this.page = new Page(Path.of(args[2]));
        this.base = Integer.parseInt(args[4]);
    }

    /** A lock, used by one thread. */
    interface Mutex {
        void lock() throws Exception;

        void unlock() throws Exception;
    }

    abstract Mutex mutex(String name);

    /** Takes so many locks, waits for its cue, and returns how many of them were lost. */
    int held(int count) throws Exception {
        throw new UnsupportedOperationException("held");
    }

    /** The page on which every critical section leaves a mark, as bench.h has it. */
    private static final class Page {
        private static final int SPOT = 64, SPOTS = 1024, LAST = 8, ENTRIES = 16, OVERLAPS = 24;
        private static final VarHandle WORDS = MethodHandles.byteBufferViewVarHandle(
                long[].class, ByteOrder.nativeOrder());
        private final ByteBuffer memory;

        Page(Path path) throws Exception {
            try (FileChannel file = FileChannel.open(
                    path, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
                memory = file.map(FileChannel.MapMode.READ_WRITE, 0, SPOT * SPOTS)
                        .order(ByteOrder.nativeOrder());
            }
        }

        /** Says whether the holder before was somebody else. */
        boolean enter(int spot, long who) {
            int at = spot * SPOT;
            if ((long) WORDS.getAndSet(memory, at, who) != 0) {
                WORDS.getAndAdd(memory, at + OVERLAPS, 1L);
            }
            long last = memory.getLong(at + LAST);
            memory.putLong(at + LAST, who);
            memory.putLong(at + ENTRIES, memory.getLong(at + ENTRIES) + 1);
            return last != who;
        }

        void exit(int spot) {
            WORDS.setVolatile(memory, spot * SPOT, 0L);
        }
    }

    private enum Phase { STARTING, WARMING, MEASURED, OVER }

    /** So many workers that take and release: each a name of its own, or all the same one. */
    private final class Race {
        private final boolean oneName;
        private final long holdMs;
        private final Worker[] workers;
        private final CountDownLatch ready, began = new CountDownLatch(1);
        private volatile Phase phase = Phase.STARTING;

        private final class Worker extends Thread {
            private final int number;
            private final AtomicLong done = new AtomicLong(), changes = new AtomicLong();
            private double[] waits = new double[1024];
            private int waitCount;

            Worker(int number) {
                this.number = number;
            }

            private void took(double us, boolean changed) {
                if (phase != Phase.WARMING) {
                    if (waitCount == waits.length) {
                        waits = Arrays.copyOf(waits, 2 * waitCount);
                    }
                    waits[waitCount++] = us;
                }
                if (changed) {
                    changes.incrementAndGet();
                }
            }

            private void turn(Mutex lock, int spot) throws Exception {
                long from = System.nanoTime();
                lock.lock();
                boolean changed = page.enter(spot, base + number + 1);
                if (oneName) {
                    took((System.nanoTime() - from) / 1e3, changed);
                    if (holdMs > 0) {
                        Thread.sleep(holdMs);
                    }
                }
                page.exit(spot);
                lock.unlock();
                done.incrementAndGet();
            }

            @Override
            public void run() {
                Mutex lock = mutex(oneName ? "bench/0" : "peer/" + number);
                try {
                    if (!oneName) {
                        lock.lock(); // so that the connection is there
                        lock.unlock();
                    }
                    ready.countDown();
                    began.await();
                    while (phase != Phase.OVER) {
                        turn(lock, oneName ? 0 : number);
                    }
                } catch (Throwable why) {
                    fail(why);
                }
            }
        }

        Race(int threads, boolean oneName, long holdMs) throws InterruptedException {
            this.oneName = oneName;
            this.holdMs = holdMs;
            this.ready = new CountDownLatch(threads);
            this.workers = new Worker[threads];
            for (int i = 0; i < threads; i++) {
                workers[i] = new Worker(i);
                workers[i].start();
            }
            ready.await();
        }

        private long[] done() {
            return Arrays.stream(workers).mapToLong(worker -> worker.done.get()).toArray();
        }

        private long changes() {
            return Arrays.stream(workers).mapToLong(worker -> worker.changes.get()).sum();
        }

        String run(double secs) throws InterruptedException {
            phase = Phase.WARMING;
            began.countDown();
            Thread.sleep((long) (secs * 100));
            phase = Phase.MEASURED;
            long[] before = done();
            long changesBefore = changes(), from = System.nanoTime();
            Thread.sleep((long) (secs * 1000));
            long[] each = done();
            long changes = changes() - changesBefore;
            double took = (System.nanoTime() - from) / 1e9;
            phase = Phase.OVER;
            for (Worker worker : workers) {
                worker.join();
            }
            for (int i = 0; i < each.length; i++) {
                each[i] -= before[i];
            }
            return result(each, changes, took);
        }

        private String result(long[] each, long changes, double secs) {
            long grants = Arrays.stream(each).sum(), all = Arrays.stream(done()).sum();
            long done = oneName ? changes : grants;
            double[] waits = Arrays.stream(workers)
                    .flatMapToDouble(worker -> Arrays.stream(worker.waits, 0, worker.waitCount))
                    .sorted().toArray();
            return String.format(Locale.ROOT, "{\"rate\": %.1f, \"secs\": %.3f, \"done\": %d, "
                    + "\"total\": %d, \"grants\": %d, \"grants_rate\": %.1f, \"changes\": %d, "
                    + "\"least\": %d, \"most\": %d, \"p50_us\": %.1f, \"p99_us\": %.1f, "
                    + "\"max_us\": %.1f}",
                    done / secs, secs, done, oneName ? changes() : all, all, grants / secs,
                    changes, Arrays.stream(each).min().getAsLong(),
                    Arrays.stream(each).max().getAsLong(), at(waits, 0.5), at(waits, 0.99),
                    at(waits, 1));
        }

        private double at(double[] sorted, double part) {
            return sorted.length == 0 ? 0 : sorted[(int) (part * (sorted.length - 1))];
        }
    }

    static void fail(Throwable why) {
        why.printStackTrace();
        System.exit(1);
    }

    /** Says "ready" and waits for a line. */
    void awaitCue() throws Exception {
        System.out.println("ready");
        if (in.readLine() == null) {
            System.exit(0);
        }
    }

    private String obey(String[] words) throws Exception {
        if (words[0].equals("held")) {
            int count = Integer.parseInt(words[1]);
            return "{\"held\": " + count + ", \"lost\": " + held(count) + "}";
        }
        boolean oneName = words[0].equals("one-name");
        Race race = new Race(Integer.parseInt(words[1]), oneName,
                oneName ? Long.parseLong(words[3]) : 0);
        awaitCue();
        return race.run(Double.parseDouble(words[2]));
    }

    /** Does what it is told until the input ends. */
    final void obey() throws Exception {
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            System.out.println(obey(line.split(" ")));
        }
        System.exit(0);
    }
}
