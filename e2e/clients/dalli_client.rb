# Dalli: binary protocol, marshalled values, compression, namespaces, SASL.
require "dalli"
require "logger"
require "openssl"

Dalli.logger = Logger.new(File::NULL)
SERVER, SASL_SERVER, RESTART = ENV.values_at("SERVER", "SASL_SERVER", "RESTART")
LARGE = Random.new(1).bytes(600 * 1024)

def check(what, got, want = true)
  unless got == want
    puts "FAIL #{what}: got #{got.inspect[0, 200]}, not #{want.inspect[0, 200]}"
    exit 1
  end
  puts "ok   #{what}"
end

def fails(error)
  yield
  false
rescue error
  true
end

def within(seconds)
  deadline = Time.now + seconds
  while Time.now < deadline
    return true if begin yield rescue false end
    sleep 0.05
  end
  false
end

mc = Dalli::Client.new(SERVER, socket_timeout: 5)
mc.flush

check "a missing key is nil", mc.get("missing"), nil
check "set and get", [mc.set("text", "value") ? 1 : 0, mc.get("text")], [1, "value"]
check "flags bring the type back", (mc.set("hash", { a: [1, 2.5] }); mc.get("hash")), { a: [1, 2.5] }
check "fetch", [mc.fetch("fetched") { 7 }, mc.fetch("fetched") { 8 }], [7, 7]
mc.multi { 100.times { |i| mc.set("many:#{i}", i) } }
check "100 quiet sets, get_multi", mc.get_multi((0...200).map { |i| "many:#{i}" }), (0...100).to_h { |i| ["many:#{i}", i] }
check "get_multi_cas", mc.get_multi_cas("many:1", "many:2").transform_values(&:first), { "many:1" => 1, "many:2" => 2 } if mc.respond_to?(:get_multi_cas)

check "add", [!!mc.add("added", 1), !!mc.add("added", 2)], [true, false]
# What replace returns is a token when it replaced, and 0, which Ruby takes for true, when not.
check "replace", [mc.replace("added", 3).positive?, mc.replace("missing", 3).to_i, mc.get("added"), mc.get("missing")], [true, 0, 3, nil]
mc.set("joined", "b", 0, raw: true)
check "append and prepend", [!!mc.append("joined", "c"), !!mc.prepend("joined", "a"), mc.get("joined", raw: true)], [true, true, "abc"]

check "cas", [!!mc.cas("text") { |value| value + "!" }, mc.get("text")], [true, "value!"]
check "cas of what changes meanwhile", !!mc.cas("text") { mc.set("text", "other"); "mine" }, false
check "the other one won", mc.get("text"), "other"
check "cas of a missing key", mc.cas("missing") { 1 }, nil

check "incr with a default", [mc.incr("counter", 5, nil, 10), mc.incr("counter", 5)], [10, 15]
check "decr stops at 0", mc.decr("counter", 100), 0
check "incr of a missing key", mc.incr("missing", 1), nil

check "delete", [!!mc.delete("added"), !!mc.delete("added")], [true, false]
mc.set("short", 1, 1)
mc.set("touched", 1, 1)
mc.set("got", 1, 1)
check "touch", [!!mc.touch("touched", 100), !!mc.touch("missing", 100)], [true, false]
check "gat", mc.gat("got", 100), 1
check "a value expires", within(4) { mc.get("short").nil? }
check "touched values do not", [mc.get("touched"), mc.get("got")], [1, 1]

check "600 KiB", (mc.set("large", LARGE); mc.get("large") == LARGE)
check "600 KiB, compressed", (mc.set("zip", "x" * 600_000, nil, compress: true); mc.get("zip") == "x" * 600_000)
huge = Dalli::Client.new(SERVER, value_max_bytes: 8 << 20, compress: false, socket_timeout: 5)
check "a value that is too large is refused", (begin !huge.set("large", "x" * (2 << 20)) rescue Dalli::DalliError; true end)
check "and the client goes on", within(5) { huge.set("text", 1) && huge.get("text") == 1 }
check "a unicode key", (mc.set("ключ:日本語", "значение"); mc.get("ключ:日本語")), "значение"
spaced = Dalli::Client.new(SERVER, namespace: "ns")
check "a namespace", (spaced.set("text", "in ns"); [spaced.get("text"), mc.get("ns:text")]), ["in ns", "in ns"]
check "version", mc.version.values.first[/\A\d+\.\d+/].nil?, false
check "stats", mc.stats.values.first["curr_items"].to_i.positive?
check "flush", (mc.flush; mc.get("text")), nil

if SASL_SERVER
  user = ENV["SASL_USER"]
  good = Dalli::Client.new(SASL_SERVER, username: user, password: ENV["SASL_PASSWORD"])
  check "SASL: the right password", (good.set("secret", "s"); good.get("secret")), "s"
  wrong = Dalli::Client.new(SASL_SERVER, username: user, password: "wrong")
  check "SASL: a wrong password", fails(Dalli::DalliError) { wrong.set("secret", "t") }
  check "SASL: no password", !!(begin Dalli::Client.new(SASL_SERVER).set("secret", "t") rescue false end), false
  check "SASL: the value is what it was", good.get("secret"), "s"
end

if (server = ENV["TLS_SERVER"])
  context = OpenSSL::SSL::SSLContext.new
  context.ca_file = ENV["TLS_CA"]
  context.verify_mode = OpenSSL::SSL::VERIFY_PEER
  encrypted = Dalli::Client.new(server, ssl_context: context, value_max_bytes: 8 << 20, compress: false)
  check "TLS: set and get", (encrypted.set("ключ", LARGE); encrypted.get("ключ") == LARGE)
end

mc.set("before", "restart")
if RESTART
  system(RESTART, exception: true)
  check "it works again after the server restarted", within(15) { mc.set("after", 1) && mc.get("after") == 1 }
  check "what was stored before is still there", mc.get("before") == "restart", !ENV["REMEMBERS"].to_s.empty?
end
