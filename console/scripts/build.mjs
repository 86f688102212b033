// Builds the console into the folder that zero-gateway embeds, or into the folder that is named.
import { cpSync, mkdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = fileURLToPath(new URL("..", import.meta.url));
const target = process.argv[2] ?? `${root}/../crates/zero-gateway/console`;
mkdirSync(target, { recursive: true });
const options = {
  absWorkingDir: root,
  bundle: true,
  minify: true,
  legalComments: "none",
  target: ["chrome137", "firefox129", "safari17"],
  logLevel: "warning",
};
await build({
  ...options,
  entryPoints: { app: "src/main.tsx" },
  outdir: target,
  format: "esm",
  jsx: "automatic",
  jsxImportSource: "preact",
});
await build({ ...options, entryPoints: { worker: "src/worker.ts" }, outdir: target, format: "iife" });
for (const file of ["index.html", "manifest.webmanifest", "icon.svg", "icon.png"]) {
  cpSync(`${root}/static/${file}`, `${target}/${file}`);
}
