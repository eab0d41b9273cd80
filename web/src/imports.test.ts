// Modules that import each other cannot be read, tested or loaded one at a time, so no import may lead back to its file.
import { expect, test } from "vitest"

const sources: Record<string, string> = import.meta.glob(["./**/*.{ts,tsx}", "../client/src/**/*.ts"], { query: "?raw", import: "default", eager: true })
const IMPORT = /(?:\bfrom|\bimport)\s*\(?\s*"(\.[^"]*)"/g

/** Return the files that a file imports, type-only and lazy imports included. */
function listImports(file: string): string[] {
  return [...sources[file]!.matchAll(IMPORT)].flatMap(([, specifier]) => resolveImport(file, specifier!) ?? [])
}

function resolveImport(from: string, specifier: string): string | undefined {
  const { pathname } = new URL(specifier, new URL(from, "file:///web/src/"))
  const path = pathname.replace("/web/src/", "./").replace("/web/", "../").replace(/\.js$|\/$/, "")
  return [`${path}.ts`, `${path}.tsx`, `${path}/index.ts`].find((candidate) => candidate in sources)
}

/** Return the files of the first cycle that a depth-first walk meets, or an empty list. */
function findCycle(graph: Map<string, string[]>): string[] {
  const finished = new Set<string>()
  const walk = (file: string, path: string[]): string[] => {
    if (path.includes(file)) return [...path.slice(path.indexOf(file)), file]
    if (finished.has(file)) return []
    for (const imported of graph.get(file) ?? []) {
      const cycle = walk(imported, [...path, file])
      if (cycle.length) return cycle
    }
    finished.add(file)
    return []
  }
  for (const file of graph.keys()) {
    const cycle = walk(file, [])
    if (cycle.length) return cycle
  }
  return []
}

test("no import leads back to the file that it is in", () => {
  const graph = new Map(Object.keys(sources).map((file) => [file, listImports(file)]))
  expect(graph.get("./main.tsx")).toContain("./app/App.tsx")
  expect(graph.get("../client/src/index.ts")).toContain("../client/src/client.ts")
  expect(findCycle(graph)).toEqual([])
})

test("a cycle is found wherever it begins", () => {
  expect(findCycle(new Map([["a", ["b"]], ["b", ["c"]], ["c", ["b"]]]))).toEqual(["b", "c", "b"])
})
