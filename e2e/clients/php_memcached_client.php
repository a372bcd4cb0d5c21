<?php
// php-memcached: libmemcached, with the text and with the binary protocol, SASL.
declare(strict_types=1);

const LARGE_PIECE = "every byte\r\nEND\r\n";

function check(string $what, mixed $got, mixed $want = true): void
{
    if ($got !== $want) {
        printf("FAIL %s: got %.200s, not %.200s\n", $what, var_export($got, true), var_export($want, true));
        exit(1);
    }
    echo "ok   $what\n";
}

function within(float $seconds, callable $condition): bool
{
    for ($deadline = microtime(true) + $seconds; microtime(true) < $deadline; usleep(50_000)) {
        if ($condition()) {
            return true;
        }
    }
    return false;
}

function client(string $server, bool $binary, ?string $password = null): Memcached
{
    [$host, $port] = explode(':', $server);
    $mc = new Memcached();
    $mc->setOptions([
        Memcached::OPT_BINARY_PROTOCOL => $binary,
        Memcached::OPT_TCP_NODELAY => true,
        Memcached::OPT_COMPRESSION => false,
        Memcached::OPT_RETRY_TIMEOUT => 1,
    ]);
    if ($password !== null) {
        $mc->setSaslAuthData(getenv('SASL_USER'), $password);
    }
    $mc->addServer($host, (int) $port);
    return $mc;
}

function judge(Memcached $mc, string $protocol): void
{
    $holds = fn (string $what, mixed $got, mixed $want = true) => check("$protocol: $what", $got, $want);
    $mc->flush();

    $holds('a missing key', [$mc->get('missing'), $mc->getResultCode()], [false, Memcached::RES_NOTFOUND]);
    $holds('set and get', [$mc->set('text', 'value'), $mc->get('text')], [true, 'value']);
    $holds('flags bring the type back', [$mc->set('array', ['a' => [1, 2.5]]), $mc->get('array')], [true, ['a' => [1, 2.5]]]);
    $many = [];
    for ($i = 0; $i < 100; $i++) {
        $many["many:$i"] = $i;
    }
    $holds('setMulti', $mc->setMulti($many));
    $holds('getMulti keeps the order', $mc->getMulti([...array_keys($many), 'missing']), $many);
    $mc->getDelayed(['many:1', 'many:2'], true);
    $holds('getDelayed', array_column($mc->fetchAll(), 'value', 'key'), ['many:1' => 1, 'many:2' => 2]);

    $holds('add', [$mc->add('added', 1), $mc->add('added', 2)], [true, false]);
    $holds('replace', [$mc->replace('added', 3), $mc->replace('missing', 3)], [true, false]);
    $mc->set('joined', 'b');
    $holds('append and prepend', [$mc->append('joined', 'c'), $mc->prepend('joined', 'a'), $mc->get('joined')], [true, true, 'abc']);

    $token = $mc->get('text', null, Memcached::GET_EXTENDED)['cas'];
    $holds('cas with the token of a get', $mc->cas($token, 'text', 'second'));
    $holds('cas with a used token', [$mc->cas($token, 'text', 'third'), $mc->getResultCode()], [false, Memcached::RES_DATA_EXISTS]);
    $holds('cas of a missing key', [$mc->cas($token, 'missing', 'third'), $mc->getResultCode()], [false, Memcached::RES_NOTFOUND]);

    $mc->set('counter', 10);
    $holds('increment and decrement', [$mc->increment('counter', 5), $mc->decrement('counter', 7)], [15, 8]);
    $holds('decrement stops at 0', $mc->decrement('counter', 100), 0);
    if ($protocol === 'binary') {
        $holds('increment with a start', [$mc->increment('started', 1, 42), $mc->increment('started', 1, 42)], [42, 43]);
    } else {
        $holds('increment of a missing key', $mc->increment('missing', 1), false);
    }

    $holds('delete', [$mc->delete('added'), $mc->delete('added')], [true, false]);
    $holds('deleteMulti', $mc->deleteMulti(['many:1', 'missing']), ['many:1' => true, 'missing' => Memcached::RES_NOTFOUND]);
    $mc->set('short', 1, 1);
    $mc->set('touched', 1, 1);
    $holds('touch', [$mc->touch('touched', 100), $mc->touch('missing', 100)], [true, false]);
    $holds('a value expires', within(4, fn () => $mc->get('short') === false));
    $holds('a touched value does not', $mc->get('touched'), 1);

    $large = str_repeat(LARGE_PIECE, intdiv(600 * 1024, strlen(LARGE_PIECE)));
    $holds('600 KiB', $mc->set('large', $large) && $mc->get('large') === $large);
    $holds('a value that is too large is refused', $mc->set('large', str_repeat('x', 2 << 20)), false);
    $holds('and the client goes on', within(5, fn () => $mc->set('text', 1) && $mc->get('text') === 1));
    if ($protocol === 'binary') { // php-memcached refuses them in the text protocol
        $holds('a unicode key', [$mc->set('ключ:日本語', 'значение'), $mc->get('ключ:日本語')], [true, 'значение']);
    }
    $holds('version', preg_match('/^\d+\.\d+\.\d+/', array_values($mc->getVersion())[0]), 1);
    $holds('stats', array_values($mc->getStats())[0]['curr_items'] > 0);
    $holds('flush', [$mc->flush(), $mc->get('text')], [true, false]);
}

$clients = ['text' => client(getenv('SERVER'), false), 'binary' => client(getenv('SERVER'), true)];
foreach ($clients as $protocol => $mc) {
    judge($mc, $protocol);
}

if ($server = getenv('SASL_SERVER')) {
    $good = client($server, true, getenv('SASL_PASSWORD'));
    check('SASL: the right password', [$good->set('secret', 's'), $good->get('secret')], [true, 's']);
    check('SASL: a wrong password', client($server, true, 'wrong')->set('secret', 't'), false);
    check('SASL: no password', client($server, true)->set('secret', 't'), false);
    check('SASL: the value is what it was', $good->get('secret'), 's');
}

// libmemcached leaves a server that failed alone, until it is told to forget that.
function works(Memcached $mc): bool
{
    return $mc->set('after', 1) && $mc->get('after') === 1 || !$mc->quit();
}

if ($restart = getenv('RESTART')) {
    exec($restart, $output, $status);
    check('restarting the server', $status, 0);
    foreach ($clients as $protocol => $mc) {
        check("$protocol: it works again after the server restarted", within(15, fn () => works($mc)));
    }
}
