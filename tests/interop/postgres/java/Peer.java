import java.io.BufferedReader;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.net.URI;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadLocalRandom;

/**
 * A peer of libdlock's on PostgreSQL's advisory locks: takes them with JDBC, as told line by line. What the
 * lines are stands in ../../peers.py.
 *
 * <pre>Peer postgres://USER@HOST:PORT/DATABASE TTL_MS</pre>
 *
 * Each slot is a thread with a connection of its own; a lock has no lease.
 */
public final class Peer extends Thread {
    /** What stands for the key, which names or numbers that is of, and whether it is shared. */
    private record Lock(String key, String[] of, boolean shared) {
        static Lock named(String kind, String name) {
            boolean shared = kind.endsWith("-read");
            if (kind.equals("hashtext")) {
                return new Lock("hashtext(?)", new String[] {name}, shared);
            }
            if (kind.equals("hashtextextended")) {
                return new Lock("hashtextextended(?, 0)", new String[] {name}, shared);
            }
            return name.contains(",")
                    ? new Lock("?::int, ?::int", name.split(","), shared)
                    : new Lock("?::bigint", new String[] {name}, shared);
        }

        String function(String verb) {
            return "SELECT pg_" + verb + (shared ? "_shared(" : "(") + key + ")";
        }
    }

    private final String slot;
    private final Connection db;
    private final Deque<Lock> holds = new ArrayDeque<>();
    private final LinkedBlockingQueue<String> lines = new LinkedBlockingQueue<>();

    private Peer(String slot, Connection db) {
        this.slot = slot;
        this.db = db;
        setDaemon(true);
    }

    /** What it answers; true where that is nothing, as of a function without a result. */
    private boolean call(String verb, Lock lock) throws SQLException {
        try (PreparedStatement statement = db.prepareStatement(lock.function(verb))) {
            for (int i = 0; i < lock.of.length; i++) {
                statement.setString(i + 1, lock.of[i]);
            }
            try (ResultSet result = statement.executeQuery()) {
                return result.next() && !"f".equals(result.getString(1));
            }
        }
    }

    private String take(String kind, String name, boolean waits) throws SQLException {
        Lock lock = Lock.named(kind, name);
        if (!call(waits ? "advisory_lock" : "try_advisory_lock", lock)) {
            return "no";
        }
        holds.push(lock);
        return "ok 0 -";
    }

    private String release() throws SQLException {
        return call("advisory_unlock", holds.pop()) ? "ok" : "error it was not ours";
    }

    /** One write to a file opened for appending: the lines of all contenders have one order. */
    private void note(FileOutputStream log, String what, String kind) throws Exception {
        log.write((what + " " + slot + " " + kind + " 0 " + System.currentTimeMillis() + "\n").getBytes());
    }

    /** Takes the kinds in turn until the time is over, and at least once; notes each entry. */
    private String contend(String[] kinds, String name, String path, long ms) throws Exception {
        int rounds = 0;
        long end = System.nanoTime() + ms * 1_000_000;
        try (FileOutputStream log = new FileOutputStream(path, true)) {
            for (; rounds == 0 || System.nanoTime() < end; rounds++) {
                String kind = kinds[rounds % kinds.length];
                note(log, "?", kind);
                take(kind, name, true);
                note(log, "+", kind);
                Thread.sleep(ThreadLocalRandom.current().nextInt(3));
                note(log, "-", kind);
                String answer = release();
                if (!answer.equals("ok")) {
                    return answer;
                }
                Thread.sleep(ThreadLocalRandom.current().nextInt(10));
            }
        }
        return "ok " + rounds;
    }

    private String obey(String[] words) throws Exception {
        switch (words[0]) {
            case "take":
                return take(words[1], words[2], !words[4].equals("0"));
            case "release":
                return release();
            case "contend":
                return contend(words[1].split(","), words[2], words[4], Long.parseLong(words[5]));
            default:
                return "error no such command: " + words[0];
        }
    }

    @Override
    public void run() {
        while (true) {
            String answer;
            try {
                answer = obey(lines.take().split(" "));
            } catch (Exception why) {
                answer = "error " + why.toString().replace('\n', ' ');
            }
            System.out.println(slot + " " + answer);
        }
    }

    public static void main(String[] args) throws Exception {
        URI at = URI.create(args[0]);
        String url = "jdbc:postgresql://" + at.getHost() + ":" + at.getPort() + at.getPath() + "?user="
                + at.getUserInfo();
        Map<String, Peer> slots = new HashMap<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("ready ok");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            int space = line.indexOf(' ');
            Peer slot = slots.get(line.substring(0, space));
            if (slot == null) {
                slot = new Peer(line.substring(0, space), DriverManager.getConnection(url));
                slots.put(slot.slot, slot);
                slot.start();
            }
            slot.lines.add(line.substring(space + 1));
        }
        System.exit(0); // as who dies: nothing is released
    }
}
