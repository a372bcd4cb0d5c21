import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import net.rubyeye.xmemcached.CASOperation;
import net.rubyeye.xmemcached.CommandFactory;
import net.rubyeye.xmemcached.Counter;
import net.rubyeye.xmemcached.GetsResponse;
import net.rubyeye.xmemcached.MemcachedClient;
import net.rubyeye.xmemcached.XMemcachedClientBuilder;
import net.rubyeye.xmemcached.auth.AuthInfo;
import net.rubyeye.xmemcached.command.BinaryCommandFactory;
import net.rubyeye.xmemcached.command.TextCommandFactory;
import net.rubyeye.xmemcached.utils.AddrUtil;

/** xmemcached: several connections, merged gets, counters; with the text and with the binary protocol, and SASL. */
public class XmemcachedClient {
    static final long TIMEOUT_MS = 5_000;
    static final int CONNECTIONS = 2;

    public static void main(String[] arguments) throws Exception {
        MemcachedClient text = client(System.getenv("SERVER"), new TextCommandFactory(), null);
        MemcachedClient binary = client(System.getenv("SERVER"), new BinaryCommandFactory(), null);
        judge(text, "text");
        judge(binary, "binary");
        if (System.getenv("SASL_SERVER") != null) {
            // xmemcached looks a connection's user up by the host's name, and finds none for an address.
            sasl(System.getenv("SASL_SERVER").replace("127.0.0.1", "localhost"));
        }
        if (System.getenv("RESTART") != null) {
            int status = new ProcessBuilder("sh", "-c", System.getenv("RESTART")).inheritIO().start().waitFor();
            check("restarting the server", status, 0);
            for (MemcachedClient mc : List.of(text, binary)) {
                check((mc == text ? "text" : "binary") + ": it works again after the server restarted",
                    within(20_000, () -> mc.set("after", 0, 1) && value(mc, "after").equals(1)), true);
            }
        }
        System.exit(0);
    }

    static void judge(MemcachedClient mc, String protocol) throws Exception {
        mc.flushAll();
        check(protocol + ": a missing key is null", value(mc, "missing"), null);
        check(protocol + ": set and get", List.of(mc.set("text", 0, "value"), value(mc, "text")), List.of(true, "value"));
        HashMap<String, Double> object = new HashMap<>(Map.of("a", 2.5));
        mc.set("object", 0, object);
        check(protocol + ": flags bring the type back", value(mc, "object"), object);

        Map<String, Object> many = IntStream.range(0, 100).boxed().collect(Collectors.toMap(i -> "many:" + i, i -> i));
        for (var entry : many.entrySet()) {
            mc.setWithNoReply(entry.getKey(), 0, entry.getValue());
        }
        List<String> keys = IntStream.range(0, 200).mapToObj(i -> "many:" + i).toList();
        check(protocol + ": 100 sets without answer, get of a collection", within(5_000, () -> mc.get(keys).equals(many)), true);
        check(protocol + ": gets of a collection", mc.gets(keys).keySet(), many.keySet());

        check(protocol + ": add", List.of(mc.add("added", 0, 1), mc.add("added", 0, 2)), List.of(true, false));
        check(protocol + ": replace", List.of(mc.replace("added", 0, 3), mc.replace("missing", 0, 3)), List.of(true, false));
        mc.set("joined", 0, "b");
        check(protocol + ": append and prepend",
            List.of(mc.append("joined", "c"), mc.prepend("joined", "a"), value(mc, "joined")), List.of(true, true, "abc"));

        GetsResponse<String> read = mc.gets("text");
        check(protocol + ": cas with the token of gets", mc.cas("text", 0, "second", read.getCas()), true);
        check(protocol + ": cas with a used token", mc.cas("text", 0, "third", read.getCas()), false);
        check(protocol + ": a cas operation, tried again with a new token", mc.cas("text", 0, read, new Exclaim()), true);
        check(protocol + ": is applied once", value(mc, "text"), "second!");

        check(protocol + ": incr with a start", List.of(mc.incr("counter", 5, 10), mc.incr("counter", 5, 10)), List.of(10L, 15L));
        check(protocol + ": decr stops at 0", mc.decr("counter", 100), 0L);
        Counter counter = mc.getCounter("visits", 7);
        check(protocol + ": a counter", List.of(counter.incrementAndGet(), counter.addAndGet(-3), counter.get()), List.of(8L, 5L, 5L));
        check(protocol + ": delete", List.of(mc.delete("added"), mc.delete("added")), List.of(true, false));

        mc.set("short", 1, 1);
        mc.set("touched", 1, 1);
        check(protocol + ": touch", List.of(mc.touch("touched", 100), mc.touch("missing", 100)), List.of(true, false));
        check(protocol + ": a value expires", within(4_000, () -> value(mc, "short") == null), true);
        check(protocol + ": a touched value does not", value(mc, "touched"), 1);
        if (protocol.equals("binary")) { // xmemcached has it for this protocol only
            check(protocol + ": getAndTouch", mc.<Object>getAndTouch("touched", 100), 1);
        }

        byte[] large = new byte[600 * 1024];
        new Random(1).nextBytes(large);
        check(protocol + ": 600 KiB", mc.set("large", 0, large), true);
        check(protocol + ": 600 KiB come back", Arrays.equals((byte[]) value(mc, "large"), large), true);
        check(protocol + ": a unicode key",
            List.of(mc.set("ключ:日本語", 0, "значение"), value(mc, "ключ:日本語")), List.of(true, "значение"));
        if (protocol.equals("text")) { // for the other one it reads no version out of the answer
            check(protocol + ": versions", mc.getVersions().values().iterator().next().isEmpty(), false);
        }
        check(protocol + ": stats", Long.parseLong(mc.getStats().values().iterator().next().get("curr_items")) > 0, true);
        mc.flushAll();
        check(protocol + ": flushAll empties it", value(mc, "text"), null);
    }

