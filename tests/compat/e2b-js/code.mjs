// Code: results, charts, output, errors, contexts, languages, giving up.

import assert from 'node:assert/strict'
import { test } from 'node:test'

import { Sandbox } from '@e2b/code-interpreter'
import { NotFoundError, TimeoutError } from 'e2b'

import { until, withSandbox } from './server.mjs'

const CSV = 'city,sales\nOslo,3\nRoma,5\nOslo,4\n'
const CHART = `
import pandas as pd, matplotlib.pyplot as plt
df = pd.read_csv('sales.csv')
df.groupby('city').sales.sum().plot.bar()
plt.savefig('/tmp/plot.png')
plt.show()
int(df.sales.sum())
`

test('the snippet that people copy', async () => {
  const sandbox = await Sandbox.create()
  await sandbox.files.write('/home/user/sales.csv', CSV)
  const execution = await sandbox.runCode(CHART)
  assert.equal(execution.error, undefined)
  assert.equal(execution.text, '12')
  const [picture] = execution.results.filter((result) => result.png)
  assert.ok(Buffer.from(picture.png, 'base64').subarray(1, 4).equals(Buffer.from('PNG')))
  const [chart] = execution.results.map((result) => result.chart).filter(Boolean)
  assert.equal(chart.type, 'bar')
  assert.deepEqual(chart.elements.map((bar) => [bar.label, Number(bar.value)]), [['Oslo', 7], ['Roma', 5]])
  const saved = await sandbox.files.read('/tmp/plot.png', { format: 'bytes' })
  assert.deepEqual([...saved.subarray(1, 4)], [...Buffer.from('PNG')])
  await sandbox.kill()
  assert.equal(await sandbox.isRunning(), false)
})

test('state, output, errors and counts', () =>
  withSandbox(Sandbox, {}, async (sandbox) => {
    const heard = []
    const first = await sandbox.runCode("x = 41\nprint('eins')", { onStdout: (said) => heard.push(said.line) })
    assert.deepEqual(first.logs.stdout, ['eins\n'])
    assert.equal(heard.join(''), 'eins\n')
    const second = await sandbox.runCode('x + 1')
    assert.deepEqual([second.text, second.executionCount], ['42', 2])
    const errors = []
    const failed = await sandbox.runCode("import sys\nprint('warn', file=sys.stderr)\n1/0", {
      onError: (error) => errors.push(error.name),
    })
    assert.deepEqual([failed.error.name, failed.error.value], ['ZeroDivisionError', 'division by zero'])
    assert.match(failed.error.traceback, /1\/0/)
    assert.deepEqual([failed.logs.stderr, errors], [['warn\n'], ['ZeroDivisionError']])
    const strange = 'a\u2028b\u0085c é漢😀'
    assert.deepEqual((await sandbox.runCode(`print(${JSON.stringify(strange)})`)).logs.stdout, ['a\u2028b\u0085c é漢😀\n'])
  }))

test('tables arrive as html and as data', () =>
  withSandbox(Sandbox, {}, async (sandbox) => {
    const { results } = await sandbox.runCode("import pandas as pd\npd.DataFrame({'a': [1, 2]})")
    assert.match(results[0].html, /<table/)
    assert.deepEqual(results[0].data, { a: [1, 2] })
    assert.equal(results[0].isMainResult, true)
  }))

test('contexts', () =>
  withSandbox(Sandbox, {}, async (sandbox) => {
    const one = await sandbox.createCodeContext()
    const other = await sandbox.createCodeContext({ cwd: '/tmp', language: 'python' })
    await sandbox.runCode('y = 1', { context: one })
    assert.equal((await sandbox.runCode("'y' in globals()", { context: other })).text, 'False')
    assert.equal((await sandbox.runCode('import os; os.getcwd()', { context: other })).text, '/tmp')
    const known = (await sandbox.listCodeContexts()).map((context) => context.id)
    assert.ok(known.includes(one.id) && known.includes(other.id))
    await sandbox.restartCodeContext(one)
    assert.equal((await sandbox.runCode("'y' in globals()", { context: one })).text, 'False')
    await sandbox.removeCodeContext(other)
    const left = (await sandbox.listCodeContexts()).map((context) => context.id)
    assert.ok(!left.includes(other.id))
    await assert.rejects(sandbox.runCode('1', { context: other }), NotFoundError)
  }))

test('languages and environment', () =>
  withSandbox(Sandbox, { envs: { A: 'sandbox' } }, async (sandbox) => {
    const said = async (code, options) => (await sandbox.runCode(code, options)).logs.stdout.join('')
    assert.equal(await said("import os; print(os.environ['A'])"), 'sandbox\n')
    assert.equal(await said("import os; print(os.environ['B'])", { envs: { B: 'cell' } }), 'cell\n')
    assert.equal(await said("import os; print(os.environ.get('B'))"), 'None\n')
    assert.equal(await said('echo $A', { language: 'bash' }), 'sandbox\n')
    assert.equal(await said('console.log(1 + 1)', { language: 'javascript' }), '2\n')
    assert.equal((await sandbox.runCode('const z = 6; z * 7', { language: 'js' })).text, '42')
  }))

test('a client that gives up interrupts the code', () =>
  withSandbox(Sandbox, {}, async (sandbox) => {
    await sandbox.runCode('import time\nz = 7')
    const sleeps = sandbox.runCode('time.sleep(600)', { timeoutMs: 2_000 })
    await assert.rejects(sleeps, TimeoutError)
    assert.equal((await sandbox.runCode('z', { timeoutMs: 120_000 })).text, '7')
  }))

test('a sandbox that is killed ends what runs in it with an error', async () => {
  const sandbox = await Sandbox.create()
  let told
  const running = sandbox.runCode("import time\nprint('on', flush=True)\ntime.sleep(600)", {
    onStdout: (said) => { told = said.line },
  })
  const refused = assert.rejects(running)
  await until('the first output', 120_000, () => told)
  await sandbox.kill()
  await refused
})

test('ten at once do not meet', async () => {
  const one = (number) =>
    withSandbox(Sandbox, {}, async (sandbox) => {
      await sandbox.runCode(`me = ${number}`)
      return (await sandbox.runCode('me')).text
    })
  const numbers = [...Array(10).keys()]
  assert.deepEqual(await Promise.all(numbers.map(one)), numbers.map(String))
})
