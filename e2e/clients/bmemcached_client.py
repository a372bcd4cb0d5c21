"""python-binary-memcached: binary protocol, SASL."""

import bmemcached
from bmemcached.exceptions import MemcachedException

from checks import (LARGE, REMEMBERS, SASL_PASSWORD, SASL_SERVER, SASL_USER, SERVER, TLS_SERVER, TOO_LARGE, check, fails,
                    restart_the_server, trusting, within)

mc = bmemcached.Client([SERVER])
mc.flush_all()

check("a missing key is None", mc.get("missing"), None)
check("set and get", mc.set("text", "value") and mc.get("text"), "value")
check("flags bring the type back", mc.set("dict", {"a": [1, 2.5]}) and mc.get("dict"), {"a": [1, 2.5]})
check("set_multi", mc.set_multi({f"many:{i}": i for i in range(100)}), [])
check("get_multi", mc.get_multi([f"many:{i}" for i in range(200)]), {f"many:{i}": i for i in range(100)})
check("get_multi with tokens", sorted(mc.get_multi(["many:1", "many:2"], get_cas=True)), ["many:1", "many:2"])

check("add", (mc.add("added", 1), mc.add("added", 2)), (True, False))
check("replace", (mc.replace("added", 3), mc.replace("missing", 3)), (True, False))

value, cas = mc.gets("text")
check("cas with the token of gets", mc.cas("text", "second", cas))
check("cas with a used token", mc.cas("text", "third", cas), False)
check("cas of a missing key", mc.cas("missing", "third", cas), False)
check("gets after it", mc.gets("text")[0], "second")

check("incr with a default", (mc.incr("counter", 5, default=10), mc.incr("counter", 5)), (10, 15))
check("decr stops at 0", mc.decr("counter", 100), 0)
check("delete", (mc.delete("added"), mc.get("added")), (True, None))
check("delete with a used token", mc.delete("text", cas=cas), False)
check("delete_multi", mc.delete_multi([f"many:{i}" for i in range(100)]) and mc.get_multi(["many:1"]), {})

mc.set("short", 1, time=1)
check("a value expires", mc.get("short") == 1 and within(4, lambda: mc.get("short") is None))

check("600 KiB", mc.set("large", LARGE) and mc.get("large") == LARGE)
check("a value that is too large is refused", fails(MemcachedException, lambda: mc.set("large", TOO_LARGE, compress_level=0)))
check("and the connection goes on", within(5, lambda: mc.set("text", 1) and mc.get("text") == 1))
check("a unicode key", mc.set("ключ:日本語", "значение") and mc.get("ключ:日本語"), "значение")
check("stats", int(mc.stats()[SERVER]["curr_items"]) > 0)
check("flush_all", mc.flush_all() and mc.get("text"), None)

if SASL_SERVER:
    good = bmemcached.Client([SASL_SERVER], SASL_USER, SASL_PASSWORD)
    check("SASL: the right password", good.set("secret", "s") and good.get("secret"), "s")
    wrong = bmemcached.Client([SASL_SERVER], SASL_USER, "wrong")
    check("SASL: a wrong password", fails(MemcachedException, lambda: wrong.set("secret", "t")))
    nobody = bmemcached.Client([SASL_SERVER])
    check("SASL: no password", fails(MemcachedException, lambda: nobody.set("secret", "t")))
    check("SASL: the value is what it was", good.get("secret"), "s")

if TLS_SERVER:
    context = trusting()
    # This client names no host to compare the certificate with.
    context.check_hostname = False
    encrypted = bmemcached.Client([TLS_SERVER], tls_context=context)
    check("TLS: set and get", encrypted.set("ключ", LARGE) and encrypted.get("ключ") == LARGE)

mc.set("before", "restart")
if restart_the_server():
    check("it works again after the server restarted", within(15, lambda: mc.set("after", 1) and mc.get("after") == 1))
    check("what was stored before is still there", mc.get("before") == "restart", REMEMBERS)
