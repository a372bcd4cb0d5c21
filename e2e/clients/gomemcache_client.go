// gomemcache: text protocol, a pool of idle connections, errors as values.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"reflect"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
)

func check(what string, got, want any) {
	if !reflect.DeepEqual(got, want) {
		fmt.Printf("FAIL %s: got %.200v, not %.200v\n", what, got, want)
		os.Exit(1)
	}
	fmt.Println("ok  ", what)
}

// within says whether condition holds before the time has passed.
func within(limit time.Duration, condition func() bool) bool {
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if condition() {
			return true
		}
	}
	return false
}

var mc = memcache.New(os.Getenv("SERVER"))

// value is what get brings, or its error's text.
func value(key string) string {
	item, err := mc.Get(key)
	if err != nil {
		return err.Error()
	}
	return string(item.Value)
}

func item(key, value string) *memcache.Item {
	return &memcache.Item{Key: key, Value: []byte(value)}
}

func set(key, value string, seconds int32) error {
	return mc.Set(&memcache.Item{Key: key, Value: []byte(value), Expiration: seconds})
}

func main() {
	mc.Timeout = 5 * time.Second
	check("flush_all", mc.FlushAll(), nil)
	check("ping", mc.Ping(), nil)

	_, err := mc.Get("missing")
	check("a missing key is ErrCacheMiss", err, memcache.ErrCacheMiss)
	check("set", mc.Set(&memcache.Item{Key: "text", Value: []byte("value"), Flags: 4294967295}), nil)
	got, err := mc.Get("text")
	check("get", err, nil)
	check("value and flags of 32 bits", []any{string(got.Value), got.Flags}, []any{"value", uint32(4294967295)})
	check("an empty value", []any{set("empty", "", 0), value("empty")}, []any{nil, ""})

	manyKeys(mc)
	stores()
	compareAndSwap()
	counters()
	expiry()
	sizes()
	encrypts()
	reconnects()
}

func manyKeys(mc *memcache.Client) {
	var keys []string
	for i := range 200 {
		keys = append(keys, fmt.Sprintf("many:%d", i))
		if i < 100 {
			_ = set(keys[i], fmt.Sprint(i), 0)
		}
	}
	found, err := mc.GetMulti(keys)
	check("GetMulti leaves out what is missing", []any{err, len(found), string(found["many:99"].Value)}, []any{nil, 100, "99"})
}

func stores() {
	check("add", []any{mc.Add(item("added", "1")), mc.Add(item("added", "2"))}, []any{nil, memcache.ErrNotStored})
	check("replace", []any{mc.Replace(item("added", "3")), mc.Replace(item("missing", "3"))}, []any{nil, memcache.ErrNotStored})
	_ = set("joined", "b", 0)
	check("append and prepend", []any{mc.Append(item("joined", "c")), mc.Prepend(item("joined", "a")), value("joined")}, []any{nil, nil, "abc"})
	check("append to a missing key", mc.Append(item("missing", "c")), memcache.ErrNotStored)
	check("delete", []any{mc.Delete("added"), mc.Delete("added")}, []any{nil, memcache.ErrCacheMiss})
}

func compareAndSwap() {
	first, _ := mc.Get("text")
	late, _ := mc.Get("text")
	first.Value, late.Value = []byte("second"), []byte("third")
	check("CompareAndSwap", mc.CompareAndSwap(first), nil)
	check("CompareAndSwap of what has changed", mc.CompareAndSwap(late), memcache.ErrCASConflict)
	check("the first one won", value("text"), "second")
	_ = mc.Delete("text")
	check("CompareAndSwap of what is gone", mc.CompareAndSwap(late), memcache.ErrCacheMiss)
}

func counters() {
	_ = set("counter", "10", 0)
	after, err := mc.Increment("counter", 5)
	check("increment", []any{after, err}, []any{uint64(15), nil})
	after, err = mc.Decrement("counter", 100)
	check("decrement stops at 0", []any{after, err}, []any{uint64(0), nil})
	_, err = mc.Increment("missing", 1)
	check("increment of a missing key", err, memcache.ErrCacheMiss)
	_ = set("word", "ten", 0)
	_, err = mc.Increment("word", 1)
	check("increment of a word", fmt.Sprint(err), "memcache: client error: cannot increment or decrement non-numeric value")
}

func expiry() {
	_ = set("short", "1", 1)
	_ = set("touched", "1", 1)
	_ = set("got", "1", 1)
	check("touch", []any{mc.Touch("touched", 100), mc.Touch("missing", 100)}, []any{nil, memcache.ErrCacheMiss})
	_, err := mc.GetAndTouch("got", 100)
	check("GetAndTouch", err, nil)
	check("a value expires", within(4*time.Second, func() bool { return value("short") != "1" }), true)
	check("touched values do not", []any{value("touched"), value("got")}, []any{"1", "1"})
}

func sizes() {
	large := bytes.Repeat([]byte("0123456789\r\nEND\r\n"), 600*1024/17)
	check("600 KiB", mc.Set(&memcache.Item{Key: "large", Value: large}), nil)
	got, err := mc.Get("large")
	check("600 KiB come back", []any{err, bytes.Equal(got.Value, large)}, []any{nil, true})
	err = mc.Set(&memcache.Item{Key: "large", Value: make([]byte, 2<<20)})
	check("a value that is too large is refused", err != nil, true)
	check("and the client goes on", []any{set("text", "1", 0), value("text")}, []any{nil, "1"})
	check("a unicode key", []any{set("ключ:日本語", "значение", 0), value("ключ:日本語")}, []any{nil, "значение"})
	check("the client refuses a key with a space", errors.Is(set("a b", "1", 0), memcache.ErrMalformedKey), true)
}

func reconnects() {
	restart := os.Getenv("RESTART")
	if restart == "" {
		return
	}
	set("before", "restart", 0)
	if out, err := exec.Command("sh", "-c", restart).CombinedOutput(); err != nil {
		check("restarting the server", string(out), "")
	}
	works := func() bool { return set("after", "restart", 0) == nil && value("after") == "restart" }
	check("it works again after the server restarted", within(10*time.Second, works), true)
	check("what was stored before is still there", value("before") == "restart", os.Getenv("REMEMBERS") != "")
}

func encrypts() {
	server := os.Getenv("TLS_SERVER")
	if server == "" {
		return
	}
	certificate, err := os.ReadFile(os.Getenv("TLS_CA"))
	check("TLS: the certificate", err, nil)
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(certificate)
	dialer := tls.Dialer{Config: &tls.Config{RootCAs: trusted}}
	encrypted := memcache.New(server)
	encrypted.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		return dialer.DialContext(ctx, network, address)
	}
	large := bytes.Repeat([]byte("x"), 600*1024)
	check("TLS: set", encrypted.Set(&memcache.Item{Key: "ключ", Value: large}), nil)
	item, err := encrypted.Get("ключ")
	check("TLS: get", []any{err, bytes.Equal(item.Value, large)}, []any{nil, true})
	check("TLS: nobody is served without", memcache.New(server).Ping() != nil, true)
}
