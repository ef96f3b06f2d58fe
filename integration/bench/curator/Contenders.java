import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Plays the benchmark's loads with Curator's recipes. The Go side sends commands line by line:
 *
 * <pre>
 * open ID HOSTS CONNECTIONS TTL_MS                                  ok
 * play ID FORM RECIPE NAME CONTENDERS PERMITS WARM TURNS            settle, begin (each answered with go), end, done NS TURNS EACH...
 * close ID                                                          ok
 * </pre>
 *
 * A failure is answered with "error ...", and ends the process.
 */
public class Contenders {
    interface Contender {
        void acquire() throws Exception;

        void release() throws Exception;
    }

    interface Work {
        void run() throws Exception;
    }

    static final BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    static final PrintStream out = System.out;
    static final Map<String, List<CuratorFramework>> sets = new HashMap<>();

    public static void main(String[] args) throws Exception {
        try {
            for (String line; (line = in.readLine()) != null; ) {
                String[] words = line.split(" ");
                switch (words[0]) {
                    case "open":
                        open(words[1], words[2], Integer.parseInt(words[3]), Integer.parseInt(words[4]));
                        say("ok");
                        break;
                    case "play":
                        say(new Play(words).run());
                        break;
                    case "close":
                        for (CuratorFramework c : sets.remove(words[1])) {
                            c.close();
                        }
                        say("ok");
                        break;
                    default:
                        throw new IllegalArgumentException(line);
                }
            }
        } catch (Throwable e) {
            e.printStackTrace();
            say("error " + e);
            System.exit(1);
        }
        System.exit(0);
    }

    static synchronized void say(String line) {
        out.println(line);
        out.flush();
    }

    /** Sends a word and waits for the answer. */
    static void ask(String word) throws Exception {
        say(word);
        String answer = in.readLine();
        if (!"go".equals(answer)) {
            throw new IllegalStateException("answer to " + word + ": " + answer);
        }
    }

    static void open(String id, String hosts, int connections, int ttl) throws Exception {
        List<CuratorFramework> set = new ArrayList<>();
        sets.put(id, set);
        for (int i = 0; i < connections; i++) {
            CuratorFramework c = CuratorFrameworkFactory.newClient(hosts, ttl, 15000, new ExponentialBackoffRetry(1000, 3));
            set.add(c);
            c.start();
            if (!c.blockUntilConnected(30, TimeUnit.SECONDS)) {
                throw new IllegalStateException("no connection to " + hosts);
            }
        }
    }

    static class Play {
        final List<CuratorFramework> clients;
        final String form, recipe, name;
        final int contenders, permits, warm, turns;
        final AtomicReference<Throwable> failure = new AtomicReference<>();
        final List<Thread> threads = new ArrayList<>();

        // The grants in order, those from "from" to "to" are measured.
        final AtomicInteger count = new AtomicInteger();
        final AtomicBoolean over = new AtomicBoolean();
        final long[] stamps;
        final int from, to;

        Play(String[] w) {
            clients = sets.get(w[1]);
            form = w[2];
            recipe = w[3];
            name = w[4];
            contenders = Integer.parseInt(w[5]);
            permits = Integer.parseInt(w[6]);
            warm = Integer.parseInt(w[7]);
            turns = Integer.parseInt(w[8]);
            from = warm;
            to = warm + turns;
            stamps = new long[to + 1];
        }

        Contender contender(int i, String name) {
            CuratorFramework c = clients.get(i % clients.size());
            String path = "/curator/" + name;
            if (recipe.equals("semaphore")) {
                InterProcessSemaphoreV2 s = new InterProcessSemaphoreV2(c, path, Math.max(1, permits));
                return new Contender() {
                    Lease lease;

                    public void acquire() throws Exception {
                        lease = s.acquire();
                    }

                    public void release() {
                        s.returnLease(lease);
                    }
                };
            }
            InterProcessMutex m = new InterProcessMutex(c, path);
            return new Contender() {
                public void acquire() throws Exception {
                    m.acquire();
                }

                public void release() throws Exception {
                    m.release();
                }
            };
        }

