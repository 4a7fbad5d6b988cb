// Output: which stream, and in which order.
'use strict';
const assert = require('node:assert');
const { test } = require('node:test');
const { context } = require('./driver.cjs');

test('each word goes to its stream', async (t) => {
  const js = await context(t);
  await js.run('console.log("a"); console.error("b"); console.warn("c"); console.info("d"); console.dir({ x: 1 }); console.table([1])');
  assert.equal(await js.printed('stderr', 'c'), 'b\nc\n');
  assert.match(await js.printed('stdout', '└'), /^a\nd\n\{ x: 1 \}\n┌/);
  await js.run('process.stdout.write("x".repeat(3e6) + "END")');
  assert.equal((await js.printed('stdout', 'END')).length, 3e6 + 3);
});

// The kernel waits for a second. On a busy host the test may look later than that.
const MORE_PATIENCE = 'const wait = Atomics.wait; Atomics.wait = (array, index, value, ms) => wait(array, index, value, 600 * ms); 0';

test('one stream waits until the other is read', async (t) => {
  const js = await context(t);
  await js.run(MORE_PATIENCE);
  js.holdsTurns = true;
  const ended = js.run('console.log("one"); console.error("two"); 1');
  await js.until(() => js.heard.some(({ type }) => type === 'turn') && js.output.stdout === 'one\n');
  assert.equal(js.output.stderr, '');
  js.send({ type: 'turn' });
  assert.equal((await ended).text, '1');
  assert.equal(await js.printed('stderr', 'two'), 'two\n');
});

test('a host that does not answer is waited for once', async (t) => {
  const js = await context(t);
  js.holdsTurns = true;
  const told = await js.run('for (let n = 0; n < 50; n++) { console.log(n); console.error(n) }; "end"');
  assert.equal(told.text, "'end'");
  assert.equal(js.heard.filter(({ type }) => type === 'turn').length, 1);
});
