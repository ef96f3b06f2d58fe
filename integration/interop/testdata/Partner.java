import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Stream;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** Contends with Curator's recipes; the commands are those of party in interop_test.go. Arguments: servers, session timeout in ms. */
public class Partner {
    /** Acquires and releases a name. */
    interface Contender {
        /** Returns the czxid of the entry. */
        long take() throws Exception;

        void release() throws Exception;
    }

    static String servers;
    static int timeout;

    public static void main(String[] args) throws Exception {
        servers = args[0];
        timeout = Integer.parseInt(args[1]);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        Contender held = null;
        for (String line; (line = in.readLine()) != null; ) {
            String[] w = line.substring(1, line.length() - 1).split(" ");
            try {
                switch (w[0]) {
                    case "loop":
                        loop(in, w[1], w[2], Integer.parseInt(w[3]), Integer.parseInt(w[4]), w[5]);
                        say("done");
                        break;
                    case "take":
                        held = contender(w[1], w[2]);
                        say("got " + held.take());
                        break;
                    case "release":
                        held.release();
                        say("released");
                        break;
                    case "revoke":
                        revoke(w[1]);
                        say("asked");
                        break;
                    case "ids":
                        say("ids " + ids(w[1]));
                        break;
                    default:
                        throw new IllegalArgumentException(line);
                }
            } catch (Throwable e) {
                e.printStackTrace();
                say("error " + e.toString().replace('"', '\''));
            }
        }
        System.exit(0);
    }

    static synchronized void say(String line) {
        System.out.println("\"" + line + "\"");
        System.out.flush();
    }

    static CuratorFramework client() throws Exception {
        CuratorFramework c = CuratorFrameworkFactory.newClient(servers, timeout, 15000, new ExponentialBackoffRetry(1000, 3));
        c.start();
        if (!c.blockUntilConnected(30, TimeUnit.SECONDS)) {
            throw new IllegalStateException("no connection to " + servers);
        }
        return c;
    }

