import { readdir, readFile, writeFile } from "node:fs/promises"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import { gzip } from "node:zlib"
import tailwindcss from "@tailwindcss/vite"
import react from "@vitejs/plugin-react"
import type { Plugin } from "vite"
import { defineConfig } from "vitest/config"

const folder = fileURLToPath(new URL("../src/muster/server/platform/ui", import.meta.url))

/** Compresses the assets once at build time, so that the server does not have to. */
function packed(): Plugin {
  return {
    name: "packed",
    apply: "build",
    async closeBundle() {
      const assets = `${folder}/assets`
      for (const name of await readdir(assets).catch(() => [] as string[])) {
        const content = await readFile(`${assets}/${name}`)
        if (name.endsWith(".gz") || content.length < 1024) continue
        await writeFile(`${assets}/${name}.gz`, await promisify(gzip)(content, { level: 9 }))
      }
    },
  }
}

export default defineConfig({
  plugins: [react(), tailwindcss(), packed()],
  resolve: { alias: { "@": fileURLToPath(new URL("src", import.meta.url)) } },
  build: {
    outDir: folder,
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 2000,
    modulePreload: { polyfill: false },
  },
  server: { proxy: { "/api": process.env.MUSTER_URL ?? "http://127.0.0.1:8265" } },
  test: { include: ["tests/**/*.test.ts"], environment: "node" },
})
