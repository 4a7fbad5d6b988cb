// A context for a test: the kernel as the host starts it, with a socket as descriptor 3.
'use strict';
const { spawn } = require('node:child_process');
const path = require('node:path');

const KERNEL = path.join(__dirname, '..', 'kernel.cjs');
const FLAGS = ['--no-warnings', '--no-force-async-hooks-checks'];

class Context {
  constructor(t, { language = 'javascript', cwd } = {}) {
    const stdio = ['ignore', 'pipe', 'pipe', 'pipe'];
    this.process = spawn(process.execPath, [...FLAGS, KERNEL, language], { stdio, cwd, detached: true });
    this.control = this.process.stdio[3];
    this.output = { stdout: '', stderr: '' };
    this.heard = [];
    this.runs = 0;
    this.rest = Buffer.alloc(0);
    this.listeners = new Set();
    for (const name of ['stdout', 'stderr']) {
      this.process[name].setEncoding('utf8').on('data', (text) => this.note(() => (this.output[name] += text)));
    }
    this.control.on('data', (bytes) => this.take(bytes));
    this.process.on('exit', (code, signal) => this.note(() => (this.gone = { code, signal })));
    t.after(() => this.process.kill('SIGKILL'));
  }

  note(change) {
    change();
    this.listeners.forEach((listener) => listener());
  }

  take(bytes) {
    this.rest = Buffer.concat([this.rest, bytes]);
    while (this.rest.length >= 4 && this.rest.length >= 4 + this.rest.readUInt32LE(0)) {
      const end = 4 + this.rest.readUInt32LE(0);
      const message = JSON.parse(this.rest.subarray(4, end).toString());
      this.rest = this.rest.subarray(end);
      if (message.type === 'turn' && !this.holdsTurns) this.send({ type: 'turn' });
      else this.note(() => this.heard.push(message));
    }
  }

  send(message) {
    const body = Buffer.from(JSON.stringify(message));
    const head = Buffer.alloc(4);
    head.writeUInt32LE(body.length);
    this.control.write(Buffer.concat([head, body]));
  }

  async until(isSo) {
    while (!isSo()) {
      if (this.gone) throw new Error(`the context is gone: ${JSON.stringify({ ...this.gone, ...this.output })}`);
      await new Promise((resolve) => {
        const listener = () => (this.listeners.delete(listener), resolve());
        this.listeners.add(listener);
      });
    }
  }

  // Runs a cell to its end. With `interruptAt` it is interrupted when that text was printed. Each has an id of its own, as from
  // the host: what the main thread says late about one cell is not about the next.
  async run(code, { env = {}, most_bytes = 8 << 20, once = false, interruptAt } = {}) {
    this.heard.length = 0;
    this.output.stdout = this.output.stderr = '';
    this.send({ type: 'run', id: `e${++this.runs}`, code, env, silent: false, most_bytes, once });
    if (interruptAt) {
      await this.until(() => this.output.stdout.includes(interruptAt));
      this.send({ type: 'interrupt' });
    }
    await this.until(() => this.heard.some(({ type }) => type === 'done'));
    return this.answer();
  }

  answer() {
    const results = this.heard.filter(({ type }) => type === 'result');
    return {
      results,
      text: results.find(({ main }) => main)?.data['text/plain'],
      error: this.heard.find(({ type }) => type === 'error'),
      dropped: this.heard.some(({ type }) => type === 'dropped'),
      exitCode: this.heard.find(({ type }) => type === 'done').exit_code,
      ...this.output,
    };
  }

  // The pipes and the socket are different ways: text may arrive after the end was told.
  async printed(name, text) {
    await this.until(() => this.output[name].includes(text));
    return this.output[name];
  }
}

async function context(t, options) {
  const made = new Context(t, options);
  await made.until(() => made.heard.some(({ type }) => type === 'ready'));
  return made;
}

module.exports = { context };