        void go(Work work) {
            Thread t = new Thread(() -> {
                try {
                    work.run();
                } catch (Throwable e) {
                    e.printStackTrace();
                    failure.compareAndSet(null, e);
                    say("error " + e);
                    System.exit(1);
                }
            });
            threads.add(t);
            t.start();
        }

        void join() throws Exception {
            for (Thread t : threads) {
                t.join();
            }
            threads.clear();
        }

        String run() throws Exception {
            switch (form) {
                case "pair":
                    return pairs();
                case "turns":
                    return turns();
                case "permits":
                    return permitted();
            }
            throw new IllegalArgumentException(form);
        }

        String done(long elapsed, int n, long[] each) {
            StringBuilder b = new StringBuilder("done " + elapsed + " " + n);
            for (long e : each) {
                b.append(' ').append(e);
            }
            return b.toString();
        }

        String between(int from, int to) {
            long[] each = new long[to - from];
            for (int k = from; k < to; k++) {
                each[k - from] = stamps[k + 1] - stamps[k];
            }
            return done(stamps[to] - stamps[from], to - from, each);
        }

        String pairs() throws Exception {
            Contender one = contender(0, name);
            for (int i = 0; i < warm; i++) {
                one.acquire();
                one.release();
            }
            long[] each = new long[turns];
            ask("begin");
            long began = System.nanoTime();
            for (int i = 0; i < turns; i++) {
                long start = System.nanoTime();
                one.acquire();
                one.release();
                each[i] = System.nanoTime() - start;
            }
            long elapsed = System.nanoTime() - began;
            ask("end");
            return done(elapsed, turns, each);
        }

        /** Records a grant, and reports whether it was the last measured one. The holder calls it. */
        boolean granted() throws Exception {
            int k = count.getAndIncrement();
            if (k < stamps.length) {
                stamps[k] = System.nanoTime();
            }
            if (k == from) {
                ask("begin");
                stamps[k] = System.nanoTime();
            }
            if (k == to) {
                ask("end");
                over.set(true);
            }
            return over.get();
        }

        void rounds(Contender one) throws Exception {
            for (boolean last = false; !last; ) {
                one.acquire();
                last = granted();
                one.release();
            }
        }

        /** A thread owns the mutex, so the first contender needs its own thread, too. */
        String turns() throws Exception {
            Object gate = new Object();
            boolean[] state = new boolean[2]; // held, open
            Contender first = contender(0, name);
            go(() -> {
                first.acquire();
                synchronized (gate) {
                    state[0] = true;
                    gate.notifyAll();
                    while (!state[1]) {
                        gate.wait();
                    }
                }
                granted();
                first.release();
                rounds(first);
            });
            synchronized (gate) {
                while (!state[0]) {
                    gate.wait();
                }
            }
            for (int i = 1; i < contenders; i++) {
                Contender one = contender(i, name);
                go(() -> rounds(one));
            }
            ask("settle");
            synchronized (gate) {
                state[1] = true;
                gate.notifyAll();
            }
            join();
            return between(from, to);
        }

        String permitted() throws Exception {
            List<long[]> each = new ArrayList<>();
            Object asking = new Object(); // several hold at a time, but only one may send
            for (int i = 0; i < contenders; i++) {
                Contender one = contender(i, name);
                go(() -> {
                    long[] own = new long[0];
                    for (boolean last = false; !last; ) {
                        long start = System.nanoTime();
                        one.acquire();
                        synchronized (asking) {
                            last = granted();
                        }
                        one.release();
                        own = Arrays.copyOf(own, own.length + 1);
                        own[own.length - 1] = System.nanoTime() - start;
                    }
                    synchronized (each) {
                        each.add(own);
                    }
                });
            }
            join();
            long[] all = each.stream().flatMapToLong(Arrays::stream).toArray();
            return done(stamps[to] - stamps[from], turns, all);
        }
    }
}
