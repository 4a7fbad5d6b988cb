// What is carried from others is what its page says.
'use strict';
const assert = require('node:assert');
const { createHash } = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');
const { test } = require('node:test');

test('the vendored file has the hash of its page', () => {
  const read = (name) => fs.readFileSync(path.join(__dirname, '../vendor/sucrase', name));
  const hash = createHash('sha256').update(read('sucrase.min.cjs')).digest('hex');
  assert.ok(read('README.md').includes(hash), hash);
});
