import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** <pre>RedissonPeer PORT redisson PAGE TTL_MS BASE</pre> */
public final class RedissonPeer extends Peer {
    private static final int TAKERS = 16;

    private final RedissonClient client;

    private RedissonPeer(String[] args) throws Exception {
        super(args);
        Config config = new Config();
        config.setLockWatchdogTimeout(Integer.parseInt(args[3]));
        config.useSingleServer().setAddress("redis://127.0.0.1:" + args[0]);
        this.client = Redisson.create(config);
    }

    @Override
    Mutex mutex(String name) {
        RLock lock = client.getLock(name);
        return new Mutex() {
            @Override
            public void lock() {
                lock.lock();
            }

            @Override
            public void unlock() {
                lock.unlock();
            }
        };
    }

    /** Takes so many locks by a few threads, and has these count at the end what they lost. */
    @Override
    int held(int count) throws Exception {
        CountDownLatch taken = new CountDownLatch(TAKERS), over = new CountDownLatch(1);
        AtomicInteger lost = new AtomicInteger();
        Thread[] takers = new Thread[TAKERS];
        for (int first = 0; first < TAKERS; first++) {
            int from = first;
            takers[first] = new Thread(() -> {
                try {
                    for (int i = from; i < count; i += TAKERS) {
                        client.getLock("held/" + i).lock();
                    }
                    taken.countDown();
                    over.await();
                    for (int i = from; i < count; i += TAKERS) {
                        if (!client.getLock("held/" + i).isHeldByCurrentThread()) {
                            lost.incrementAndGet();
                        }
                    }
                } catch (Throwable why) {
                    fail(why);
                }
            });
            takers[first].start();
        }
        taken.await();
        awaitCue();
        over.countDown();
        for (Thread taker : takers) {
            taker.join();
        }
        return lost.get();
    }

    public static void main(String[] args) throws Exception {
        new RedissonPeer(args).obey();
    }
}
