"""pymemcache: text protocol, pickled values, a pool, and retries."""

from pymemcache import serde
from pymemcache.client.base import Client, PooledClient
from pymemcache.client.retrying import RetryingClient
from pymemcache.exceptions import MemcacheServerError

from checks import (LARGE, REMEMBERS, SERVER, TLS_SERVER, TOO_LARGE, check, fails, host_and_port, restart_the_server,
                    trusting, within)

mc = Client(host_and_port(SERVER), serde=serde.pickle_serde, allow_unicode_keys=True, default_noreply=False, timeout=5)
mc.flush_all()

check("a missing key is None", mc.get("missing"), None)
check("set", mc.set("text", "value"))
check("get", mc.get("text"), "value")
check("flags bring the type back", mc.set("dict", {"a": [1, 2.5]}) and mc.get("dict"), {"a": [1, 2.5]})
check("set_many", mc.set_many({f"many:{i}": i for i in range(100)}), [])
check("get_many leaves out what is missing", mc.get_many([f"many:{i}" for i in range(200)]), {f"many:{i}": i for i in range(100)})

check("add of a new key", mc.add("added", 1))
check("add of an existing key", mc.add("added", 2), False)
check("replace of an existing key", mc.replace("added", 3))
check("replace of a missing key", mc.replace("missing", 3), False)
mc.set("joined", b"b")
check("append and prepend", mc.append("joined", b"c") and mc.prepend("joined", b"a") and mc.get("joined"), b"abc")
check("append to a missing key", mc.append("missing", b"c"), False)

value, cas = mc.gets("text")
check("cas with the token of gets", mc.cas("text", "second", cas))
check("cas with a used token", mc.cas("text", "third", cas), False)
check("cas of a missing key", mc.cas("missing", "third", cas), None)
check("gets_many", sorted(mc.gets_many(["text", "added", "missing"])), ["added", "text"])

mc.set("counter", "10")
check("incr", mc.incr("counter", 5), 15)
check("decr stops at 0", mc.decr("counter", 100), 0)
check("incr of a missing key", mc.incr("missing", 1), None)
mc.set("counter", str(2**64 - 1))
check("incr wraps at 2^64", mc.incr("counter", 2), 1)

check("delete", mc.delete("added"))
check("delete of a missing key", mc.delete("added"), False)
check("delete_many", mc.delete_many([f"many:{i}" for i in range(100)]) and mc.get_many(["many:1", "many:99"]), {})

mc.set("short", 1, expire=1)
mc.set("touched", 1, expire=1)
check("touch", mc.touch("touched", 100))
check("touch of a missing key", mc.touch("missing", 100), False)
check("a value expires", mc.get("short") == 1 and within(4, lambda: mc.get("short") is None))
check("a touched value does not", mc.get("touched"), 1)
check("a negative exptime expires at once", mc.set("negative", 1, expire=-1) and mc.get("negative"), None)

check("600 KiB", mc.set("large", LARGE) and mc.get("large") == LARGE)
check("a value that is too large is refused", fails(MemcacheServerError, lambda: mc.set("large", TOO_LARGE)))
check("and its key is gone", mc.get("large"), None)
check("a unicode key", mc.set("ключ:日本語", "значение") and mc.get("ключ:日本語"), "значение")
check("a key of 250 bytes", mc.set("k" * 250, 1) and mc.get("k" * 250), 1)
check("noreply", mc.set("quiet", 1, noreply=True) and mc.get("quiet"), 1)
check("version", mc.version()[:1].isdigit())
check("stats count", mc.stats()[b"curr_items"] > 0)
check("flush_all", mc.flush_all() and mc.get("text"), None)

pool = PooledClient(host_and_port(SERVER), max_pool_size=4, timeout=5)
check("a pool", pool.set("pooled", b"1") is not None and pool.get("pooled"), b"1")

if TLS_SERVER:
    secret = Client(host_and_port(TLS_SERVER), tls_context=trusting(), allow_unicode_keys=True, timeout=5)
    check("TLS: set and get", secret.set("ключ", LARGE, noreply=False) and secret.get("ключ") == LARGE)
    check("TLS: many", secret.set_many({f"many:{i}": str(i) for i in range(100)}, noreply=False), [])
    check("TLS: get_many", len(secret.get_many([f"many:{i}" for i in range(200)])), 100)
    plain = Client(host_and_port(TLS_SERVER), timeout=5)
    check("TLS: nobody is served without", fails(Exception, lambda: plain.get("text")))

retrying = RetryingClient(mc, attempts=100, retry_delay=0.1)
mc.set("before", "restart")
if restart_the_server():
    check("it works again after the server restarted", retrying.set("after", "restart") and retrying.get("after"), "restart")
    check("so does the pool", within(10, lambda: pool.set("pooled", b"2", noreply=False) and pool.get("pooled") == b"2"))
    check("what was stored before is still there", mc.get("before") == "restart", REMEMBERS)
