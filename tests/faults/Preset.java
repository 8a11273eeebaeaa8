import java.io.File;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.server.DataTree;
import org.apache.zookeeper.server.persistence.FileTxnSnapLog;

/**
 * Makes the snapshot of a new server on which one node has had so many children already.
 *
 * <pre>Preset DATA_DIR PATH COUNT</pre>
 */
public final class Preset {
    public static void main(String[] args) throws Exception {
        File directory = new File(args[0]);
        DataTree tree = new DataTree();
        tree.createNode(args[1], new byte[0], ZooDefs.Ids.OPEN_ACL_UNSAFE, 0, 0, 1, 0);
        tree.setCversionPzxid(args[1], Integer.parseInt(args[2]), 1);
        tree.lastProcessedZxid = 1;
        FileTxnSnapLog log = new FileTxnSnapLog(directory, directory);
        log.save(tree, new ConcurrentHashMap<>(), true);
        log.close();
    }
}
