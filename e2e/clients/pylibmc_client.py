"""pylibmc: libmemcached, with the text and with the binary protocol.

Its wheel brings a SASL library that finds no mechanisms; libmemcached's SASL is judged by the PHP client.
"""

import pylibmc

from checks import LARGE, SERVER, TOO_LARGE, check, fails, restart_the_server, within

BEHAVIORS = {"tcp_nodelay": True, "cas": True, "connect_timeout": 2000, "retry_timeout": 1}


def client(binary):
    return pylibmc.Client([SERVER], binary=binary, behaviors=BEHAVIORS)


def not_there(action):
    """Whether ACTION finds no key: the binary protocol says so, which raises; the text protocol says NOT_STORED."""
    try:
        return not action()
    except pylibmc.NotFound:
        return True


def judge(mc, protocol):
    def holds(what, got, want=True):
        check(f"{protocol}: {what}", got, want)

    mc.flush_all()
    holds("a missing key is None", mc.get("missing"), None)
    holds("set and get", mc.set("text", "value") and mc.get("text"), "value")
    holds("flags bring the type back", mc.set("list", [1, "2", None]) and mc.get("list"), [1, "2", None])
    holds("set_multi", mc.set_multi({f"many:{i}": i for i in range(100)}), [])
    holds("get_multi", mc.get_multi([f"many:{i}" for i in range(200)]), {f"many:{i}": i for i in range(100)})
    holds("get_multi with a prefix", mc.get_multi(["1", "2"], key_prefix="many:"), {"1": 1, "2": 2})

    holds("add", (mc.add("added", 1), mc.add("added", 2)), (True, False))
    holds("replace", mc.replace("added", 3))
    holds("replace of a missing key", not_there(lambda: mc.replace("missing", 3)))
    mc.set("joined", b"b")
    holds("append and prepend", mc.append("joined", b"c") and mc.prepend("joined", b"a") and mc.get("joined"), b"abc")

    value, cas = mc.gets("text")
    holds("cas with the token of gets", mc.cas("text", "second", cas))
    holds("cas with a used token", mc.cas("text", "third", cas), False)
    holds("cas of a missing key", fails(pylibmc.NotFound, lambda: mc.cas("missing", "third", cas)))

    mc.set_multi({"counter": 10, "another": 20})
    holds("incr and decr", (mc.incr("counter", 5), mc.decr("counter", 7)), (15, 8))
    holds("decr stops at 0", mc.decr("counter", 100), 0)
    holds("incr of a missing key", fails(pylibmc.NotFound, lambda: mc.incr("missing")))
    mc.incr_multi(["counter", "another"], delta=2)
    holds("incr_multi", mc.get_multi(["counter", "another"]), {"counter": 2, "another": 22})

    holds("delete", (mc.delete("added"), not_there(lambda: mc.delete("added"))), (True, True))
    holds("delete_multi", mc.delete_multi([f"many:{i}" for i in range(100)]) and mc.get_multi(["many:1"]), {})

    mc.set("short", 1, time=1)
    mc.set("touched", 1, time=1)
    holds("touch", (mc.touch("touched", 100), not_there(lambda: mc.touch("missing", 100))), (True, True))
    holds("a value expires", within(4, lambda: mc.get("short") is None))
    holds("a touched value does not", mc.get("touched"), 1)

    holds("600 KiB", mc.set("large", LARGE) and mc.get("large") == LARGE)
    holds("600 KiB of text, compressed", mc.set("zip", "x" * 600_000, min_compress_len=1000) and mc.get("zip") == "x" * 600_000)
    holds("a value that is too large is refused", fails(pylibmc.Error, lambda: mc.set("large", TOO_LARGE)))
    holds("and the connection goes on", within(5, lambda: mc.set("text", 1) and mc.get("text") == 1))
    if protocol == "text":  # libmemcached lets only the text protocol have them
        holds("a unicode key", mc.set("ключ", "значение") and mc.get("ключ"), "значение")
    holds("stats", int(mc.get_stats()[0][1]["curr_items"]) > 0)
    holds("flush_all", mc.flush_all() and mc.get("text"), None)


text, binary = client(False), client(True)
judge(text, "text")
judge(binary, "binary")


def works(mc):
    """libmemcached leaves a server that failed alone, until it is told to forget that."""
    try:
        return mc.set("after", 1) and mc.get("after") == 1
    except pylibmc.Error:
        mc.disconnect_all()
        return False


if restart_the_server():
    check("text: it works again after the server restarted", within(15, lambda: works(text)))
    check("binary: it works again after the server restarted", within(15, lambda: works(binary)))
