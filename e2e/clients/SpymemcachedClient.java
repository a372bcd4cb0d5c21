import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import net.spy.memcached.AddrUtil;
import net.spy.memcached.CASResponse;
import net.spy.memcached.ConnectionFactoryBuilder;
import net.spy.memcached.ConnectionFactoryBuilder.Protocol;
import net.spy.memcached.MemcachedClient;
import net.spy.memcached.auth.AuthDescriptor;
import net.spy.memcached.auth.PlainCallbackHandler;

/** spymemcached: futures, bulk gets, Java objects; with the text and with the binary protocol, and SASL. */
public class SpymemcachedClient {
    static final long TIMEOUT_MS = 5_000;

    public static void main(String[] arguments) throws Exception {
        MemcachedClient text = client(System.getenv("SERVER"), Protocol.TEXT, null);
        MemcachedClient binary = client(System.getenv("SERVER"), Protocol.BINARY, null);
        judge(text, "text");
        judge(binary, "binary");
        if (System.getenv("SASL_SERVER") != null) {
            sasl(System.getenv("SASL_SERVER"));
        }
        if (System.getenv("RESTART") != null) {
            int status = new ProcessBuilder("sh", "-c", System.getenv("RESTART")).inheritIO().start().waitFor();
            check("restarting the server", status, 0);
            for (MemcachedClient mc : List.of(text, binary)) {
                check((mc == text ? "text" : "binary") + ": it works again after the server restarted",
                    within(20_000, () -> mc.set("after", 0, 1).get() && mc.get("after").equals(1)), true);
            }
        }
        System.exit(0);
    }

    static void judge(MemcachedClient mc, String protocol) throws Exception {
        check(protocol + ": flush", mc.flush().get(), true);
        check(protocol + ": a missing key is null", mc.get("missing"), null);
        check(protocol + ": set and get", List.of(mc.set("text", 0, "value").get(), mc.get("text")), List.of(true, "value"));
        HashMap<String, Double> object = new HashMap<>(Map.of("a", 2.5));
        mc.set("object", 0, object).get();
        check(protocol + ": flags bring the type back", mc.get("object"), object);

        Map<String, Object> many = IntStream.range(0, 100).boxed().collect(Collectors.toMap(i -> "many:" + i, i -> i));
        for (var entry : many.entrySet()) {
            mc.set(entry.getKey(), 0, entry.getValue());
        }
        List<String> keys = IntStream.range(0, 200).mapToObj(i -> "many:" + i).toList();
        check(protocol + ": 100 sets in flight, getBulk", mc.getBulk(keys), many);

        check(protocol + ": add", List.of(mc.add("added", 0, 1).get(), mc.add("added", 0, 2).get()), List.of(true, false));
        check(protocol + ": replace", List.of(mc.replace("added", 0, 3).get(), mc.replace("missing", 0, 3).get()), List.of(true, false));
        mc.set("joined", 0, "b").get();
        check(protocol + ": append and prepend",
            List.of(mc.append("joined", "c").get(), mc.prepend("joined", "a").get(), mc.get("joined")), List.of(true, true, "abc"));

        long token = mc.gets("text").getCas();
        check(protocol + ": cas with the token of gets", mc.cas("text", token, "second"), CASResponse.OK);
        check(protocol + ": cas with a used token", mc.cas("text", token, "third"), CASResponse.EXISTS);
        check(protocol + ": cas of a missing key", mc.cas("missing", token, "third"), CASResponse.NOT_FOUND);

        check(protocol + ": incr with a start", List.of(mc.incr("counter", 5, 10), mc.incr("counter", 5, 10)), List.of(10L, 15L));
        check(protocol + ": decr stops at 0", mc.decr("counter", 100), 0L);
        check(protocol + ": incr of a missing key", mc.incr("missing", 1), -1L);
        check(protocol + ": delete", List.of(mc.delete("added").get(), mc.delete("added").get()), List.of(true, false));

        mc.set("short", 1, 1).get();
        mc.set("touched", 1, 1).get();
        mc.set("got", 1, 1).get();
        check(protocol + ": touch", List.of(mc.touch("touched", 100).get(), mc.touch("missing", 100).get()), List.of(true, false));
        if (protocol.equals("binary")) { // spymemcached has it for this protocol only
            check(protocol + ": getAndTouch", mc.getAndTouch("got", 100).getValue(), 1);
        }
        check(protocol + ": a value expires", within(4_000, () -> mc.get("short") == null), true);
        check(protocol + ": a touched value does not", mc.get("touched"), 1);

        byte[] large = new byte[600 * 1024];
        new Random(1).nextBytes(large);
        check(protocol + ": 600 KiB", mc.set("large", 0, large).get(), true);
        check(protocol + ": 600 KiB come back", Arrays.equals((byte[]) mc.get("large"), large), true);
        check(protocol + ": a unicode key",
            List.of(mc.set("ключ:日本語", 0, "значение").get(), mc.get("ключ:日本語")), List.of(true, "значение"));
        check(protocol + ": versions", mc.getVersions().values().iterator().next().isEmpty(), false);
        check(protocol + ": stats", Long.parseLong(mc.getStats().values().iterator().next().get("curr_items")) > 0, true);
        check(protocol + ": flush empties it", List.of(mc.flush().get(), mc.get("text") == null), List.of(true, true));
    }

    static void sasl(String server) throws Exception {
        MemcachedClient good = client(server, Protocol.BINARY, System.getenv("SASL_PASSWORD"));
        check("SASL: the right password", List.of(good.set("secret", 0, "s").get(), good.get("secret")), List.of(true, "s"));
        // Asking for the mechanisms starts over: memcached takes the connection for unauthenticated again.
        MemcachedClient asking = client(server, Protocol.BINARY, System.getenv("SASL_PASSWORD"));
        check("SASL: PLAIN is offered", asking.listSaslMechanisms().contains("PLAIN"), true);
        MemcachedClient wrong = client(server, Protocol.BINARY, "wrong");
        check("SASL: a wrong password", within(2_000, () -> wrong.set("secret", 0, "t").get(1, TimeUnit.SECONDS)), false);
        check("SASL: the value is what it was", good.get("secret"), "s");
    }

    static MemcachedClient client(String server, Protocol protocol, String password) throws Exception {
        ConnectionFactoryBuilder builder = new ConnectionFactoryBuilder()
            .setProtocol(protocol).setOpTimeout(TIMEOUT_MS).setMaxReconnectDelay(1).setDaemon(true);
        if (password != null) {
            PlainCallbackHandler user = new PlainCallbackHandler(System.getenv("SASL_USER"), password);
            builder.setAuthDescriptor(new AuthDescriptor(new String[] {"PLAIN"}, user));
        }
        return new MemcachedClient(builder.build(), AddrUtil.getAddresses(server));
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
