import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.ClusterServersConfig;
import org.redisson.config.Config;
import org.redisson.config.ReadMode;

/**
 * A peer of libdlock's on Redis: takes locks with Redisson, as told line by line. What the lines
 * are stands in peers.py.
 *
 * <pre>Peer PORT[,PORT…] WATCHDOG_MS [plain]</pre>
 * Several ports are those of a cluster.
 */
public final class Peer {
    private final RedissonClient client;
    private final Map<String, Slot> slots = new HashMap<>();

    private Peer(String ports, long watchdogMs, boolean plain) throws Exception {
        Config config = new Config();
        config.setLockWatchdogTimeout(watchdogMs);
        if (ports.contains(",")) {
            useCluster(config, ports.split(","), plain);
        } else {
            config.useSingleServer()
                    .setAddress("redis://127.0.0.1:" + ports)
                    .setConnectionMinimumIdleSize(2)
                    .setConnectionPoolSize(8);
        }
        this.client = Redisson.create(config);
    }

    /** With "plain" it tells, and hears, by PUBLISH only, as those before 3.22 do. */
    private static void useCluster(Config config, String[] ports, boolean plain)
            throws Exception {
        ClusterServersConfig cluster = config.useClusterServers()
                .setReadMode(ReadMode.MASTER)
                .setMasterConnectionMinimumIdleSize(2)
                .setMasterConnectionPoolSize(8);
        for (String port : ports) {
            cluster.addNodeAddress("redis://127.0.0.1:" + port);
        }
        if (plain) { // 3.27 can't be told so, and has no such name
            Class<?> mode = Class.forName("org.redisson.config.ShardedSubscriptionMode");
            cluster.getClass().getMethod("setShardedSubscriptionMode", mode)
                    .invoke(cluster, mode.getField("OFF").get(null));
        }
    }

    /** An owner of locks: a thread of its own, which does what it is told in that order. */
    private static final class Slot implements Runnable {
        private final String name;
        private final Contender contender;
        private final BlockingQueue<String> lines = new LinkedBlockingQueue<>();
        private final Thread thread = new Thread(this);

        Slot(String name, RedissonClient client) {
            this.name = name;
            this.contender = new Contender(name, client);
            thread.setDaemon(true);
            thread.start();
        }

        void tell(String line) {
            if (line.equals("cancel")) {
                thread.interrupt();
            } else {
                lines.add(line);
            }
        }

        @Override
        public void run() {
            while (true) {
                String answer;
                try {
                    answer = contender.obey(lines.take().split(" "));
                } catch (InterruptedException why) {
                    answer = "no";
                } catch (Exception why) {
                    answer = "error " + String.valueOf(why.getMessage()).replace('\n', ' ');
                }
                synchronized (System.out) {
                    System.out.println(name + " " + answer);
                }
            }
        }
    }

    private void tell(String line) {
        String[] both = line.split(" ", 2);
        slots.computeIfAbsent(both[0], name -> new Slot(name, client)).tell(both[1]);
    }

    public static void main(String[] args) throws Exception {
        Peer peer = new Peer(args[0], Long.parseLong(args[1]),
                args.length > 2 && args[2].equals("plain"));
        System.out.println("ready ok");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            peer.tell(line);
        }
        Runtime.getRuntime().halt(0);
    }
}
