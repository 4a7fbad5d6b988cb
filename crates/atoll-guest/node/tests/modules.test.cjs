// `import`, `export`, `require`, and TypeScript.
'use strict';
const assert = require('node:assert');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { test } = require('node:test');
const { context } = require('./driver.cjs');
const rewrite = require('../rewrite.cjs');

function directory(t) {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'cell-'));
  t.after(() => fs.rmSync(dir, { recursive: true }));
  fs.writeFileSync(path.join(dir, 'own.mjs'), 'export default 1; export const two = 2; export const url = import.meta.url;');
  fs.writeFileSync(path.join(dir, 'data.json'), '{"three": 3}');
  fs.mkdirSync(path.join(dir, 'node_modules/pack'), { recursive: true });
  const both = '{"name":"pack","exports":{"import":"./i.mjs","require":"./r.cjs"}}';
  fs.writeFileSync(path.join(dir, 'node_modules/pack/package.json'), both);
  fs.writeFileSync(path.join(dir, 'node_modules/pack/i.mjs'), 'export const how = "import"');
  fs.writeFileSync(path.join(dir, 'node_modules/pack/r.cjs'), 'exports.how = "require"');
  return dir;
}

test('every kind of import works from the current directory', async (t) => {
  const js = await context(t, { cwd: directory(t) });
  const code = `import one, { two as zwei } from './own.mjs';
    import * as all from "./own.mjs"
    import { how } from 'npm:pack@1.2.3'
    import data from './data.json' with { type: 'json' }
    import 'node:os'
    ;[one, zwei, all.two, how, data.three, require('pack').how, (await import('./own.mjs')).two]`;
  const told = await js.run(code);
  assert.deepEqual(told.results[0]?.data['application/json'], [1, 2, 2, 'import', 3, 'require', 2], JSON.stringify(told));
  assert.equal((await js.run('zwei + one')).text, '3');
  assert.match((await js.run('import.meta.url')).text, /^'file:.*cell\.js'$/);
  assert.equal((await js.run('require.main === module && typeof fs.readFileSync')).text, "'function'");
});

test('what cannot be imported is an error of the cell', async (t) => {
  const js = await context(t, { cwd: directory(t) });
  const absent = await js.run('\nimport {\n  nope\n} from "fs"\n1');
  assert.match(absent.error.value, /'fs' does not provide an export named 'nope'/);
  assert.match((await js.run('import x from "not-there"')).error.value, /Cannot find package 'not-there'/);
  const after = await js.run('import {\n  EOL\n} from "os"\nthrow new Error("line four")');
  assert.ok(after.error.traceback.includes('    at cell_3.js:4:7'), JSON.stringify(after.error));
});

test('words in text are no imports', () => {
  const same = [
    '"import x from y"; `import ${"a"} from b`; /import x from "y"/; // import z from "k"\n/* export default 1 */',
    'const o = { import: 1, export: 2 }; o.import; class Q { import(x) { return x } export() {} }',
  ];
  for (const code of same) assert.equal(rewrite.withoutModules(code, true), code);
});

test('exports stay in the cell', async (t) => {
  const js = await context(t);
  assert.equal((await js.run('export const a = 1; export default function b() { return 2 }\nexport { a, b };\na + b()')).text, '3');
  assert.equal((await js.run('export default { c: 4 }')).text, '{ c: 4 }');
  assert.equal((await js.run('export class D {}; typeof D')).text, "'function'");
});

test('types go and lines stay', async (t) => {
  const ts = await context(t, { language: 'typescript' });
  const code = `interface Point { x: number; y?: string }
type Pair<T> = [T, T];
enum Color { Red, Green = 'g' }
abstract class Shape<T extends object> { constructor(protected readonly name: string, public size = 2) {} abstract area(): number }
class Square extends Shape<Point> { area(): number { return this.size ** 2 } }
const p = { x: 1 } satisfies Point;
function first<T>(pair: Pair<T>): T { return pair[0]! }
import type { Stats } from 'fs';
import { type Dirent, readFileSync } from 'fs';
[first<number>([p.x as number, 2]), Color.Green, Color[0], new Square('s').area(), typeof readFileSync]`;
  const told = await ts.run(code);
  assert.deepEqual(told.results[0]?.data['application/json'], [1, 'g', 'Red', 4, 'function'], JSON.stringify(told.error));
  const thrown = await ts.run('type A = {\n  a: number\n}\nconst a: A = null as any;\na.a');
  assert.ok(thrown.error.traceback.includes('    at cell_2.js:5:3'), JSON.stringify(thrown.error));
  assert.deepEqual((await ts.run('1\nconst x: = 1')).error.traceback.slice(0, 2), ['cell_3.js:2', 'const x: = 1']);
  assert.match((await ts.run('namespace N { export const a = 1 }')).error.value, /namespace/);
});

test('an object is an object in both languages, and a block is a block', async (t) => {
  for (const language of ['javascript', 'typescript']) {
    const one = await context(t, { language });
    assert.equal((await one.run('{a: 1, b: 2}')).text, '{ a: 1, b: 2 }', language);
    assert.equal((await one.run('\n  { f() { return 1 } }\n')).text, '{ f: [Function: f] }', language);
    assert.equal((await one.run('{ globalThis.c = 3; }\n')).text, '3', language);
    assert.equal((await one.run('{ c = 4 }')).text, '4', language);
  }
});

test('a JavaScript context takes types as well', async (t) => {
  const js = await context(t);
  assert.equal((await js.run('function sub(x: number, y: number): number {\n  return x - y\n}\nsub(1, 2)')).text, '-1');
});