    static class Exclaim implements CASOperation<String> {
        @Override
        public int getMaxTries() {
            return 3;
        }

        @Override
        public String getNewValue(long token, String value) {
            return value + "!";
        }
    }

    /** The value as an object: callers say in the comparison what it is. */
    static Object value(MemcachedClient mc, String key) throws Exception {
        return mc.get(key);
    }

    static void sasl(String server) throws Exception {
        MemcachedClient good = client(server, new BinaryCommandFactory(), System.getenv("SASL_PASSWORD"));
        check("SASL: the right password", within(5_000, () -> good.set("secret", 0, "s") && value(good, "secret").equals("s")), true);
        MemcachedClient wrong = client(server, new BinaryCommandFactory(), "wrong");
        check("SASL: a wrong password", within(2_000, () -> wrong.set("secret", 0, "t", 500)), false);
        check("SASL: the value is what it was", value(good, "secret"), "s");
    }

    static MemcachedClient client(String server, CommandFactory protocol, String password) throws Exception {
        XMemcachedClientBuilder builder = new XMemcachedClientBuilder(AddrUtil.getAddresses(server));
        builder.setCommandFactory(protocol);
        builder.setConnectionPoolSize(CONNECTIONS);
        builder.setOpTimeout(TIMEOUT_MS);
        builder.setHealSessionInterval(200);
        if (password != null) {
            builder.addAuthInfo(AddrUtil.getOneAddress(server), AuthInfo.plain(System.getenv("SASL_USER"), password));
        }
        return builder.build();
    }

    static void check(String what, Object got, Object want) {
        if (!Objects.equals(got, want)) {
            System.out.printf("FAIL %s: got %.200s, not %.200s%n", what, got, want);
            System.exit(1);
        }
        System.out.println("ok   " + what);
    }

    static boolean within(long milliseconds, Callable<Boolean> condition) throws InterruptedException {
        for (long end = System.currentTimeMillis() + milliseconds; System.currentTimeMillis() < end; Thread.sleep(50)) {
            try {
                if (condition.call()) {
                    return true;
                }
            } catch (Exception notYet) {
                continue;
            }
        }
        return false;
    }
}
