// Files: read, write in every form, list, move, remove, watch, metadata, packed uploads, signed addresses.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { gzipSync } from 'node:zlib'

import { Sandbox } from '@e2b/code-interpreter'
import { FilesystemEventType, FileType, InvalidArgumentError, NotFoundError } from 'e2b'

import { until, withSandbox } from './server.mjs'

test('files', () =>
  withSandbox(Sandbox, {}, async ({ files }) => {
    const info = await files.write('notes/ä b.txt', 'grüße')
    assert.equal(info.path, '/home/user/notes/ä b.txt')
    assert.equal(await files.read('notes/ä b.txt'), 'grüße')
    assert.deepEqual([await files.exists('/home/user/notes'), await files.exists('nothing')], [true, false])
    await assert.rejects(files.read('nothing'), NotFoundError)
    const entry = await files.getInfo('notes/ä b.txt')
    assert.deepEqual([entry.type, entry.size, entry.permissions, entry.owner], [FileType.FILE, 7, '-rw-r--r--', 'user'])
    assert.deepEqual([await files.makeDir('deep/er'), await files.makeDir('deep/er')], [true, false])
    assert.equal((await files.rename('notes/ä b.txt', 'deep/er/c.txt')).path, '/home/user/deep/er/c.txt')
    const listed = await files.list('/home/user/deep', { depth: 2 })
    assert.deepEqual(listed.map((one) => one.path), ['/home/user/deep/er', '/home/user/deep/er/c.txt'])
    await files.remove('deep')
    await files.remove('deep')
    assert.equal(await files.exists('deep'), false)
    await assert.rejects(files.list('/etc/hostname'), InvalidArgumentError)
    await assert.rejects(files.list('missing'), NotFoundError)
  }))

test('every form of data goes in and comes out', () =>
  withSandbox(Sandbox, {}, async ({ files }) => {
    const bytes = Uint8Array.from({ length: 300_000 }, (_, index) => index % 251)
    const several = await files.write([{ path: 'a', data: '1' }, { path: 'b', data: new Blob(['2']) }])
    assert.deepEqual(several.map((one) => one.path), ['/home/user/a', '/home/user/b'])
    await files.write('c', bytes.buffer)
    assert.deepEqual(await files.read('c', { format: 'bytes' }), bytes)
    assert.equal((await (await files.read('c', { format: 'blob' })).arrayBuffer()).byteLength, bytes.length)
    await files.write('d', new Blob([bytes]).stream())
    const pieces = []
    for await (const piece of await files.read('d', { format: 'stream' })) pieces.push(piece)
    assert.ok(Buffer.concat(pieces).equals(Buffer.from(bytes)))
    await files.write('empty', '')
    assert.equal(await files.read('empty'), '')
  }))

test('packed uploads are unpacked', () =>
  withSandbox(Sandbox, {}, async ({ files, commands }) => {
    const text = 'all work and no play\n'.repeat(50_000)
    await files.write('packed', text, { gzip: true })
    assert.equal((await commands.run('wc -c < packed')).stdout.trim(), String(text.length))
    assert.equal(await files.read('packed', { gzip: true }), text)
    await files.write('plain', text, { useOctetStream: true })
    assert.equal(await files.read('plain'), text)
  }))

test('packed uploads by a plain client, whole and broken', () =>
  withSandbox(Sandbox, {}, async (sandbox) => {
    const url = await sandbox.uploadUrl('/tmp/plain')
    const send = (body) =>
      fetch(url, { method: 'POST', body, headers: { 'Content-Type': 'application/octet-stream', 'Content-Encoding': 'gzip' } })
    assert.equal((await send(gzipSync('hello'))).status, 200)
    assert.equal(await sandbox.files.read('/tmp/plain'), 'hello')
    assert.equal((await send(gzipSync('other').subarray(0, 12))).status, 400)
    assert.equal((await send('not packed at all')).status, 400)
    assert.equal(await sandbox.files.read('/tmp/plain'), 'hello', 'what was broken wrote nothing')
  }))

test('signed addresses', () =>
  withSandbox(Sandbox, {}, async (sandbox) => {
    const upload = await sandbox.uploadUrl('/tmp/a b.txt')
    const form = new FormData()
    form.append('file', new Blob(['signed']), 'ignored')
    assert.equal((await fetch(upload, { method: 'POST', body: form })).status, 200)
    const download = await sandbox.downloadUrl('/tmp/a b.txt', { useSignatureExpiration: 600 })
    assert.equal(await (await fetch(download)).text(), 'signed')
    const late = await fetch(await sandbox.downloadUrl('/tmp/a b.txt', { useSignatureExpiration: -10 }))
    assert.deepEqual([late.status, await late.json()], [401, { code: 401, message: 'signature is already expired' }])
    const moved = await fetch(download.replace('a%20b.txt', 'other').replace('a+b.txt', 'other'))
    assert.equal(moved.status, 401)
    assert.equal((await fetch(download, { method: 'POST', body: form })).status, 401)
  }))

test('changes are streamed', () =>
  withSandbox(Sandbox, {}, async ({ files }) => {
    const seen = []
    await files.makeDir('w')
    const handle = await files.watchDir('w', (event) => seen.push(event), { recursive: true })
    await files.write('w/new.txt', 'hello')
    await until('three events', 120_000, () => seen.length >= 3)
    const { CREATE, CHMOD, WRITE } = FilesystemEventType
    assert.deepEqual(seen.map((event) => [event.name, event.type]), [CREATE, CHMOD, WRITE].map((type) => ['new.txt', type]))
    await files.write('w/sub/x', '1')
    await until('a change below', 120_000, () => seen.some((event) => event.name === 'sub/x'))
    await handle.stop()
    await assert.rejects(files.watchDir('missing', () => {}), NotFoundError)
  }))

test('metadata of files', () =>
  withSandbox(Sandbox, {}, async (sandbox) => {
    const url = await sandbox.uploadUrl('/tmp/m')
    const send = async (headers) => {
      const type = { 'Content-Type': 'application/octet-stream' }
      const answer = await fetch(url, { method: 'POST', body: 'x', headers: { ...type, ...headers } })
      return (await answer.json())[0].metadata
    }
    assert.deepEqual(await send({ 'X-Metadata-Author': 'me', 'X-Metadata-Kind': 'note' }), { author: 'me', kind: 'note' })
    assert.equal(await send({}), undefined, 'the whole set is replaced')
  }))
