import react from "@vitejs/plugin-react"
import { defineConfig } from "vite"

export default defineConfig({
  root: "page",
  base: "./",
  plugins: [react()],
  build: {
    outDir: "../dist",
    emptyOutDir: true,
    rolldownOptions: { input: ["page/index.html", "page/assistant-ui.html"] },
  },
  // `npm run dev` shows changes at once; the server is the one that `make react-chat` serves.
  server: { proxy: { "/api": "http://127.0.0.1:8092" } },
})
