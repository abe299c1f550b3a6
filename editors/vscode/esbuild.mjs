// Three bundles: the extension and its thread for Node, the panel for the browser. `--production` makes them small.
import { build } from "esbuild";

const production = process.argv.includes("--production");
const common = {
  bundle: true,
  minify: production,
  sourcemap: production ? false : "linked",
  logLevel: "warning",
};
await Promise.all([
  build({
    ...common,
    entryPoints: ["src/extension.ts", "src/tokens.mts"],
    outdir: "dist",
    platform: "node",
    // Of `jsonc-parser`, what `main` names cannot be bundled.
    mainFields: ["module", "main"],
    target: "node20",
    format: "cjs",
    external: ["vscode"],
  }),
  build({
    ...common,
    entryPoints: ["webview/main.ts", "webview/panel.css"],
    outdir: "dist/webview",
    platform: "browser",
    target: "es2022",
    format: "iife",
  }),
]);
