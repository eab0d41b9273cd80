// The document that draws diagrams, built apart from the page. Its origin is opaque, so that for the server its requests come
// from another site: everything is in the one document, and it requests nothing.
import { defineConfig, type Plugin } from "vite"

const DOCUMENT = (script: string) => `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <title>Diagram</title>
    <style>body { margin: 0; overflow: hidden } svg { display: block; margin: 0 auto }</style>
  </head>
  <body><script>${script}</script></body>
</html>
`

const writeDocument: Plugin = {
  name: "write-document",
  generateBundle: {
    order: "post", // after Vite has listed the licenses of what the script holds
    handler(_options, bundle) {
      const [entry, ...others] = Object.values(bundle).filter((file) => file.type === "chunk")
      if (!entry || others.length) throw new Error("the frame of diagrams has to be one script")
      delete bundle[entry.fileName]
      // Texts in the script that would end its element.
      const script = entry.code.replace(/<(?=\/script|!--)/gi, "\\x3c")
      this.emitFile({ type: "asset", fileName: "diagram.html", source: DOCUMENT(script) })
    },
  },
}

export default defineConfig({
  plugins: [writeDocument],
  // A second layout engine, of 1.6 MB, which the frame does not use: see LAYOUT in frame.ts.
  resolve: { alias: { "elkjs/lib/elk.bundled.js": "/src/diagram/noElk.ts" } },
  build: {
    outDir: "../src/toolyard/page",
    emptyOutDir: false, // the page was built there before
    target: "es2022",
    chunkSizeWarningLimit: 5000,
    license: { fileName: "diagram-licenses.md" }, // of the packages in the document
    reportCompressedSize: false,
    rolldownOptions: {
      transform: { define: { "import.meta": "{}" } }, // of code that is not reached in this format
      input: "src/diagram/frame.ts",
      output: { format: "iife", codeSplitting: false },
    },
  },
})
