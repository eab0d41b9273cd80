import react from "@vitejs/plugin-react"
import { defineConfig } from "vitest/config"

// URLs are relative, so that the page works under any prefix.
export default defineConfig({
  base: "./",
  plugins: [react()],
  build: {
    outDir: "../src/toolyard/page",
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0, // nothing inline: the Content-Security-Policy forbids it
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 1000,
    license: { fileName: "licenses.md" }, // of the packages in the page
  },
  test: { include: ["src/**/*.test.ts"] },
  server: { proxy: { "^/(?!@|src|node_modules|assets|$|\\?)": "http://127.0.0.1:8080" } },
})
