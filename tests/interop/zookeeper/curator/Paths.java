package org.apache.curator.framework.recipes.locks;

/** Curator tells its own package alone which node a lock is. */
public final class Paths {
    private Paths() {
    }

    public static String of(InterProcessMutex mutex) {
        return mutex.getLockPath();
    }
}
