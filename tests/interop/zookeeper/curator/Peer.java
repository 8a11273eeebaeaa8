import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryForever;

/**
 * A peer of libdlock's on ZooKeeper: takes locks with Curator, as told line by line. What the
 * lines are stands in peers.py.
 *
 * <pre>Peer HOSTS SESSION_MS</pre>
 */
public final class Peer {
    private final Map<String, Slot> slots = new HashMap<>();
    private final String hosts;
    private final int sessionMs;

    private Peer(String hosts, int sessionMs) {
        this.hosts = hosts;
        this.sessionMs = sessionMs;
    }

    /** A session of its own for each owner, as for programs of their own. */
    private CuratorFramework connect() throws InterruptedException {
        CuratorFramework client = CuratorFrameworkFactory.builder().connectString(hosts)
                .sessionTimeoutMs(sessionMs).connectionTimeoutMs(15_000)
                .retryPolicy(new RetryForever(50)).build();
        client.start();
        return client;
    }

    /** An owner of locks: a thread of its own, which does what it is told in that order. */
    private static final class Slot implements Runnable {
        private final String name;
        private final Contender contender;
        private final BlockingQueue<String> lines = new LinkedBlockingQueue<>();
        private final Thread thread = new Thread(this);

        Slot(String name, CuratorFramework client) {
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
                    answer = "error " + String.valueOf(why).replace('\n', ' ');
                }
                synchronized (System.out) {
                    System.out.println(name + " " + answer);
                }
            }
        }
    }

    private void tell(String line) throws InterruptedException {
        String[] both = line.split(" ", 2);
        if (!slots.containsKey(both[0])) {
            slots.put(both[0], new Slot(both[0], connect()));
        }
        slots.get(both[0]).tell(both[1]);
    }

    public static void main(String[] args) throws Exception {
        Peer peer = new Peer(args[0], Integer.parseInt(args[1]));
        System.out.println("ready ok");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            peer.tell(line);
        }
        Runtime.getRuntime().halt(0);
    }
}
