import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { constants, gzipSync } from "node:zlib";
import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";

const OUTPUT = "../src/fairlead/_ui";
const SERVER = process.env.FAIRLEAD_URL ?? "http://127.0.0.1:8470";
const COMPRESSIBLE = /\.(js|css|html|svg|json)$/;

/** Writes a gzipped copy next to each text file larger than 1 KiB. The server sends these copies. */
function compress(): Plugin {
  return {
    name: "compress",
    apply: "build",
    closeBundle() {
      for (const entry of readdirSync(OUTPUT, { recursive: true, withFileTypes: true })) {
        const file = join(entry.parentPath, entry.name);
        if (!entry.isFile() || !COMPRESSIBLE.test(file) || entry.name === "index.html") continue;
        const content = readFileSync(file);
        if (content.length > 1024) {
          writeFileSync(`${file}.gz`, gzipSync(content, { level: constants.Z_BEST_COMPRESSION }));
        }
      }
    },
  };
}

export default defineConfig({
  plugins: [react(), compress()],
  build: { outDir: OUTPUT, emptyOutDir: true, assetsInlineLimit: 0, chunkSizeWarningLimit: 700 },
  server: {
    proxy: {
      "^/(api|login)": { target: SERVER, changeOrigin: true, headers: { origin: SERVER } },
    },
  },
});
