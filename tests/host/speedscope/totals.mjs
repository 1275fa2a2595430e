// Prints, for each file, what speedscope's own importer makes of it: node totals.mjs BUNDLE FILE…
// One line of JSON for each: {"total": …, "unit": "bytes", "frames": […]}.
//
// The npm package has nothing but the application, in one file. It hands its importers to itself as properties of an object: who defines
// these is watched. The application then fails for want of a page, which is no matter.
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
await null // the importers are ready after what was begun

for (const file of files) {
  const data = readFileSync(file)
  const group = await importers[IMPORTER](file, data.buffer.slice(data.byteOffset, data.byteOffset + data.length))
  const [profile] = group.profiles
  const frames = []
  profile.forEachFrame(frame => frames.push(frame.name))
  console.log(JSON.stringify({ total: profile.getTotalWeight(), unit: profile.getWeightUnit(), frames }))
}
process.exit(0)
