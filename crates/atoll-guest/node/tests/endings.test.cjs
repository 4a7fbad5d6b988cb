// Interrupts and exits: the code ends, the state stays.
'use strict';
const assert = require('node:assert');
const { test } = require('node:test');
const { context } = require('./driver.cjs');

const MARK = 'console.log("MARK");';
const ENDLESS = {
  'a loop': `${MARK} while (true) {}`,
  'a loop that catches': `${MARK} for (;;) try { while (true) {} } catch {} finally { console.log("FINALLY") }`,
  'a wait': `${MARK} await new Promise(() => {})`,
  'a promise as the value': `${MARK} new Promise(() => {})`,
  'a loop after a wait': `await 1; ${MARK} while (true) {}`,
  'a loop of waits': `${MARK} while (true) await null`,
  'a loop in a timer': `setTimeout(() => { ${MARK} while (true) {} }, 1); await new Promise(() => {})`,
  'a loop in a tick': `process.nextTick(() => { ${MARK} while (true) {} }); await new Promise(() => {})`,
  'a loop while a value is shown': `${MARK} ({ [util.inspect.custom]() { while (true) {} } })`,
  'a child process': `${MARK} child_process.execSync('sleep 1000')`,
  'a lock': `${MARK} Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)`,
  'a regular expression': `${MARK} /(a+)+b/.test('a'.repeat(60))`,
};

test('an interrupt ends whatever runs and keeps the state', async (t) => {
  const js = await context(t);
  await js.run('let kept = 41');
  for (const [name, code] of Object.entries(ENDLESS)) {
    const ended = await js.run(code, { interruptAt: 'MARK' });
    assert.deepEqual([ended.error?.name, ended.stdout], ['KeyboardInterrupt', 'MARK\n'], name);
    assert.equal((await js.run('kept + 1')).text, '42', name);
  }
  assert.equal((await js.run('await new Promise((done) => setTimeout(done, 1, "timers work"))')).text, "'timers work'");
});

test('an interrupt in the middle of a print leaves the outputs whole', async (t) => {
  const js = await context(t);
  for (const print of ['console.log', 'console.error', 'console.log', 'console.error', 'console.log', 'console.error']) {
    const ended = await js.run(`${MARK} for (;;) ${print}("again")`, { interruptAt: 'MARK' });
    assert.equal(ended.error?.name, 'KeyboardInterrupt');
    await js.run('console.log("one " + 1); console.error("two " + 2)');
    await Promise.all([js.printed('stdout', 'one 1'), js.printed('stderr', 'two 2')]);
  }
});

// V8 tells of a promise that was collected, and Node 22 and later die of that.
test('a wait that nothing can end goes on until its interrupt', async (t) => {
  const js = await context(t);
  await js.run('v8.setFlagsFromString("--expose-gc"); const collect = vm.runInNewContext("gc"); let times = 0');
  const turn = `collect(); if (++times === 3) ${MARK}`;
  const ended = await js.run(`setInterval(() => { ${turn} }, 1); await new Promise(() => {})`, { interruptAt: 'MARK' });
  assert.deepEqual([ended.error?.name, ended.stdout], ['KeyboardInterrupt', 'MARK\n']);
  const after = 'for (let i = 0; i < 3; i++) { collect(); await new Promise(setImmediate) }; times >= 3';
  assert.equal((await js.run(after)).text, 'true');
});

test('a cell that waits for a timer does not go on after its interrupt', async (t) => {
  const js = await context(t);
  const sleeps = [
    'new Promise((done) => setTimeout(done, 1))',
    'new Promise(setImmediate)',
    'require("timers/promises").setTimeout(1)',
    'util.promisify(setTimeout)(1)',
  ];
  for (const sleep of sleeps) {
    await js.run(`globalThis.turns = 0; for (;;) { await ${sleep}; if (++turns === 3) ${MARK} }`, { interruptAt: 'MARK' });
    const turns = await js.run('const before = turns; await new Promise((done) => setTimeout(done, 30)); turns - before');
    assert.equal(turns.text, '0', sleep);
  }
});

test('an interrupt of nothing harms nothing', async (t) => {
  const js = await context(t);
  js.send({ type: 'interrupt' });
  assert.equal((await js.run('6 * 7')).text, '42');
});

test('process.exit ends the cell and not the context', async (t) => {
  const js = await context(t);
  const left = await js.run('let kept = 1; try { process.exit(3) } catch {} finally { console.log("no") }\nconsole.log("no")');
  assert.deepEqual([left.exitCode, left.error.name, left.error.value, left.stdout], [3, 'SystemExit', '3', '']);
  const fine = await js.run('process.exit()');
  assert.deepEqual([fine.exitCode, fine.error], [0, undefined]);
  assert.equal((await js.run('setTimeout(() => process.exit(4), 1); await new Promise(() => {})')).exitCode, 4);
  assert.equal((await js.run('kept')).text, '1');
});

test('a hard exit ends the process at once', async (t) => {
  const js = await context(t);
  await assert.rejects(js.run('process.reallyExit(5)'), /"code":5.*"stderr":""/);
});

const LATE = {
  'a timer': 'setTimeout(() => display("LATE"), 20)',
  'a chain that nothing awaits': '(async () => { await new Promise(setImmediate); await display("LATE") })()',
  'a file': 'fs.readFile("/dev/null", () => setImmediate(() => display("LATE")))',
  'a child': 'child_process.exec("echo LATE", (_, out) => display(out.trim()))',
  'an interval that ends': 'let n = 0; const i = setInterval(() => ++n > 2 && (clearInterval(i), display("LATE")), 1)',
};

test('code that is run once ends when nothing is left to do', async (t) => {
  for (const [name, code] of Object.entries(LATE)) {
    const ended = await (await context(t)).run(`${code}; "value"`, { once: true });
    const shown = ended.results.map(({ data }) => data['text/plain']);
    assert.deepEqual([shown, ended.error, ended.exitCode], [["'value'", "'LATE'"], undefined, null], name);
  }
});

test('what a callback throws is the error of code that is run once', async (t) => {
  const thrown = ['setTimeout(() => { throw new TypeError("late") }, 1)', 'setTimeout(() => Promise.reject(new TypeError("late")), 1)'];
  for (const code of thrown) {
    const ended = await (await context(t)).run(code, { once: true });
    assert.deepEqual([ended.error?.name, ended.error?.value, ended.stderr], ['TypeError', 'late', ''], code);
  }
  const exits = await (await context(t)).run('setTimeout(() => process.exit(3), 1)', { once: true });
  assert.equal(exits.exitCode, 3);
});

test('code that never comes to its end is interrupted while it is waited for', async (t) => {
  const js = await context(t);
  for (const late of [`setInterval(() => { ${MARK} }, 50)`, `setTimeout(() => { ${MARK} while (true) {} }, 1)`]) {
    const ended = await js.run(`${late}; 7`, { once: true, interruptAt: 'MARK' });
    assert.deepEqual([ended.error?.name, ended.text], ['KeyboardInterrupt', '7'], late);
  }
});

test('a context that lives on does not wait for what is left to do', async (t) => {
  const js = await context(t);
  const ended = await js.run('setInterval(() => {}, 1000); 7');
  assert.equal(ended.text, '7');
});
