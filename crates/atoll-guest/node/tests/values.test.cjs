// State, results and errors of cells.
'use strict';
const assert = require('node:assert');
const { test } = require('node:test');
const util = require('node:util');
const vm = require('node:vm');
const { context } = require('./driver.cjs');

test('names live on and may be declared anew in any way', async (t) => {
  const js = await context(t);
  assert.equal((await js.run('let x = 1; const y = await Promise.resolve(2); class A {}; x + y')).text, '3');
  assert.equal((await js.run('const x = 40; let y = 2; class A { z = 1 }; x + y + new A().z')).text, '43');
  const kinds = [
    ['function f() { return 1 }\nf()', '1'],
    ['const f = () => 2\nf()', '2'],
    ['class f { a() { return 3 } }\n[new f().a()][0]', '3'],
    ['let { f, g } = { f: 4, g: 0 }; f', '4'],
    ['async function g() { return "}" + 5 }\n;[await g()][0]', "'}5'"],
    ['var g = 6; g', '6'],
  ];
  for (const [code, text] of kinds) assert.equal((await js.run(code)).text, text, code);
  assert.equal((await js.run('let x = 5; x')).text, '5');
  assert.equal((await js.run('const y = 6, [z] = [7]; y + z')).text, '13');
  assert.equal((await js.run('const own = 1; own = 2')).error.value, 'Assignment to constant variable.');
  assert.equal((await js.run('let x = 1; let x = 2')).error.name, 'SyntaxError');
  assert.equal((await js.run('let broken = nothing()')).error.name, 'ReferenceError');
  assert.equal((await js.run('let broken = 7; broken')).text, '7');
});

test('only values are results', async (t) => {
  const js = await context(t);
  for (const code of ['const q = 1', 'undefined', 'function k() {}', '', '// nothing', 'import "node:os"']) {
    assert.deepEqual((await js.run(code)).results, [], code);
  }
  const shown = { null: 'null', '-0': '-0', '2n ** 70n': '1180591620717411303424n', 'Symbol("s")': 'Symbol(s)', '"it"': "'it'" };
  for (const [code, text] of Object.entries(shown)) assert.equal((await js.run(code)).text, text);
  assert.equal((await js.run('async function main() { console.log("in"); return 8 }\nmain()')).text, '8');
  assert.deepEqual((await js.run('{ "a": 1, b: [2] }')).results[0].data['application/json'], { a: 1, b: [2] });
  assert.equal((await js.run('{ let inner = 1; inner + 1 }')).text, '2');
});

test('forms are what a value offers', async (t) => {
  const js = await context(t);
  const { results } = await js.run(`
    display({ 'text/html': '<b>x</b>', 'image/png': Buffer.from('hi') });
    $$.svg('<svg/>'); $$.json([1]);
    display(new Map([[1, 2]]));
    ({ [Symbol.for('Jupyter.display')]: () => ({ 'text/markdown': '# a' }) })`);
  assert.deepEqual(results.map(({ data }) => data), [
    { 'text/html': '<b>x</b>', 'image/png': 'aGk=' },
    { 'image/svg+xml': '<svg/>' },
    { 'text/plain': '[ 1 ]', 'application/json': [1] },
    { 'text/plain': 'Map(1) { 1 => 2 }' },
    { 'text/markdown': '# a' },
  ]);
  assert.deepEqual(results.map(({ main }) => main), [false, false, false, false, true]);
  const mimeLike = await js.run('({ "a/b": 1 })');
  assert.deepEqual(mimeLike.results[0].data['application/json'], { 'a/b': 1 });
});

test('deep, round and huge values are told within bounds', async (t) => {
  const js = await context(t);
  const deep = await js.run('let d = []; for (let i = 0; i < 9000; i++) d = [d]; d');
  assert.deepEqual(Object.keys(deep.results[0].data), ['text/plain']);
  const round = await js.run('const r = { a: 1 }; r.r = r; r');
  assert.match(round.text, /Circular/);
  const huge = await js.run('"x".repeat(5e6)', { most_bytes: 1 << 20 });
  assert.ok(huge.dropped && huge.text.length < 1 << 18 && huge.text.includes('more characters'));
  const refused = await js.run('({ [util.inspect.custom]() { throw new RangeError("shy") } })');
  assert.equal(refused.error.value, 'shy');
});

// Node 24 leaves out a tag that throws; older Node throws.
test('a value is told as this Node tells it', async (t) => {
  const js = await context(t);
  const code = '({ get [Symbol.toStringTag]() { throw new RangeError("shy") } })';
  const told = await js.run(code);
  let expected;
  try {
    expected = [util.inspect(vm.runInThisContext(code)), undefined];
  } catch (error) {
    expected = [undefined, error.message];
  }
  assert.deepEqual([told.text, told.error?.value], expected);
});

test('modules of Node are there by their plain names', async (t) => {
  const js = await context(t);
  assert.equal((await js.run('fs === require("fs") && path === require("node:path")')).text, 'true');
  const odd = await js.run('Object.getOwnPropertyNames(globalThis).filter((name) => /[/:]/.test(name))');
  assert.equal(odd.text, '[]');
});

test('errors have the lines of the user and none of ours', async (t) => {
  const js = await context(t);
  const thrown = await js.run('function f() {\n  throw new TypeError("bad", { cause: new Error("why") })\n}\n\nf()');
  const { name, value, traceback } = thrown.error;
  assert.deepEqual([name, value, traceback[0]], ['TypeError', 'bad', 'TypeError: bad']);
  const lines = traceback.join('\n');
  assert.match(lines, /at f \(cell_1\.js:2:9\)[^]*\[cause\]: Error: why[^]*cell_1\.js:5:1/);
  assert.doesNotMatch(lines, /node:|kernel|cell\.cjs|new Promise/);
  const late = await js.run('await (async () => {\n await 1; null.x })()');
  assert.ok(late.error.traceback.some((line) => line.includes('cell_2.js:2:')));
  assert.deepEqual((await js.run('\nthrow "text"')).error.traceback, ["'text'"]);
});

test('broken code is shown with its line', async (t) => {
  const js = await context(t);
  const { error } = await js.run('1\nlet let = 1');
  assert.deepEqual(error.traceback, [
    'cell_1.js:2',
    'let let = 1',
    '    ^',
    '',
    'SyntaxError: let is disallowed as a lexically bound name',
  ]);
  const parsed = await js.run('console.log("once"); JSON.parse("{x")');
  assert.deepEqual([parsed.error.name, await js.printed('stdout', 'once')], ['SyntaxError', 'once\n']);
});

test('what fails later is told and costs nothing', async (t) => {
  const js = await context(t);
  await js.run('let kept = 1; setTimeout(() => { throw new Error("late") }, 1); Promise.reject(new TypeError("rejected"))\n;0');
  const told = (await js.printed('stderr', 'rejected')) && (await js.printed('stderr', 'late'));
  assert.match(told, /Uncaught TypeError: rejected\n {4}at cell_1.js:1:/);
  assert.doesNotMatch(told, /node:/);
  assert.equal((await js.run('kept')).text, '1');
});

test('the environment of one execution is gone after it', async (t) => {
  const js = await context(t);
  assert.equal((await js.run('process.env.ONE', { env: { ONE: '1' } })).text, "'1'");
  assert.deepEqual((await js.run('process.env.ONE')).results, []);
});
