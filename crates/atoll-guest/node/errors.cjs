// What code has thrown, as data: name, value and the lines of a traceback. Frames of Node and of this kernel are left
// out; a cell is called `cell_3.js`.
'use strict';
const path = require('node:path');
const util = require('node:util');

const MAX_VALUE_CHARS = 64 << 10;
const MAX_LINES = 200;
const MAX_LINE_CHARS = 4 << 10;
const FRAME = /^\s+at /;
const OURS = [__dirname + path.sep, 'node:', '[worker eval]'];

function describe(thrown) {
  try {
    const isError = util.types.isNativeError(thrown);
    const name = isError ? String(thrown.name) : 'Error';
    const value = isError ? String(thrown.message) : util.inspect(thrown);
    const lines = clean(util.inspect(thrown).split('\n'));
    return { name, value: cut(value, MAX_VALUE_CHARS), traceback: bounded(lines) };
  } catch {
    return { name: 'Error', value: 'error could not be displayed', traceback: [] };
  }
}

// Whether the code was refused before any of it ran: no frame of it is in the stack.
function isOfCompiler(thrown, number) {
  if (!util.types.isNativeError(thrown) || thrown.name !== 'SyntaxError') return false;
  const frames = String(thrown.stack).split('\n').filter((line) => FRAME.test(line));
  return frames.every(isOurs) || (frames[0] ?? '').trim() === `at cell_${number}.js:1:1`;
}

// Broken code, shown as Node does: the line, a mark below the place, the words.
function ofCompiler(thrown, details, { number, source, exact }) {
  const line = source.split('\n')[details.lineNumber] ?? '';
  const mark = exact ? [`${' '.repeat(details.columnNumber)}^`] : [];
  return broken(thrown.message, `cell_${number}.js:${details.lineNumber + 1}`, [line, ...mark]);
}

function broken(value, place, lines) {
  const head = `SyntaxError: ${value}`;
  return { name: 'SyntaxError', value: cut(value, MAX_VALUE_CHARS), traceback: bounded([place, ...lines, '', head]) };
}

// A frame that goes leaves the brace that opens the error's own fields.
function clean(lines) {
  const kept = [];
  for (const line of lines) {
    if (!FRAME.test(line) || !isOurs(line)) kept.push(line);
    else if (line.endsWith(' {') && kept.length > 0) kept[kept.length - 1] += ' {';
  }
  return kept;
}

function isOurs(line) {
  const isAt = (place) => line.includes(`(${place}`) || line.includes(`at ${place}`) || line.includes(`file://${place}`);
  return OURS.some(isAt);
}

function bounded(lines) {
  const left = lines.length - MAX_LINES;
  const kept = left > 0 ? [...lines.slice(0, MAX_LINES), `... ${left} more lines`] : lines;
  return kept.map((line) => cut(line, MAX_LINE_CHARS));
}

function cut(text, limit) {
  return text.length <= limit ? text : `${text.slice(0, limit)}... (${text.length - limit} more characters)`;
}

module.exports = { broken, describe, isOfCompiler, ofCompiler };
