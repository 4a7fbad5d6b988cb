// What a cell finds besides JavaScript itself: `require`, `module`, `import` by another name, `display` and `$$`, timers
// that an interrupt can clear, outputs that keep their order, and a `process.exit` that ends the cell and not the context.
'use strict';
const Module = require('node:module');
const net = require('node:net');
const path = require('node:path');
const { Writable } = require('node:stream');
const timers = require('node:timers');
const { pathToFileURL } = require('node:url');
const util = require('node:util');
const vm = require('node:vm');
const show = require('./show.cjs');

const PATIENCE_MS = 1000;
const TIDY_TIMERS_AT = 4096;
const SHORT = { html: 'text/html', svg: 'image/svg+xml', png: 'image/png', jpeg: 'image/jpeg', markdown: 'text/markdown' };

function furnish(state) {
  hide(globalThis, { ...modules(), ...displays(state) });
  Module.builtinModules.filter((name) => !/^_|[/:]/.test(name) && !(name in globalThis)).forEach(lazily);
  hide(process, { exit: exitOf(state) });
  watchTimers(state);
  takeTurns(state);
  Module.syncBuiltinESMExports();
}

function hide(target, values) {
  for (const [name, value] of Object.entries(values)) {
    Object.defineProperty(target, name, { value, writable: true, configurable: true, enumerable: false });
  }
}

// As in Node's own console: `fs` and the others are there without `require`.
function lazily(name) {
  const put = (value) => hide(globalThis, { [name]: value });
  const get = () => require(`node:${name}`);
  Object.defineProperty(globalThis, name, { get, set: put, configurable: true, enumerable: false });
}

// ---- modules

function modules() {
  const filename = path.join(process.cwd(), 'cell.js');
  const require = Module.createRequire(filename);
  const module = { exports: {}, filename, id: '.', loaded: true, paths: require.resolve.paths('x') ?? [] };
  require.main = module;
  const url = pathToFileURL(filename).href;
  const meta = { dirname: process.cwd(), filename, url, resolve: (name) => resolve(require, name) };
  return {
    require,
    module,
    exports: module.exports,
    __dirname: process.cwd(),
    __filename: filename,
    __atoll_meta__: meta,
    __atoll_import__: importerOf(filename),
  };
}

function resolve(require, name) {
  const found = require.resolve(name);
  return path.isAbsolute(found) ? pathToFileURL(found).href : found;
}

// `names`: what a static import asks for; a module without one of them is refused, as everywhere.
function importerOf(filename) {
  const load = loaderOf(filename);
  return async (specifier, options, names = []) => {
    const module = await load(String(specifier).replace(/^npm:((?:@[^/]+\/)?[^@/]+)(?:@[^/]+)?/, '$1'), options);
    const missing = names.find((name) => !(name in module));
    if (missing === undefined) return module;
    throw new SyntaxError(`The requested module '${specifier}' does not provide an export named '${missing}'`);
  };
}

// Names are looked up from the current directory. Node before 20.12 has no word for that; there, code of a file that could
// be in it does the same.
function loaderOf(filename) {
  const code = '(specifier, options) => import(specifier, options)';
  const importModuleDynamically = vm.constants?.USE_MAIN_CONTEXT_DEFAULT_LOADER;
  if (importModuleDynamically) return vm.runInThisContext(code, { importModuleDynamically });
  const module = new Module(filename);
  module._compile(`module.exports = ${code}`, filename);
  return module.exports;
}

// ---- showing

function displays(state) {
  const mime = (bundle) => void state.cell?.result(show.wire(bundle), false);
  const display = async (value) => {
    const { cell } = state;
    cell?.result(show.isBundle(value) ? show.wire(value) : await show.forms(value), false);
  };
  const short = Object.entries(SHORT).map(([name, type]) => [name, (value) => mime({ [type]: value })]);
  const $$ = { mime, display, text: (value) => mime({ 'text/plain': String(value) }), ...Object.fromEntries(short) };
  $$.json = (value) => mime({ 'text/plain': util.inspect(value, { depth: 4 }), 'application/json': value });
  return { display, $$ };
}

// ---- output

// Two pipes have no order between them. So whoever changes the stream waits until the host has read the other one. A host
// that does not answer is not waited for twice in a cell. Writes block: nothing is left to write when a cell has ended.
function takeTurns(state) {
  let last = process.stdout;
  for (const stream of [process.stdout, process.stderr]) {
    const write = stream.write.bind(stream);
    stream._handle?.setBlocking?.(true);
    const inTurn = (...args) => {
      if (stream !== last) waitForTurn(state);
      last = stream;
      return write(...args);
    };
    hide(stream, { write: inTurn });
  }
}

// A write that was cut off counts as one that is under way, and all later ones would wait for it.
function renewOutputs() {
  for (const stream of [process.stdout, process.stderr].filter((one) => one instanceof net.Socket)) {
    stream._writableState = new Writable.WritableState({ decodeStrings: false, emitClose: false }, stream, true);
  }
}

function waitForTurn({ cell, turn, say }) {
  if (!cell || cell.isImpatient) return;
  const before = Atomics.load(turn, 0);
  say({ type: 'turn' });
  cell.isImpatient = Atomics.wait(turn, 0, before, PATIENCE_MS) === 'timed-out';
}

// ---- ends

// Nothing after it runs, not even `finally`: the control thread cuts this one off while it waits.
function exitOf(state) {
  const never = new Int32Array(new SharedArrayBuffer(4));
  return (code = process.exitCode ?? 0) => {
    if (state.cell) state.cell.exitCode = Number(code) | 0;
    state.say({ type: 'exit' });
    for (;;) Atomics.wait(never, 0, 0);
  };
}

// A cell that is interrupted while it waits for a timer would go on when the timer fires.
function watchTimers(state) {
  const later = require('node:timers/promises');
  for (const name of ['setTimeout', 'setInterval', 'setImmediate']) {
    const original = timers[name];
    const watched = { [name]: (...args) => remember(state, original(...args)) }[name];
    if (name !== 'setInterval') {
      later[name] = waitOf(state, later[name]);
      Object.defineProperty(watched, util.promisify.custom, { value: later[name], configurable: true });
    }
    timers[name] = watched;
    hide(globalThis, { [name]: watched });
  }
}

function remember(state, timer) {
  const watched = state.cell?.timers;
  if (!watched) return timer;
  watched.add(timer);
  if (watched.size % TIDY_TIMERS_AT === 0) watched.forEach((one) => one._destroyed && watched.delete(one));
  return timer;
}

// `await setTimeout(…)` of `timers/promises`: once its cell is over by an interrupt, it never comes back.
function waitOf(state, original) {
  return (...args) => {
    const { cell } = state;
    const lives = () => !cell?.cut;
    return new Promise((done, failed) => {
      original(...args).then((value) => lives() && done(value), (error) => lives() && failed(error));
    });
  };
}

module.exports = { furnish, renewOutputs };
