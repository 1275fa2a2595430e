// node totals.mjs BUNDLE FILE…: imports each file with speedscope's own importer, and prints a line of JSON for each:
// {"total": …, "unit": "bytes", "frames": […]}.
//
// The npm package has only the bundled application, BUNDLE, which exports nothing. But the bundle defines its importer functions by
// Object.defineProperty on an internal object, so a replaced defineProperty finds that object. The application then fails because there is
// no HTML document; this error is ignored.
import { readFileSync } from 'node:fs'
import vm from 'node:vm'

const IMPORTER = 'importProfilesFromArrayBuffer'
const [bundle, ...files] = process.argv.slice(2)
let importers
const context = vm.createContext({ TextDecoder, found: object => { importers = object } })
vm.runInContext(`
  globalThis.self = globalThis.window = globalThis
  location = { hash: '', search: '', protocol: 'file:' }
  console = { log() {}, assert() {}, warn() {}, error() {} }
  const define = Object.defineProperty
  Object.defineProperty = (object, name, how) => { if (name === '${IMPORTER}') found(object); return define(object, name, how) }`, context)
process.on('unhandledRejection', () => {})
try {
  vm.runInContext(readFileSync(bundle, 'utf8'), context)
} catch (error) {
  if (!/document/.test(error.message)) throw error
}
await null // lets the bundle's pending promises run: the importers are ready after them

for (const file of files) {
  const data = readFileSync(file)
  const group = await importers[IMPORTER](file, data.buffer.slice(data.byteOffset, data.byteOffset + data.length))
  const [profile] = group.profiles
  const frames = []
  profile.forEachFrame(frame => frames.push(frame.name))
  console.log(JSON.stringify({ total: profile.getTotalWeight(), unit: profile.getWeightUnit(), frames }))
}
process.exit(0)
