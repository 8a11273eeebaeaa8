import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryForever;

/** One session for all threads: <pre>CuratorPeer PORT curator PAGE TTL_MS BASE</pre> */
public final class CuratorPeer extends Peer {
    private final CuratorFramework client;

    private CuratorPeer(String[] args) throws Exception {
        super(args);
        this.client = CuratorFrameworkFactory.builder().connectString("127.0.0.1:" + args[0])
                .sessionTimeoutMs(Integer.parseInt(args[3])).connectionTimeoutMs(15_000)
                .retryPolicy(new RetryForever(50)).build();
        client.start();
    }

    @Override
    Mutex mutex(String name) {
        InterProcessMutex lock = new InterProcessMutex(client, "/" + name);
        return new Mutex() {
            @Override
            public void lock() throws Exception {
                lock.acquire();
            }

            @Override
            public void unlock() throws Exception {
                lock.release();
            }
        };
    }

    public static void main(String[] args) throws Exception {
        new CuratorPeer(args).obey();
    }
}
