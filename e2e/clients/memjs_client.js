// memjs: binary protocol, promises, SASL.
'use strict';
const assert = require('node:assert');
const { execSync } = require('node:child_process');
const { setTimeout: sleep } = require('node:timers/promises');
const memjs = require(process.env.MEMJS);

const { SERVER, SASL_SERVER, SASL_USER, SASL_PASSWORD, RESTART } = process.env;
const QUIET = { log() {} };
const LARGE = Buffer.alloc(600 * 1024, 'every byte\r\nEND\r\n');

function check(what, got, want = true) {
  try {
    assert.deepStrictEqual(got, want);
  } catch {
    console.log(`FAIL ${what}: got ${String(JSON.stringify(got)).slice(0, 200)}, not ${String(JSON.stringify(want)).slice(0, 200)}`);
    process.exit(1);
  }
  console.log('ok  ', what);
}

// A promise that nobody settles lets node end early: that is no success.
process.exitCode = 1;

const fails = (promise) => promise.then(() => false, () => true);

// memjs forgets a request whose connection is closed under it: condition gets a second each time.
async function within(milliseconds, condition) {
  for (const deadline = Date.now() + milliseconds; Date.now() < deadline; await sleep(50)) {
    if (await Promise.race([condition().catch(() => false), sleep(1000, false)])) return true;
  }
  return false;
}

async function main() {
  const mc = memjs.Client.create(SERVER, { timeout: 5, logger: QUIET });
  const text = async (key) => {
    const { value } = await mc.get(key);
    return value === null ? null : value.toString();
  };
  await mc.flush();

  check('a missing key is null', await text('missing'), null);
  check('set and get', [await mc.set('text', 'value', {}), await text('text')], [true, 'value']);
  check('bytes', (await mc.set('bytes', Buffer.from([0, 13, 10, 255]), {})) && [...(await mc.get('bytes')).value], [0, 13, 10, 255]);
  check('an empty value', [await mc.set('empty', '', {}), await text('empty')], [true, '']);

  const keys = Array.from({ length: 100 }, (_, i) => `many:${i}`);
  check('100 sets in flight', (await Promise.all(keys.map((key, i) => mc.set(key, String(i), {})))).every(Boolean));
  check('100 gets in flight', await Promise.all(keys.map(text)), keys.map((_, i) => String(i)));

  check('add', [await mc.add('added', '1', {}), await mc.add('added', '2', {})], [true, false]);
  check('replace', [await mc.replace('added', '3', {}), await mc.replace('missing', '3', {})], [true, false]);
  await mc.set('joined', 'b', {});
  // memjs 1.3.2 sends what is to be prepended as an append too.
  check('append', [await mc.append('joined', 'c'), await text('joined')], [true, 'bc']);
  check('append to a missing key', await fails(mc.append('missing', 'c')));

  check('increment with a start', (await mc.increment('counter', 5, { initial: 10 })).value, 10);
  check('increment', (await mc.increment('counter', 5, {})).value, 15);
  check('decrement stops at 0', (await mc.decrement('counter', 100, {})).value, 0);

  check('delete', [await mc.delete('added'), await mc.delete('added')], [true, false]);
  await mc.set('short', '1', { expires: 1 });
  await mc.set('touched', '1', { expires: 1 });
  check('touch', [await mc.touch('touched', 100), await mc.touch('missing', 100)], [true, false]);
  check('a value expires', await within(4000, async () => (await text('short')) === null));
  check('a touched value does not', await text('touched'), '1');

  check('600 KiB', await mc.set('large', LARGE, {}));
  check('600 KiB come back', LARGE.equals((await mc.get('large')).value));
  check('a value that is too large is refused', await fails(mc.set('large', Buffer.alloc(2 << 20), {})));
  check('and the connection goes on', await within(5000, async () => (await mc.set('text', '1', {})) && (await text('text')) === '1'));
  check('a unicode key', [await mc.set('ключ:日本語', 'значение', {}), await text('ключ:日本語')], [true, 'значение']);
  const stats = await new Promise((resolve, reject) => mc.stats((error, _, found) => (error ? reject(error) : resolve(found))));
  check('stats', Number(stats.curr_items) > 0);
  check('flush', [Object.values(await mc.flush())[0], await text('text')], [true, null]);

  if (SASL_SERVER) await sasl();
  if (RESTART) {
    execSync(RESTART);
    check('it works again after the server restarted', await within(15000, async () => (await mc.set('after', '1', {})) && (await text('after')) === '1'));
  }
  mc.quit();
}

async function sasl() {
  const client = (password) => memjs.Client.create(SASL_SERVER, { username: SASL_USER, password, timeout: 5, retries: 0, logger: QUIET });
  const good = client(SASL_PASSWORD);
  check('SASL: the right password', [await good.set('secret', 's', {}), (await good.get('secret')).value.toString()], [true, 's']);
  const wrong = client('wrong');
  check('SASL: a wrong password', await fails(wrong.set('secret', 't', {})));
  check('SASL: the value is what it was', (await good.get('secret')).value.toString(), 's');
  good.close();
  wrong.close();
}

main().then(() => process.exit(0), (error) => {
  console.log('FAIL', error);
  process.exit(1);
});