    static void loop(BufferedReader in, String recipe, String path, int contenders, int turns, String dir) throws Exception {
        AtomicReference<Throwable> failure = new AtomicReference<>();
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < contenders; i++) {
            Contender c = contender(recipe, path);
            Thread t = new Thread(() -> {
                try {
                    for (int n = 0; n < turns; n++) {
                        long order = c.take();
                        try {
                            turn(recipe, order, Paths.get(dir));
                        } finally {
                            c.release();
                        }
                    }
                } catch (Throwable e) {
                    e.printStackTrace();
                    failure.set(e);
                }
            });
            threads.add(t);
        }
        say("ready");
        in.readLine();
        for (Thread t : threads) {
            t.start();
        }
        for (Thread t : threads) {
            t.join();
        }
        if (failure.get() != null) {
            throw new IllegalStateException(failure.get());
        }
    }

    static String counter(Path dir) throws Exception {
        return Files.readString(dir.resolve("counter"));
    }

    static void turn(String recipe, long order, Path dir) throws Exception {
        String before = counter(dir), kind = "w";
        Thread.sleep(1);
        if (recipe.equals("read")) {
            kind = before.equals(counter(dir)) ? "r" : "torn";
        } else if (recipe.startsWith("semaphore")) {
            Path own = dir.resolve("in-curator-" + order);
            Files.createFile(own);
            Thread.sleep(2);
            try (Stream<Path> in = Files.list(dir)) {
                kind = in.filter(p -> p.getFileName().toString().startsWith("in-")).count() <= Integer.parseInt(recipe.substring("semaphore".length()))
                    ? "p" : "torn";
            }
            Files.delete(own);
        } else {
            Files.writeString(dir.resolve("counter"), Integer.toString(Integer.parseInt(before) + 1));
        }
        String note = kind + " curator " + order + "\n";
        Files.write(dir.resolve("journal"), note.getBytes(StandardCharsets.UTF_8), StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    }

    static long czxid(CuratorFramework c, String path) throws Exception {
        return c.checkExists().forPath(path).getCzxid();
    }

    static Contender contender(String recipe, String path) throws Exception {
        CuratorFramework c = client();
        switch (recipe) {
            case "mutex":
                return lock(c, new InterProcessMutex(c, path));
            case "read":
                return lock(c, new InterProcessReadWriteLock(c, path).readLock());
            case "write":
                return lock(c, new InterProcessReadWriteLock(c, path).writeLock());
            case "downgrade":
                return downgrade(c, new InterProcessReadWriteLock(c, path));
            case "latch":
                return latch(c, path);
            case "selector":
                return selector(c, path);
            default:
                if (recipe.startsWith("semaphore")) {
                    return semaphore(c, path, Integer.parseInt(recipe.substring("semaphore".length())));
                }
                throw new IllegalArgumentException(recipe);
        }
    }

    static Contender lock(CuratorFramework c, InterProcessMutex m) throws Exception {
        Method path = InterProcessMutex.class.getDeclaredMethod("getLockPath");
        path.setAccessible(true);
        return new Contender() {
            public long take() throws Exception {
                m.acquire();
                return czxid(c, (String) path.invoke(m));
            }

            public void release() throws Exception {
                m.release();
            }
        };
    }

    /** Writes, then downgrades to a read lock until the release. */
    static Contender downgrade(CuratorFramework c, InterProcessReadWriteLock rw) throws Exception {
        Contender w = lock(c, rw.writeLock());
        return new Contender() {
            public long take() throws Exception {
                long order = w.take();
                rw.readLock().acquire();
                w.release();
                return order;
            }

            public void release() throws Exception {
                rw.readLock().release();
            }
        };
    }

    static Contender latch(CuratorFramework c, String path) {
        return new Contender() {
            LeaderLatch latch;

            public long take() throws Exception {
                latch = new LeaderLatch(c, path, "curator");
                latch.start();
                latch.await();
                return czxid(c, latch.getOurPath());
            }

            public void release() throws Exception {
                latch.close();
            }
        };
    }

    static Contender selector(CuratorFramework c, String path) {
        return new Contender() {
            LeaderSelector selector;
            CountDownLatch over;

            public long take() throws Exception {
                SynchronousQueue<Boolean> leads = new SynchronousQueue<>();
                CountDownLatch until = over = new CountDownLatch(1);
                selector = new LeaderSelector(c, path, new LeaderSelectorListenerAdapter() {
                    @Override
                    public void takeLeadership(CuratorFramework client) throws Exception {
                        leads.put(true);
                        until.await();
                    }
                });
                selector.setId("curator");
                selector.start();
                leads.take();
                String first = null; // the leader's
                for (String child : c.getChildren().forPath(path)) {
                    if (first == null || digits(child).compareTo(digits(first)) < 0) {
                        first = child;
                    }
                }
                return czxid(c, path + "/" + first);
            }

            public void release() throws Exception {
                over.countDown();
                while (selector.hasLeadership()) {
                    Thread.sleep(1);
                }
                selector.close();
            }
        };
    }

    static String digits(String child) {
        return child.substring(child.length() - 10);
    }

    static Contender semaphore(CuratorFramework c, String path, int max) {
        InterProcessSemaphoreV2 s = new InterProcessSemaphoreV2(c, path, max);
        return new Contender() {
            Lease lease;

            public long take() throws Exception {
                lease = s.acquire();
                return czxid(c, path + "/leases/" + lease.getNodeName());
            }

            public void release() throws Exception {
                s.returnLease(lease);
            }
        };
    }

    /** Asks the holder of a mutex to release it. */
    static void revoke(String path) throws Exception {
        CuratorFramework c = client();
        InterProcessMutex m = new InterProcessMutex(c, path);
        Revoker.attemptRevoke(c, m.getParticipantNodes().iterator().next());
    }

    /** The IDs of a latch's participants, in order. */
    static String ids(String path) throws Exception {
        StringBuilder b = new StringBuilder();
        new LeaderLatch(client(), path).getParticipants().forEach(p -> b.append(p.getId()).append(p.isLeader() ? "* " : " "));
        return b.toString().trim();
    }
}
